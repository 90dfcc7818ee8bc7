"""Test vectors, for Assay and for other implementations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..service.errors import AssayError, ScoringError
from ..service.explain.reading import canons
from ..service.rewards.batch import group_numbers
from ..service.rewards.scorer import Scorer
from ..service.rewards.scores import group_advantages
from ..service.settings import RULES_VERSION
from ..service.tasks.evaluation import evaluate

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "vectors"
KINDS = ("score", "steps", "words", "advantages", "evaluate")  # kinds of vectors; each has a file `KIND.jsonl`
EXPECTED = frozenset({"id", "expected", "hex"})  # fields that are not the input


class VectorsNotFound(AssayError):
    """There are no vectors for this version of the rules."""


class Vector(NamedTuple):
    id: str  # `KIND/GROUP/NAME`
    row: dict[str, Any]  # the row that an implementation gets: `id`, `kind` and the input
    expected: dict[str, Any]

    @property
    def group(self) -> str:
        return "/".join(self.id.split("/")[:2])


def read_vectors(kinds: Iterable[str] = KINDS) -> list[Vector]:
    return [case for kind in kinds for case in read_kind(kind)]


def read_kind(kind: str) -> list[Vector]:
    path = FOLDER / f"{kind}.jsonl"
    try:
        head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise VectorsNotFound(f"{path}: {error.strerror}") from None
    if (head["rules_version"], head["cases"]) != (RULES_VERSION, len(rows)):
        raise VectorsNotFound(f"{path} is incomplete, or not for version {RULES_VERSION} of the rules")
    vectors = []
    for row in rows:
        fields = {name: text_of_parts(value) for name, value in row.items() if name not in EXPECTED}
        vectors.append(Vector(row["id"], {"id": row["id"], "kind": kind, **fields}, row["expected"]))
    return vectors


def text_of_parts(value: Any) -> Any:
    """Return the text of parts, `[[text, times], …]`; any other value as it is."""
    is_parts = isinstance(value, list) and all(isinstance(part, list) for part in value) and value
    return "".join(text * times for text, times in value) if is_parts else value


TOLERANCE = 1e-9  # largest difference of two numbers that are equal, unless bits are compared
OPTIONAL = ("components", "metrics")  # objects whose fields an answer may leave out; these are not compared
NOTHING = "nothing"


class Mismatch(NamedTuple):
    id: str
    field: str
    expected: Any
    got: Any


@dataclass
class Comparison:
    """Numbers of vectors that passed, by group, and the fields that differ, in the order of the vectors."""

    cases: Counter[str]
    passed: Counter[str]
    differences: list[Mismatch]
    left_out: Counter[str]  # number of answers without a field that they may leave out


def compare(cases: Sequence[Vector], answers: Mapping[str, Mapping[str, Any]], exact: bool = False) -> Comparison:
    """Compare the answers by id; numbers within 1e-9, or bit by bit if `exact`."""
    comparison = Comparison(Counter(), Counter(), [], Counter())
    for case in cases:
        answer = answers.get(case.id)
        comparison.cases[case.group] += 1
        if answer is None:
            different = [Mismatch(case.id, "answer", "an answer", NOTHING)]
        else:
            different = list(differences(case, answer, exact))
            comparison.left_out.update(optional_fields(case.expected).keys() - optional_fields(answer).keys())
        comparison.passed[case.group] += not different
        comparison.differences += different
    return comparison


def differences(case: Vector, answer: Mapping[str, Any], exact: bool) -> Iterator[Mismatch]:
    if "error" in answer or "error" in case.expected:
        fields = {"error": (case.expected.get("error", NOTHING), answer.get("error", NOTHING))}
    else:
        fields = dict(pairs_of(case.expected, answer))
    for field, (expected, got) in fields.items():
        if not equal(expected, got, exact):
            yield Mismatch(case.id, field, expected, got)


def pairs_of(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, value in expected.items():
        if name not in OPTIONAL:
            yield from parts_of(name, value, answer.get(name, NOTHING))
    fields = optional_fields(answer)
    for field, value in optional_fields(expected).items():
        if field in fields:
            yield field, (value, fields[field])


def parts_of(name: str, expected: Any, got: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield the fields of arrays of objects that have the same length; any other value as it is."""
    arrays = isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got)
    if not arrays or not all(isinstance(entry, dict) for entry in [*expected, *got]):
        yield name, (expected, got)
        return
    for k, (entry, other) in enumerate(zip(expected, got, strict=True)):
        for field, value in entry.items():
            yield f"{name}[{k}].{field}", (value, other.get(field, NOTHING))


def optional_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}.{field}": value
        for name in OPTIONAL
        if isinstance(fields := document.get(name), dict)
        for field, value in fields.items()
    }


def equal(expected: Any, got: Any, exact: bool) -> bool:
    if isinstance(expected, list):
        same_length = isinstance(got, list) and len(expected) == len(got)
        return same_length and all(equal(left, right, exact) for left, right in zip(expected, got, strict=True))
    if not isinstance(expected, float):
        return bool(expected == got)
    if not isinstance(got, (int, float)) or isinstance(got, bool):
        return False
    try:
        number = float(got)
    except OverflowError:
        return False
    return number.hex() == expected.hex() if exact else abs(number - expected) <= TOLERANCE


MAX_LINE_BYTES = 1 << 20
MAX_PROBLEMS = 20  # faulty lines after which an engine is stopped

Answers = dict[str, dict[str, Any]]


def run_engine(command: Sequence[str], cases: Sequence[Vector], timeout: float) -> tuple[Answers, list[str]]:
    """Send the rows to a command and read its answers for at most `timeout` seconds; raises OSError."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=1 << 16
    )
    assert process.stdin is not None
    assert process.stdout is not None
    timed_out = threading.Event()

    def expire() -> None:
        timed_out.set()
        stop(process)

    timer = threading.Timer(timeout, expire)
    feeder = threading.Thread(target=feed, args=(process.stdin, cases), name="assay-engine-input", daemon=True)
    timer.start()
    feeder.start()
    try:
        answers, problems = read_answers(process.stdout, {case.id for case in cases})
        if len(problems) >= MAX_PROBLEMS:
            problems.append(f"it was stopped after {MAX_PROBLEMS} faulty lines")
            stop(process)
        code = process.wait()
    finally:
        timer.cancel()
        stop(process)
        process.stdout.close()
        feeder.join()
    if timed_out.is_set():
        problems.append(f"it was stopped after {timeout:g} s with {len(answers):,} answers")
    elif code and len(problems) < MAX_PROBLEMS:
        problems.append(f"it {ending(code)} after {len(answers):,} answers")
    return answers, problems


def feed(stream: IO[bytes], cases: Sequence[Vector]) -> None:
    with suppress(OSError), stream:
        for case in cases:
            stream.write(json.dumps(case.row).encode() + b"\n")


def read_answers(stream: IO[bytes], ids: set[str]) -> tuple[Answers, list[str]]:
    answers: Answers = {}
    problems: list[str] = []
    number = 0
    while len(problems) < MAX_PROBLEMS and (line := stream.readline(MAX_LINE_BYTES)):
        number += 1
        if not line.strip():
            continue
        problem = add_answer(answers, line, ids)
        if problem:
            problems.append(f"line {number:,} of its output {problem}")
    return answers, problems


def add_answer(answers: Answers, line: bytes, ids: set[str]) -> str:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return "is too long" if len(line) >= MAX_LINE_BYTES else "is not JSON"
    if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
        return "is not an object with the id of a row"
    name = answer["id"]
    if name not in ids:
        return f"has an unknown id: {name[:100]!r}"
    if name in answers:
        return f"answers {name} a second time"
    answers[name] = answer
    return ""


def stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def ending(code: int) -> str:
    names = {member.value: member.name for member in signal.Signals}  # real-time signals have none
    return f"exited with code {code}" if code > 0 else f"was killed by {names.get(-code, f'signal {-code}')}"


Row = Mapping[str, Any]


def own_answer(row: Row) -> dict[str, Any]:
    try:
        return {"id": row["id"], **ANSWERS[row["kind"]](row)}
    except ScoringError as error:
        return {"id": row["id"], "error": error.issues[0].reason}


def _score(row: Row) -> dict[str, Any]:
    scores = Scorer(**row["config"], threads=1).score([row["response"]], [row["reference"]])
    components = {name: float(column[0]) for name, column in scores.components.items()}
    return {"reward": float(scores.rewards[0]), "reason": str(scores.reasons[0]), "components": components}


def _steps(row: Row) -> dict[str, Any]:
    scores = Scorer(**row["config"], threads=1).score([row["response"]], [row["reference"]], steps=True)
    assert scores.steps is not None
    assert scores.alternative is not None
    return {"alternative": int(scores.alternative[0]), "steps": scores.steps[0]}


def _words(row: Row) -> dict[str, Any]:
    (canon,) = canons([row["text"]])
    return {"words": canon.split()}


def _advantages(row: Row) -> dict[str, Any]:
    groups, _ = group_numbers(row["groups"], len(row["rewards"]))
    assert groups is not None
    return {
        "advantages": group_advantages(np.array(row["rewards"], np.float64), groups, row["advantage_ddof"]).tolist()
    }


def _evaluate(row: Row) -> dict[str, Any]:
    record = {"response": row["response"], "reference": row["reference"]}
    result = evaluate("score", [record], profile=row["profile"])
    if result.failed:
        return {"error": result.failed[0].reason}
    return {"metrics": {name: float(column[0]) for name, column in result.per_record.items()}}


ANSWERS: dict[str, Callable[[Row], dict[str, Any]]] = {
    "score": _score,
    "steps": _steps,
    "words": _words,
    "advantages": _advantages,
    "evaluate": _evaluate,
}
