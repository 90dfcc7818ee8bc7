"""Records of SciRecipe and of three tasks of BioProBench in their published forms, and `assay prepare` on them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

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
    "PQA.json": [
        {
            "id": "pqa-1",
            "question": "Which volume of trypsin goes onto the flask?",
            "choices": ["1 ml", "2 ml", "5 ml", "9 ml"],
            "answer": "2 ml",
            "type": "parameter",
        },
    ],
    "ORD.json": [
        {
            "id": "ord-1",
            "question": "Sort the steps of a plasmid preparation.",
            "wrong_steps": ["elute plasmid", "lyse bacteria", "wash column"],
            "correct_steps": ["lyse bacteria", "wash column", "elute plasmid"],
            "type": "top",
        },
        {
            "id": "ord-2",
            "question": "Sort the steps of freezing a cell line.",
            "wrong_steps": ["count cells", "detach cells"],
            "correct_steps": ["detach cells", "count cells"],
            "type": "child",
        },
    ],
    "ERR.json": [
        {
            "id": "err-1",
            "context": {"purpose": "Remove debris.", "prior_step": "Lyse.", "next_step": "Take the supernatant."},
            "corrupted_text": "Boil the lysate for one hour.",
            "corrected_text": "Spin the lysate at 12000 g.",
            "is_correct": False,
            "type": "operation",
            "error_description": "Boiling does not remove debris.",
        },
        {
            "id": "err-2",
            "context": {"purpose": "Warm the medium.", "prior_step": "Thaw.", "next_step": "Feed the cells."},
            "corrupted_text": None,
            "corrected_text": "Keep the bottle at 37 degrees.",
            "is_correct": True,
            "type": "correct",
            "error_description": None,
        },
    ],
    HELD_OUT: [
        recipe(
            "staining",
            "How is the gel stained overnight?",
            '"soak", "rinse", "photograph"',
            ("soak", "gel", "coomassie"),
            ("rinse", "gel", "water"),
            ("photograph", "gel", "white light"),
        ),
        {
            "id": "pqa-2",
            "question": "What stops the restriction digest?",
            "choices": ["ice", "light", "EDTA", "salt"],
            "answer": "EDTA",
            "type": "reagent",
        },
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
