"""Random mixed batches, valid or broken in one to three ways, through every face of one checkout."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import pyarrow as pa

from .requests import ARROW_HEADERS, Request, query, reply_to, running, stream
from .samples import BAD_REFERENCES, REFERENCES, RESPONSES, SETTINGS, TASKS

Outcome = dict[str, Any]
"""The columns of the results by name, or `issues`, a list of (path, reason, detail)."""

OPTIONS: list[dict[str, Any]] = [
    {"lexical": {"reward": ("rouge_l", "bleu_avg")[k % 2]}}
    | ({"bioprobench.ord": {"repeats": "failed"}} if k % 2 else {})
    | ({"bioprobench.pqa": {"reward": "calibrated"}} if k > 3 else {})
    for k in range(len(SETTINGS))
]
"""Options of other tasks for each of the seven configurations."""

TEXTS = {
    task: [
        reference if isinstance(reference, str) else json.dumps(reference)
        for reference in references
        if task != "score" or isinstance(reference, str)
    ]
    for task, references in REFERENCES.items()
}
"""References as every face can have them."""

BREAKS = ("reference", "reference", "reference", "task", "task", "unused", "index", "groups", "response")
"""What can be wrong; some more often."""


class Batch(NamedTuple):
    """One batch as a request of `POST /v1/score`."""

    number: int
    document: dict[str, Any]
    configuration: int
    """Which of `SETTINGS` and `OPTIONS` it has."""
    broken: frozenset[str]

    @property
    def reference_of(self) -> list[int]:
        """The reference of each response."""
        count = len(self.document["responses"])
        one_each = range(count) if len(self.document["references"]) > 1 else [0] * count
        return self.document.get("reference_index") or list(one_each)

    @property
    def tasks(self) -> list[str]:
        """The task of each response."""
        task = self.document["task"]
        return [task] * len(self.document["responses"]) if isinstance(task, str) else task


def new_batch(number: int, seed: int) -> Batch:
    """Return a random batch: references in the order of their first use, most often several tasks."""
    dice = random.Random(f"{seed}/{number}")
    breaks = frozenset(dice.sample(BREAKS, dice.choice((1, 1, 2, 3)))) if dice.random() < 0.5 else frozenset()
    fixed = dice.choice((None, None, None, "score", dice.choice(TASKS)))
    configuration = dice.randrange(len(SETTINGS)) if fixed in (None, "score") else 0
    tasks = dice.choices([fixed] if fixed else [*TASKS, "score"], k=dice.randint(1, 4))
    pairs = [(task, dice.choice(TEXTS[task])) for task in tasks]
    pairs = list({text: (task, text) for task, text in pairs}.values())  # equal texts are one reference in columns
    chosen = [*range(len(pairs)), *(dice.randrange(len(pairs)) for _ in range(dice.randint(0, 5)))]
    options = OPTIONS[configuration]
    config = SETTINGS[configuration] | ({} if fixed == "score" else options)
    document: dict[str, Any] = {
        "responses": [dice.choice(RESPONSES[pairs[k][0]]) for k in chosen],
        "references": [reference for _, reference in pairs],
        **({"reference_index": chosen} if len(pairs) not in (1, len(chosen)) or dice.random() < 0.5 else {}),
        "include": ["components"],
        "task": fixed or [pairs[k][0] for k in chosen],
        "config": config if fixed in (None, "score") else dict(options.get(fixed, {})),
    }
    if dice.random() < 0.7:
        document["groups"] = [dice.choice((["a", "b"], [1, 2])[number % 2]) for _ in chosen]
        document["include"].append("advantages")
    for name in sorted(breaks):
        damage(document, name, dice)
    return Batch(number, document, configuration, breaks)


def damage(document: dict[str, Any], name: str, dice: random.Random) -> None:
    """Break a batch in the way of this name, if it has what is broken."""
    task, references, count = document["task"], document["references"], len(document["responses"])
    index = list(document.get("reference_index") or range(count))
    row, many = dice.randrange(count), isinstance(task, list)

    def with_value(column: list[Any], *values: Any) -> list[Any]:
        return [dice.choice(values) if k == row else value for k, value in enumerate(column)]

    if name == "reference":
        k = dice.randrange(len(references))
        owner = task[index.index(k)] if many and k in index[: len(task)] else task
        bad = [text for text in BAD_REFERENCES.get(str(owner), []) if isinstance(text, str)]
        references[k] = dice.choice(["{}", *bad])
    elif name == "task":
        names = ("bioprobench.nope", "scor", "bioprobench.gen")
        document["task"] = with_value(task, *names) if many else dice.choice(names)
    elif name == "unused":
        document["reference_index"] = index[:count]
        references.append(dice.choice(TEXTS[dice.choice(TASKS)]))
    elif name == "index":
        document["reference_index"] = dice.choice((with_value(index, 99, -1, "0", 0.5, None, True), [*index, 0]))
    elif name == "groups":
        document["groups"] = dice.choice((["a"] * (count - 1), with_value(["a"] * count, None, 0.5, True)))
    elif name == "response":
        document["responses"] = with_value(document["responses"], None, 5, ["x"], {})


def by_scorer(batch: Batch) -> Outcome:
    """Score in this process."""
    import assay

    document, task = batch.document, batch.document["task"]
    names = (
        {name for settings in SETTINGS for name in settings} if not isinstance(task, str) or task == "score" else set()
    )
    settings = {name: value for name, value in document["config"].items() if name in names}
    options = {name: value for name, value in document["config"].items() if name not in names}
    columns = [document.get(name) for name in ("responses", "references", "reference_index", "groups")]
    try:
        scorer = assay.Scorer(threads=1).with_overrides(settings)
        scores = scorer.score(*columns, task=task, task_options=options or None)
    except assay.ScoringError as error:
        return {"issues": [tuple(issue) for issue in error.issues]}
    outcome = {"rewards": scores.rewards.tolist(), "reasons": scores.reasons.tolist()}
    outcome |= {name: column.tolist() for name, column in scores.components.items()}
    return outcome | ({"advantages": scores.advantages().tolist()} if "groups" in document else {})


def of_reply(reply: dict[str, Any]) -> Outcome:
    """Return the outcome of a reply in the form of `POST /v1/score`."""
    if "errors" in reply:
        return {"issues": [(error["path"], error["reason"], error["detail"]) for error in reply["errors"]]}
    columns = {name: reply[name] for name in ("rewards", "reasons", "advantages") if name in reply}
    return columns | reply.get("components", {})


def by_json(client: httpx.Client) -> Callable[[Batch], Outcome]:
    return lambda batch: of_reply(reply_to(client, Request("", "/v1/score", batch.document)).json())


def by_arrow(client: httpx.Client) -> Callable[[Batch], Outcome | None]:
    """Score as a stream of Arrow, which has a reference in every row."""

    def ask(batch: Batch) -> Outcome | None:
        document = batch.document
        if batch.broken - {"reference", "task"}:
            return None
        references = [document["references"][k] for k in batch.reference_of]
        columns = {"response": document["responses"], "reference": references}
        columns |= {"group": document["groups"]} if "groups" in document else {}
        parameters = {"config": document["config"], "include": ",".join(document["include"])}
        (parameters if isinstance(document["task"], str) else columns)["task"] = document["task"]
        request = Request("", "/v1/score?" + query(**parameters), stream(**columns), ARROW_HEADERS)
        reply = reply_to(client, request)
        if reply.status_code != 200:
            return of_reply(json.loads(reply.content.replace(b'"query.task"', b'"task"')))
        names = {"reward": "rewards", "reason": "reasons", "advantage": "advantages"}
        table = pa.ipc.open_stream(reply.content).read_all().to_pydict()
        return {names.get(name, name): column for name, column in table.items()}

    return ask


def flags_of(configuration: int) -> Iterator[str]:
    """Yield the flags of a configuration of `assay score`."""
    yield "--include components,advantages"
    for name, value in SETTINGS[configuration].items():
        flag = name.replace("_", "-")
        yield f"--{'no-' if value is False else ''}{flag}" if isinstance(value, bool) else f"--{flag} {value}"
    for task, options in OPTIONS[configuration].items():
        yield from (f"--option {task}.{name}={value}" for name, value in options.items())


def rows_of(batch: Batch) -> Iterator[dict[str, Any]]:
    """Yield the rows that a file has of a batch; none if a file cannot say what it says."""
    if batch.broken - ({"reference", "task"} if isinstance(batch.document["task"], list) else {"reference"}):
        return
    for k, (task, index) in enumerate(zip(batch.tasks, batch.reference_of, strict=True)):
        group = f"{batch.number} {batch.document.get('groups', batch.reference_of)[k]!r}"
        row = {"batch": batch.number, "task": task, "group": group, "response": batch.document["responses"][k]}
        yield {**row, "reference": batch.document["references"][index]}


def by_rows(folder: Path, batches: list[Batch]) -> dict[int, Outcome]:
    """Score the rows of many batches as one file for each configuration; return outcomes by number."""
    environ = {name: value for name, value in os.environ.items() if name == "ASSAY_CACHE_DIR" or name[:6] != "ASSAY_"}
    outcomes: dict[int, Outcome] = {}
    for configuration in range(len(SETTINGS)):
        rows = [row for batch in batches if batch.configuration == configuration for row in rows_of(batch)]
        if not rows:
            continue
        source, target = folder / "rows.jsonl", folder / "scored.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = f"score {source} -q -o {target} --task-field task --group-field group".split()
        flags = " ".join(flags_of(configuration)).split()
        command = [sys.executable, "-m", "assay", *words, *flags]
        done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(done.stderr)
        scored = map(json.loads, target.read_text().splitlines())
        for number, group in groupby(scored, key=lambda row: row["batch"]):
            outcomes[number] = of_rows(batches[number], list(group))
    return outcomes


def of_rows(batch: Batch, rows: list[dict[str, Any]]) -> Outcome:
    """Return the outcome of the rows of one batch."""
    issues = []
    for k, row in enumerate(rows):
        if error := row.get("error"):
            is_task = error["reason"] == "unknown_task"
            path = f"task[{k}]" if is_task else f"references[{batch.reference_of[k]}]"
            issues.append((path, error["reason"], error["detail"]))
    if issues:
        return {"issues": issues}
    columns = {name: [row["components"][name] for row in rows] for name in rows[0]["components"]}
    columns |= {"rewards": [row["reward"] for row in rows], "reasons": [row["reason"] for row in rows]}
    return columns | ({"advantages": [row["advantage"] for row in rows]} if "groups" in batch.document else {})


def difference(a: Outcome, b: Outcome, is_of_rows: bool) -> str | None:
    """Return how two outcomes differ, or None. A row has one error: there, repeats and their order do not count."""
    if ("issues" in a) != ("issues" in b):
        return "one refuses"
    if "issues" not in a:
        return "numbers" if any(a[name] != b[name] for name in a.keys() & b.keys()) else None
    first, second = ([issue[: 2 if is_of_rows else 3] for issue in each["issues"]] for each in (a, b))
    if first == second or (is_of_rows and set(first) == set(second)):
        return None
    if sorted(first) == sorted(second):
        return "order"
    return "details" if [issue[:2] for issue in first] == [issue[:2] for issue in second] else "issues"


def outcomes_of(batches: list[Batch]) -> dict[str, dict[int, Outcome]]:
    """Return the outcomes of all batches by the name of the face and the number of the batch."""
    with (
        TemporaryDirectory() as folder,
        running() as client,
        running("--inline-bytes", "0", "--threads", "1") as threads,
    ):
        faces: dict[str, Callable[[Batch], Outcome | None]] = {
            **{"Scorer": by_scorer, "JSON": by_json(client), "JSON on threads": by_json(threads)},
            "Arrow": by_arrow(client),
        }
        outcomes = {
            name: {batch.number: outcome for batch in batches if (outcome := face(batch)) is not None}
            for name, face in faces.items()
        }
        return outcomes | {"rows": by_rows(Path(folder), batches)}


def compare_faces(count: int, seed: int, limit: int) -> int:
    """Print for each pair of faces how many of the batches differ, and return the number of all differences."""
    batches = [new_batch(number, seed) for number in range(count)]
    outcomes = outcomes_of(batches)
    differing: set[int] = set()
    for faces in combinations(outcomes, 2):
        a, b = (outcomes[name] for name in faces)
        both = sorted(a.keys() & b.keys())
        refused = sum("issues" in a[number] and "issues" in b[number] for number in both)
        kinds = {number: kind for number in both if (kind := difference(a[number], b[number], "rows" in faces))}
        differing |= kinds.keys()
        print(f"{' / '.join(faces)}: {len(kinds)} of {len(both)} differ ({refused} refused by both)")
        for number, kind in list(kinds.items())[:limit]:
            print(f"  batch {number}, {kind}:", *(outcome.get("issues", outcome) for outcome in (a[number], b[number])))
    print(f"{len(differing)} of {count} batches differ between some faces")
    return len(differing)
