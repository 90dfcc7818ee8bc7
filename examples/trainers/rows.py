"""Convert JSON lines with `prompt`, `reference` and perhaps `task` to the rows of a trainer.

    python rows.py verl train.jsonl -o train.parquet
    python rows.py slime ../rollouts.jsonl -o train.jsonl

In a data set of several tasks every line has a `task` (null: SCORE); references that are no strings become text,
because columns have one type. Duplicate prompts are dropped; an `id` is kept, so that errors can name the record.
Parquet needs pyarrow.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def chat(row: Row) -> list[dict[str, str]]:
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [*system, {"role": "user", "content": row["prompt"]}]


def tasked(row: Row) -> Row:
    """Return the column `task`, if the data set has one."""
    return {"task": row["task"]} if "task" in row else {}


def text(reference: Any) -> str:
    """Return a reference that is no string as text: SCORE's steps as lines, the record of another task as JSON."""
    if isinstance(reference, dict) and "steps" in reference:
        return "\n".join(f"Step {n}: {json.dumps(step)}" for n, step in enumerate(reference["steps"], 1))
    return json.dumps(reference, ensure_ascii=False)


def label(row: Row) -> Any:
    """Return the reference, or an object of it and the task as JSON text."""
    return json.dumps({**tasked(row), "reference": row["reference"]}) if "task" in row else row["reference"]


def for_verl(row: Row) -> Row:
    return {
        "data_source": row.get("task") or "assay",
        "prompt": chat(row),
        "ability": "protocol",
        "reward_model": {"style": "rule", "ground_truth": row["reference"]},
        "extra_info": {"index": row["id"]},
    }


def for_skyrl(row: Row) -> Row:
    verl = for_verl(row)
    return {name: verl[name] for name in ("data_source", "prompt", "reward_model", "extra_info")} | {
        "env_class": "assay",
        "reward_spec": verl["reward_model"],
        **tasked(row),
    }


def for_nemo_gym(row: Row) -> Row:
    return {
        "responses_create_params": {"input": chat(row)},
        "reference": row["reference"],
        "id": row["id"],
        **tasked(row),
    }


FORMS: dict[str, Callable[[Row], Row]] = {
    "verl": for_verl,
    "trl": lambda row: {"prompt": chat(row), "reference": row["reference"], "id": row["id"], **tasked(row)},
    "openrlhf": lambda row: {"input": chat(row), "label": label(row)},
    "slime": lambda row: {"prompt": chat(row), "label": label(row)},
    "nemo-gym": for_nemo_gym,
    "ms-swift": lambda row: {"messages": chat(row), "reference": row["reference"], "id": row["id"], **tasked(row)},
    "areal": lambda row: {"messages": chat(row), "reference": row["reference"], "query_id": row["id"], **tasked(row)},
    "skyrl": for_skyrl,
}
"""Conversion of a row, by trainer."""


def read_rows(path: Path) -> Iterator[Row]:
    """Yield rows with unique prompts; raise SystemExit naming a line without prompt or reference."""
    seen: set[str] = set()
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            row["prompt"] = row.get("prompt") or row.get("query")
            if not row["prompt"] or row.get("reference") in (None, "", {}):
                raise SystemExit(f"{path}:{number}: a row needs a prompt (or query) and a reference")
            if "task" in row and not isinstance(row["reference"], str):
                row["reference"] = text(row["reference"])
            if row["prompt"] not in seen:
                seen.add(row["prompt"])
                yield {**row, "id": str(row.get("id", number))}


def write_rows(rows: Iterable[Row], path: Path) -> int:
    """Write JSON lines or, if the path ends in .parquet, Parquet; return the number of rows."""
    listed = list(rows)
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(listed), path)
    else:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in listed)
        path.write_text("".join(lines), encoding="utf-8")
    return len(listed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Convert JSON lines to the rows of a trainer.")
    parser.add_argument("trainer", choices=sorted(FORMS))
    parser.add_argument("source", type=Path, help="JSON lines with prompt and reference, perhaps task")
    parser.add_argument("-o", "--output", type=Path, required=True, help="….jsonl or ….parquet")
    chosen = parser.parse_args()
    count = write_rows(map(FORMS[chosen.trainer], read_rows(chosen.source)), chosen.output)
    print(f"{count} rows for {chosen.trainer} in {chosen.output}")


if __name__ == "__main__":
    main()
