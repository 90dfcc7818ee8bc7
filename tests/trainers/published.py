"""Records of SciRecipe and of three tasks of BioProBench in their published forms, and `assay prepare` on them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.prepare.published import ERR, ORD, PQA, RIGHT

ROOT = Path(__file__).resolve().parents[2]
COMMAND = shlex.split(os.environ.get("ASSAY_COMMAND", str(ROOT / ".venv" / "bin" / "assay")))
HELD_OUT = "held_out.jsonl"
WRONG = "I do not know."
TASKS = ["bioprobench.err", "bioprobench.ord", "bioprobench.pqa", "score"]


def recipe(name: str, query: str, library: str, *steps: tuple[str, str, str]) -> dict[str, str]:
    """Return a record for reinforcement learning; steps are (action, object, parameter)."""
    lines = [
        f'Step {k}: {{"action": "{action}", "objects": ["{thing}"], "parameters": ["{how}"]}}'
        for k, (action, thing, how) in enumerate(steps, 1)
    ]
    prose = [f"Step {k}: {action} the {thing} with {how}." for k, (action, thing, how) in enumerate(steps, 1)]
    answer = ("<think>In order.</think>\n<key>\n{}\n</key>\n<orc>\n{}\n</orc>\n<note>Wear gloves.</note>").format(
        "\n".join(lines), "\n".join(prose)
    )
    asked = f"{query}\nPlease note that you can only use the following actions: {library}."
    return {"id": name, "system": "Answer in four sections.", "query": asked, "response": answer}


FREEZING = {"wrong_steps": ["count cells", "detach cells"], "correct_steps": ["detach cells", "count cells"]}
WARMING = {"purpose": "Warm the medium.", "prior_step": "Thaw.", "next_step": "Feed the cells."}
RECORDS: dict[str, list[dict[str, Any]]] = {
    "scirecipe.jsonl": [
        recipe(
            "lysis",
            "How are yeast cells opened?",
            '"add", "shake"',
            ("add", "lysis buffer", "200 µl"),
            ("shake", "tube", "5 min"),
        ),
        recipe("plating", "How are bacteria plated?", '"spread"', ("spread", "culture", "glass beads")),
    ],
    "PQA.json": [PQA],
    "ORD.json": [ORD, {**ORD, "id": "ORD-2", "question": "Sort the steps of freezing a cell line.", **FREEZING}],
    "ERR.json": [ERR, {**RIGHT, "id": "ERR-2", "corrected_text": "Keep the bottle at 37 degrees.", "context": WARMING}],
    HELD_OUT: [
        recipe(
            "staining",
            "How is the gel stained overnight?",
            '"soak", "rinse", "photograph"',
            ("soak", "gel", "coomassie"),
            ("rinse", "gel", "water"),
            ("photograph", "gel", "white light"),
        ),
        {**PQA, "id": "PQA-2", "question": "What stops the digest?", "choices": ["light", "EDTA"], "answer": "EDTA"},
    ],
}


def write_records(folder: Path) -> list[Path]:
    """Write each file of records, JSON lines or a JSON array, and return their paths."""
    for name, records in RECORDS.items():
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / name).write_text(lines if name.endswith("jsonl") else json.dumps(records))
    return [folder / name for name in RECORDS]


def prepare(sources: list[Path], folder: Path, trainer: str, *flags: str) -> Path:
    """Write the rows of a trainer, with the command, and return their folder."""
    arguments = ["prepare", *map(str, sources), "--trainer", trainer, "-o", str(folder), "-q", *flags]
    subprocess.run([*COMMAND, *arguments], check=True)
    return folder


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Prepared(NamedTuple):
    """Records, and what the command made of them."""

    sources: list[Path]
    folder: Path
    answers: dict[str, str]
    """The ideal answer to each record, by id."""
    rows: list[dict[str, Any]]
    """TRL's rows of both splits."""

    def rows_for(self, trainer: str, *flags: str) -> Path:
        """Return the folder with the rows of a trainer."""
        split = flags or ("--hold-out", str(self.folder / HELD_OUT))
        folder = self.folder / "".join([trainer, *flags])
        return folder if folder.exists() else prepare(self.sources, folder, trainer, *split)


def prepared_in(folder: Path) -> Prepared:
    """Write the records into a folder, and prepare them for TRL: prompts, and the answers to learn."""
    sources = write_records(folder)
    answers = prepare(sources, folder / "answers", "trl", "--stage", "supervised", "--test", "0")
    completions = {row["id"]: row["completion"][0]["content"] for row in read(answers / "train.jsonl")}
    rows = prepare(sources, folder / "rows", "trl", "--hold-out", str(folder / HELD_OUT))
    return Prepared(sources, folder, completions, [*read(rows / "train.jsonl"), *read(rows / "test.jsonl")])
