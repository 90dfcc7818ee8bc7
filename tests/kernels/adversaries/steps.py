"""The JSON of key steps, and the maximum of steps."""

from __future__ import annotations

from itertools import cycle, islice
from string import ascii_lowercase

from tests.cases import answer

from .building import KEY_LINE, REFERENCE, Rollout, adversary, filled, key, letters, one_step


@adversary
def escapes(size: int) -> Rollout:
    return answer(KEY_LINE.replace("pbs", "\\u0070bs" + filled("\\u0061", size))), REFERENCE


@adversary
def short_escapes(size: int) -> Rollout:
    return answer(KEY_LINE.replace("pbs", "pbs" + filled("\\n\\t", size))), REFERENCE


@adversary
def surrogate_pairs(size: int) -> Rollout:
    return answer(KEY_LINE.replace("pbs", "pbs" + filled("\\ud835\\udfd8", size))), REFERENCE


def with_value(value: str) -> Rollout:
    """Return a valid step whose array of objects occurs twice; the last of two equal names wins."""
    return answer(KEY_LINE.replace('"objects"', f'"objects": {value}, "objects"')), REFERENCE


@adversary
def nested_json(size: int) -> Rollout:
    return with_value("[" + ",".join(["[" * 97 + "]" * 97] * (size // 195)) + "]")


@adversary
def nested_objects(size: int) -> Rollout:
    return with_value("[" + ",".join(['{"":' * 97 + "0" + "}" * 97] * (size // 487)) + "]")


@adversary
def numbers_in_an_array(size: int) -> Rollout:
    return with_value("[" + filled("1,", size) + "1]")


@adversary
def small_objects_in_an_array(size: int) -> Rollout:
    return with_value("[" + filled("{},", size) + "[]]")


@adversary
def equal_names(size: int) -> Rollout:
    return answer(KEY_LINE.replace('"objects"', filled('"objects":[],', size) + '"objects"')), REFERENCE


@adversary
def empty_objects(size: int) -> Rollout:
    return one_step(objects=["pbs"] + [""] * (size // 4))


@adversary
def one_letter_objects(size: int) -> Rollout:
    return one_step("add pbs 5 min " + ascii_lowercase, objects=list(islice(cycle(ascii_lowercase), size // 5)))


@adversary
def two_letter_objects(size: int) -> Rollout:
    return one_step("add pbs 5 min " + " ".join(letters(2)), objects=list(islice(cycle(letters(2)), size // 6)))


def many_steps(size: int, actions: str, key_step: str = '{{"action":"{}","objects":[],"parameters":[]}}') -> Rollout:
    """Return as many of the smallest steps as fit, at most 1,024, and a reference of as many."""
    count = min(1024, size // 75)
    chosen = list(islice(cycle(actions), count))
    lines = "\n".join(f"Step {i}:{key_step.format(action)}" for i, action in enumerate(chosen, 1))
    orc = "\n".join(f"Step {i}:{action}" for i, action in enumerate(chosen, 1))
    return answer(lines, orc), "\n".join(lines.split("\n")[::-1])


@adversary
def terms_of_many_sizes(size: int) -> Rollout:
    """Anchors whose terms take several partials to sum: every step is one place off, with other shares of objects."""
    count = min(1023, size // 150)
    names = ["".join(pair) for pair in islice(letters(2), count)]
    steps = [
        {"action": name, "objects": list("bcdefghijk"[: 1 + k % 9]), "parameters": []} for k, name in enumerate(names)
    ]
    orc = "\n".join(f"Step {i}: {step['action']} {' '.join(step['objects'])}" for i, step in enumerate(steps, 1))
    shifted = key({**steps[0], "action": "zz9"}, *({**step, "objects": ["b"]} for step in steps))
    return answer(key(*steps), orc), shifted


@adversary
def alternating_actions(size: int) -> Rollout:
    return many_steps(size, "ab")


@adversary
def many_kinds_of_actions(size: int) -> Rollout:
    return many_steps(size, ascii_lowercase + "0123456789")


@adversary
def steps_with_equal_objects(size: int) -> Rollout:
    step = '{{"action":"{0}","objects":["{0}","{0}","{0}","{0}","{0}","{0}"],"parameters":["{0}"]}}'
    return many_steps(size, "ab", step)
