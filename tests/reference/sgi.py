"""SGI-WetExperiment's metrics by their definition: steps by regular expressions, pairs one by one."""

import re
from itertools import combinations

STEP = re.compile(r"(\w+)\s*=\s*<([^>]+)>\(\s*([\s\S]*?)(?=\n\s*\)\s*$)", re.MULTILINE)
PARAMETER = re.compile(r"^\s*(\w+)\s*=\s*(.*?)\s*(?:,)?\s*$")


def steps_in(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Return the action, the parameters and the output of each step."""
    steps = []
    for output, action, body in STEP.findall(text):
        lines = [line.strip() for line in body.strip().split("\n")]
        found = [match for line in lines if line not in ("", ")") and (match := PARAMETER.match(line))]
        steps.append((action.strip(), {match[1]: unquoted(match[2].strip()) for match in found}, output))
    return steps


def unquoted(value: str) -> str:
    return value[1:-1] if value.startswith('"') and value.endswith('"') else value


def scores(reference: str, answer: str) -> tuple[float, float, float] | None:
    """Return the similarity of the actions, the parameters' accuracy and their mean; None without any step."""
    ours, theirs = steps_in(reference), steps_in(answer)
    if not ours and not theirs:
        return None
    similarity = similarity_of([step[0] for step in ours], [step[0] for step in theirs])
    accuracy = 1 - errors_in(ours, theirs) / max(len(ours), len(theirs))
    return similarity, accuracy, (similarity + accuracy) / 2


def similarity_of(ours: list[str], theirs: list[str]) -> float:
    if len(ours) != len(theirs):
        return 0.0
    pairs = list(combinations(range(len(ours)), 2))
    opposite = sum(
        (ours[i] < ours[j] and theirs[i] > theirs[j]) or (ours[i] > ours[j] and theirs[i] < theirs[j]) for i, j in pairs
    )
    return 1 - opposite / len(pairs) if pairs else 1.0


def errors_in(ours: list[tuple[str, dict[str, str], str]], theirs: list[tuple[str, dict[str, str], str]]) -> int:
    ours_made, theirs_made = {step[2] for step in ours}, {step[2] for step in theirs}
    same: dict[str, str] = {}
    errors = abs(len(ours) - len(theirs))
    for (action, inputs, output), (their_action, their_inputs, their_output) in zip(ours, theirs, strict=False):
        wrong = action != their_action or set(inputs) != set(their_inputs)
        for key in () if wrong else inputs:
            value, their_value = inputs[key], their_inputs[key]
            made = value in ours_made
            wrong = wrong or made != (their_value in theirs_made) or (made and same.get(their_value) != value)
        if wrong:
            errors += 1
        else:
            same[their_output] = output
    return errors
