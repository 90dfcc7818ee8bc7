"""Rows of SCORE, PQA, ORD and ERR with answers, what the product's commands report on them, and runs of READMEs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from assay_client.tasks import COMPONENTS, OWN_COMPONENTS, has_passed
from assay_environments.scoring import METRICS
from tests.environments.readmes import SECONDS, blocks, ran
from tests.environments.samples import Sample, write_rows
from tests.environments.stand_in import MODEL, stand_in

__all__ = ["BY_TASK", "SAMPLES", "chosen", "mean_of", "reported", "run", "scored", "to_all"]

Step = tuple[str, list[str], list[str]]

STEPS: list[Step] = [
    ("add", ["pbs"], ["5 ml"]),
    ("centrifuge", ["tube"], ["10 min"]),
    ("discard", ["supernatant"], []),
    ("resuspend", ["pellet"], ["1 ml"]),
]
THINK = "<think>Wash first.</think>"


def key(steps: Sequence[Step]) -> str:
    """Return the lines of a key section."""
    lines = [{"action": action, "objects": objects, "parameters": parameters} for action, objects, parameters in steps]
    return "\n".join(f"Step {k}: {json.dumps(line)}" for k, line in enumerate(lines, 1))


def answered(steps: Sequence[Step], think: str = THINK, after: str = "") -> str:
    """Return an answer with these steps; `after` follows the last section."""
    orc = "\n".join(f"Step {k}: {' '.join([one, *two, *three])}." for k, (one, two, three) in enumerate(steps, 1))
    return f"{think}\n<key>\n{key(steps)}\n</key>\n<orc>\n{orc}\n</orc>\n<note>Cold.</note>{after}"


def marked(text: str) -> str:
    return f"[ANSWER_START]{text}[ANSWER_END]"


PLANS: list[tuple[str, int, str]] = [
    ("planning", 4, answered(STEPS)),
    ("planning", 2, answered([STEPS[1], STEPS[0]])),
    ("overview", 3, answered(STEPS[:2])),
    ("specific", 4, "Just spin it down."),
    ("retrieval", 2, answered([STEPS[0], ("centrifuge", ["plate"], ["10 min"])])),
    ("troubleshooting", 3, answered(STEPS[:3], f"Here it is. {THINK}")),
    ("constraint", 2, answered(STEPS[:2], "", after=THINK)),
    ("scaling", 3, answered(STEPS)),
    ("safety", 2, answered(STEPS[:2], "<think></think>")),
]
"""Type, number of steps of the reference, and answer: some would earn something else if <think> were elsewhere."""

ANSWERS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "bioprobench.pqa": [
        ({"answer": "2 h"}, marked("2 h & 90")),
        ({"answer": "2 h"}, marked("3 h & 80")),
        ({"answer": "37 °C"}, "It is 37 °C."),
        ({"answer": "5 ml"}, f"<think>Or 6?</think>{marked('5 ml & 60')}"),
    ],
    "bioprobench.ord": [
        ({"wrong_steps": ["b", "c", "a"], "correct_steps": ["a", "b", "c"]}, marked("[2, 0, 1]")),
        ({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}, marked("[0, 1]")),
        ({"wrong_steps": ["d", "b", "c", "a"], "correct_steps": ["a", "b", "c", "d"]}, marked("[3, 2, 1, 0]")),
        ({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}, "First a, then b."),
    ],
    "bioprobench.err": [
        ({"is_correct": False}, marked("False")),
        ({"is_correct": False}, marked("True")),
        ({"is_correct": True}, marked("False")),
        ({"is_correct": False}, marked("false")),
        ({"is_correct": True}, "perhaps"),
    ],
}


def sample(task: str, number: int, reference: str, answer: str, kind: str | None, level: str | None) -> Sample:
    name = f"{task}-{number}"
    prompt = [{"role": "user", "content": f"Question {name}.\n\n  What is to be done? "}]
    if task == "score":
        prompt = [{"role": "system", "content": f"Answer {name} as a biologist.\n"}, *prompt]
    columns = {"group": name, "level": level, "type": kind, "split": "test"}
    return Sample({"prompt": prompt, "reference": reference, "id": name, "task": task, **columns}, answer)


BY_TASK = {
    "score": [
        sample("score", k, key(STEPS[:n]), answer, kind, "1" if n < 4 else "2")
        for k, (kind, n, answer) in enumerate(PLANS)
    ]
} | {
    task: [sample(task, k, json.dumps(record), answer, None, None) for k, (record, answer) in enumerate(pairs)]
    for task, pairs in ANSWERS.items()
}
SAMPLES = [one for samples in BY_TASK.values() for one in samples]


def chosen(**where: str) -> list[Sample]:
    """Return the samples whose rows have these values."""
    return [one for one in SAMPLES if all(one.row[name] == value for name, value in where.items())]


def to_all(samples: Sequence[Sample]) -> dict[str, list[str]]:
    """Return the answers for the stand-in, each for a prompt with all messages of its row."""
    return {"\n".join(message["content"] for message in one.row["prompt"]): [one.answer] for one in samples}


def product(*words: str, records: Sequence[object]) -> bytes:
    """Run a command of the product on records and return what it writes."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    called = [*shlex.split(os.environ["ASSAY_COMMAND"]), *words]
    return subprocess.run(called, input=lines, env=clean, stdout=subprocess.PIPE, timeout=SECONDS, check=True).stdout


@cache
def scored() -> dict[str, dict[str, Any]]:
    """Return what `assay score` writes for each sample by its id: reward, reason, whether it passes, and components."""
    records = [{**one.row, "response": one.answer} for one in SAMPLES]
    written = product("score", "-", "--quiet", "--task-field", "task", "--include", "components", records=records)
    found = {}
    for row in map(json.loads, written.splitlines()):
        own = {name: row["components"][name] for name in OWN_COMPONENTS[row["task"]]}
        passed = has_passed(row["task"], row["components"])
        found[row["id"]] = {"reward": row["reward"], "reason": row["reason"], "passed": passed, "components": own}
    return found


@cache
def evaluated(task: str) -> dict[str, Any]:
    """Return what `assay evaluate` writes for the samples of a task, by type and level too."""
    records = [
        {**one.row, "response": one.answer} if task == "score" else {**json.loads(one.row["reference"]), **answer(one)}
        for one in BY_TASK[task]
    ]
    words = ("evaluate", "-", "--quiet", "--task", task, "--metrics", ",".join(METRICS[task]), "--json", "-")
    return json.loads(product(*words, *(["--by", "type,level"] if task == "score" else []), records=records))


def answer(one: Sample) -> dict[str, str]:
    return {"generated_response": one.answer}


def mean_of(samples: Sequence[Sample], name: str) -> float:
    """Return the mean of a value, or of a component, that `assay score` writes."""
    found = [scored()[one.row["id"]] for one in samples]
    return fmean(one[name] if name in one else one["components"][name] for one in found)


def reported(task: str, **where: str) -> dict[str, float]:
    """Return what the product's commands report on the samples of a task, or on those of one type or level."""
    values = evaluated(task)["aggregate"]
    for column, value in where.items():
        values = evaluated(task)["by"][column][value]
    names = ("reward", "passed", *(COMPONENTS if task == "score" else ()))
    means = {name: mean_of(chosen(task=task, **where), name) for name in names}
    return means | {name: values[name] for name in METRICS[task]}


def run(
    package: str, folder: Path, service: str, samples: Sequence[Sample], *, environ: dict[str, str], **meant: str
) -> subprocess.CompletedProcess[str]:
    """Run the README's commands on these rows, with a home of its own and without a network.

    meant: further words of the commands, each with what replaces it. `folder` is the working folder.
    """
    (folder / "prepared").mkdir()
    write_rows(folder / "prepared" / "test.jsonl", list(samples))
    (script,) = blocks(package, f"test_{package.removeprefix('assay_')}.py")
    with stand_in(to_all(samples)) as url:
        words = {"http://MODEL-HOST:8001/v1": url, "http://HOST:8000": service, "MODEL": MODEL, **meant}
        for word, replacement in words.items():
            assert word in script, f"no {word} in the README"
            script = script.replace(word, replacement)
        return ran(["bash", "-e", "-c", script], folder, **environ)
