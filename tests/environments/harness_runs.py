"""A prepared folder of all tasks with answers, what the product's commands report on them, and runs of READMEs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from assay_client.tasks import COMPONENTS, OWN_COMPONENTS, has_passed
from assay_environments.scoring import METRICS
from tests.environments.readmes import SECONDS, blocks, ran
from tests.environments.samples import Sample
from tests.environments.stand_in import MODEL, stand_in

__all__ = [
    "CONFIG",
    "answers",
    "assert_same_evaluation",
    "chosen",
    "mean_of",
    "means_of",
    "prepared",
    "reported",
    "run",
    "samples",
    "scored",
    "scores_of",
    "to_all",
    "write_answers",
]

CONFIG = '{"lexical": {"reward": "rouge_l"}}'
"""For ASSAY_CLIENT_CONFIG: without it, lexical rewards need a model that is not installed."""
REWARDED = {"scirecipe": "score", "bioprobench.gen": "lexical"}
"""The tasks that reward the rows which these tasks evaluate."""
EVALUATED = {
    *(name for names in METRICS.values() for name in names),
    "rouge_l",
    "function_precision",
    "function_recall",
}
"""Metrics that need no further packages."""

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
    orc = "\n".join(f"Step {k}: {' '.join([step, *two, *three])}." for k, (step, two, three) in enumerate(steps, 1))
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

CHOICES = {"question": "Which?", "choices": ["2 h", "3 h", "37 °C", "5 ml"]}
CONTEXT = {"context": {"purpose": "Clean glass.", "prior_step": "Rinse it.", "next_step": None}}
WRONG = {**CONTEXT, "corrupted_text": "Dry at 600 °C.", "corrected_text": "Dry at 60 °C.", "is_correct": False}
RIGHT = {**WRONG, "corrupted_text": None, "is_correct": True}
LISTED = {
    **{"system_prompt": "You know gels.", "instruction": "List the steps.", "input": "How is a gel made?"},
    "output": ["1. Weigh it.", "2. Melt it."],
}
PROGRAM = "def weigh(mass):\n    pass\n\nweigh(mass='1 g')\nmelt()\n"
PROTOCOL = {"title": "Gel", "description": "Of 1 %.", "steps": "1. Weigh it.", "generated_pseudocode": PROGRAM}


def shuffled(*steps: str) -> dict[str, Any]:
    """Return a record whose steps are in alphabetic order."""
    return {"question": "Sort the steps.", "wrong_steps": list(steps), "correct_steps": sorted(steps), "type": "top"}


ANSWERS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "bioprobench.pqa": [
        ({**CHOICES, "answer": "2 h"}, marked("2 h & 90")),
        ({**CHOICES, "answer": "2 h"}, marked("3 h & 80")),
        ({**CHOICES, "answer": "37 °C"}, "It is 37 °C."),
        ({**CHOICES, "answer": "5 ml"}, f"<think>Or 6?</think>{marked('5 ml & 60')}"),
    ],
    "bioprobench.ord": [
        (shuffled("b", "c", "a"), marked("[2, 0, 1]")),
        (shuffled("b", "a"), marked("[0, 1]")),
        (shuffled("d", "b", "c", "a"), marked("[3, 2, 1, 0]")),
        (shuffled("b", "a"), "First a, then b."),
    ],
    "bioprobench.err": [
        (WRONG, marked("False")),
        (WRONG, marked("True")),
        (RIGHT, marked("False")),
        (WRONG, marked("false")),
        (RIGHT, "perhaps"),
    ],
    "lexical": [
        (LISTED, "1. Weigh it.\n2. Melt it."),
        (LISTED, "<think>Hot.</think>1. Melt it.\n2. Weigh it."),
        (LISTED, "No."),
    ],
    "bioplanner": [(PROTOCOL, PROGRAM), (PROTOCOL, "weigh(mass='2 g')"), (PROTOCOL, "No.")],
}
"""Records as they are published, and answers."""
ASKING = ("question", "corrupted_text", "corrected_text", "input", "title")
"""Fields of records that are in prompts."""


def published() -> list[tuple[dict[str, Any], str]]:
    """Return the records of all tasks, each with an id and a prompt of its own, and answers to them."""
    plans = []
    for kind, n, answer in PLANS:
        gold = sections_of(answered(STEPS[:n]))
        plans.append(({"question": "How are cells washed?", "type": kind.capitalize(), **gold}, answer))
    return [
        (
            record | {"id": f"{task}-{k}"} | {name: f"{record[name]} ({k})" for name in ASKING if record.get(name)},
            answer,
        )
        for task, pairs in {"score": plans, **ANSWERS}.items()
        for k, (record, answer) in enumerate(pairs)
    ]


def sections_of(answer: str) -> dict[str, str]:
    return {name: text.strip() for name, text in re.findall(r"<(\w+)>(.*?)</\1>", answer, re.DOTALL)}


HOME = TemporaryDirectory(prefix="assay-")
"""Of the prepared folder and the files of answers, while the tests run."""


@cache
def prepared() -> Path:
    """Return the folder that `assay prepare` makes of the records, all in the split test."""
    home = Path(HOME.name)
    records = write_lines(home / "records.jsonl", [record for record, _ in published()])
    product("prepare", "--hold-out", records, "-o", home / "prepared", "--similarity", "1", "--quiet")
    return home / "prepared"


@cache
def samples() -> list[Sample]:
    """Return the rows of the prepared folder with answers."""
    answers = {record["id"]: answer for record, answer in published()}
    rows = map(json.loads, (prepared() / "test.jsonl").read_text(encoding="utf-8").splitlines())
    return [Sample(row, answers[row["id"]]) for row in rows]


def chosen(**where: str) -> list[Sample]:
    """Return the samples whose rows have these values."""
    return [sample for sample in samples() if all(sample.row[name] == value for name, value in where.items())]


def to_all(some: Sequence[Sample]) -> dict[str, list[str]]:
    """Return the answers for the stand-in, each for a prompt with all messages of its row."""
    return {"\n".join(message["content"] for message in sample.row["prompt"]): [sample.answer] for sample in some}


def write_lines(path: Path, records: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def product(*words: object) -> bytes:
    """Run a command of the product and return what it writes."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    called = [*shlex.split(os.environ["ASSAY_COMMAND"]), *map(str, words)]
    return subprocess.run(called, env=clean, stdout=subprocess.PIPE, timeout=SECONDS, check=True).stdout


@cache
def answers() -> Path:
    """Return a file with the answers to the rows of the folder."""
    return write_answers(Path(HOME.name) / "answers.jsonl", to_all(samples()))


def write_answers(path: Path, answers: Mapping[str, Sequence[str]]) -> Path:
    """Write the answers to all rows, by prompts as for the stand-in."""
    ids = zip(to_all(samples()), samples(), strict=True)
    return write_lines(
        path, ({"id": sample.row["id"], "response": text} for key, sample in ids for text in answers[key])
    )


def scores_of(file: Path, *flags: str) -> list[dict[str, Any]]:
    """Return what `assay score` writes for each answer in a file: reward, reason, whether it passes, and components."""
    words = ("--include", "components", "--option", "lexical.reward=rouge_l", "--quiet")
    scores = []
    for row in map(json.loads, product("score", prepared(), file, *words, *flags).splitlines()):
        own = {name: row["components"][name] for name in OWN_COMPONENTS[row["task"]]}
        passed = has_passed(row["task"], row["components"])
        about = {name: row[name] for name in ("id", "task", "reward", "reason")}
        scores.append({**about, "passed": passed, "components": own})
    return scores


@cache
def scored() -> dict[str, dict[str, Any]]:
    """Return what `assay score` writes for each sample by its id."""
    return {
        scores.pop("id"): {name: scores[name] for name in scores if name != "task"} for scores in scores_of(answers())
    }


def means_of(scores: Sequence[dict[str, Any]], task: str | None = None) -> dict[str, float]:
    """Return the means of reward, passed and SCORE's components over the scores, or over those of one task."""
    chosen = [score | score["components"] for score in scores if task in (None, score["task"])]
    names = ("reward", "passed", *(COMPONENTS if task == "score" else ()))
    return {name: fmean(sample[name] for sample in chosen) for name in names}


def evaluation_of(file: Path, *flags: str) -> dict[str, dict[str, Any]]:
    """Return what `assay evaluate` writes for a file of answers to the rows, by the task that rewards them."""
    words = ("--profile", "paper", "--metrics", ",".join(sorted(EVALUATED)), "--quiet", "--json", "-")
    tasks = json.loads(product("evaluate", prepared(), file, *words, *flags))["tasks"]
    return {REWARDED.get(task["task"], task["task"]): task for task in tasks}


@cache
def evaluated() -> dict[str, dict[str, Any]]:
    return evaluation_of(answers())


def assert_same_evaluation(log: Path, plain: Path) -> None:
    """Require the same metrics of two files with the same answers, over all rows and by type and level."""
    computed, expected = (
        {task: numbers(evaluation) for task, evaluation in evaluation_of(file).items()} for file in (log, plain)
    )
    assert set(computed) == set(expected) == {"score", *ANSWERS}
    for task, values in expected.items():
        assert computed[task] == pytest.approx(values, rel=0, abs=1e-12)


def numbers(task: dict[str, Any]) -> dict[tuple[str, ...], float | None]:
    """Return the metrics of an evaluation by their names, those of groups after the field and its value."""
    parts = {(field, value): part for field, groups in task["by"].items() for value, part in groups.items()}
    parts[()] = task["aggregate"]
    return {(*place, name): value for place, part in parts.items() for name, value in part.items()}


def mean_of(some: Sequence[Sample], name: str) -> float:
    """Return the mean of a value, or of a component, that `assay score` writes."""
    scores = [scored()[row.row["id"]] for row in some]
    return fmean(row[name] if name in row else row["components"][name] for row in scores)


def reported(task: str, **where: str) -> dict[str, float]:
    """Return what the product's commands report on the samples of a task, or on those of one type or level."""
    values = evaluated()[task]["aggregate"]
    for column, value in where.items():
        values = evaluated()[task]["by"][column][value]
    names = ("reward", "passed", *(COMPONENTS if task == "score" else ()))
    means = {name: mean_of(chosen(task=task, **where), name) for name in names}
    return means | {name: values[name] for name in METRICS.get(task, ())}


def run(
    package: str, folder: Path, service: str, *, environ: dict[str, str], **meant: str
) -> subprocess.CompletedProcess[str]:
    """Run the README's commands on the prepared rows, with a home of its own and without a network.

    meant: further words of the commands, each with what replaces it. `folder` is the working folder.
    """
    (script,) = blocks(package, f"test_{package.removeprefix('assay_')}.py")
    with stand_in(to_all(samples())) as url:
        words = {
            "http://MODEL-HOST:8001/v1": url,
            "http://HOST:8000": service,
            "MODEL": MODEL,
            "=prepared": f"={prepared()}",
            **meant,
        }
        for word, replacement in words.items():
            assert word in script, f"no {word} in the README"
            script = script.replace(word, replacement)
        return ran(["bash", "-e", "-c", script], folder, ASSAY_CLIENT_CONFIG=CONFIG, **environ)
