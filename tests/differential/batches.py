"""Random mixed batches, valid or broken in one to three ways, as JSON and as Arrow."""

from __future__ import annotations

import json
import random
from typing import Any

from .samples import BAD_REFERENCES, REFERENCES, RESPONSES, SETTINGS, TASKS

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


def new_batch(number: int) -> tuple[dict[str, Any], set[str]]:
    """Return a random request of `POST /v1/score`, most often of several tasks, and in which ways it is broken."""
    dice = random.Random(number)
    breaks = set(dice.sample(BREAKS, dice.choice((1, 1, 2, 3)))) if dice.random() < 0.5 else set()
    fixed = dice.choice((None, None, None, "score", dice.choice(TASKS)))
    configuration = dice.randrange(len(SETTINGS)) if fixed in (None, "score") else 0
    tasks = dice.choices([fixed] if fixed else [*TASKS, "score"], k=dice.randint(1, 4))
    pairs = [(task, dice.choice(TEXTS[task])) for task in tasks]
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
    return document, breaks


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
