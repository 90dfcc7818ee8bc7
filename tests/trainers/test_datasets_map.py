"""The lines of docs/trainers/other.md for `datasets.map`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from assay_client import InvalidReference
from tests.http.samples import REFERENCE
from tests.trainers.pairs import EXPECTED, TEXTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trainers" / "other.md"


def code() -> str:
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = (one for one in snippets if "load_dataset" in one)
    return str(found)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    rows = ({"response": text, "reference": REFERENCE} for text in TEXTS)
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code(), str(PAGE), "exec"), names)
    return names


@pytest.mark.usefixtures("at")
def test_rewards_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(tmp_path, monkeypatch)
    assert names["rows"]["reward"] == pytest.approx(EXPECTED)
    assert names["rows"]["reason"] == ["ok", "ok", "missing_sections"]
    many = Dataset.from_dict({"response": TEXTS * 20, "reference": [REFERENCE] * 60})
    spread = many.map(names["scored"], batched=True, batch_size=7, num_proc=2)
    assert spread["reward"] == pytest.approx(EXPECTED * 20)
    bad = Dataset.from_dict({"response": TEXTS[:2], "reference": [REFERENCE, "Step 1: nothing"]})
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        bad.map(names["scored"], batched=True)
