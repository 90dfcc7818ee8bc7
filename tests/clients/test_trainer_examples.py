"""The examples for trainers, and the snippets of docs/trainers/other.md, called as by their trainers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.service.records.rows.forms import PROMPTS, PromptRow
from assay_client import InvalidReference
from assay_client.adapters.common import column_of, labelled, record_of, task_of
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.http.samples import REFERENCE

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "examples" / "trainers"
SCRIPTS = sorted(TRAINERS.glob("*.sh"))
PAGE = ROOT / "docs" / "trainers" / "other.md"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_pass_everything_on(path: Path, tmp_path: Path) -> None:
    """Replace the trainers by commands that print their arguments."""
    assert path.stat().st_mode & 0o111, "must be executable"
    for name in ("python3", "swift"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$ASSAY_URL" "$REWARD_PATH" "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "score_start.sh").write_text('python3 "$@"\n')
    (tmp_path / "model.sh").write_text("MODEL_ARGS=(--layers 2)\n")
    named = {"MODEL": "m", "THOTH": str(tmp_path), "SLIME": str(tmp_path), "MODEL_SCRIPT": "model.sh"}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ASSAY_URL": "http://reward-host:8000", **named}
    done = subprocess.run(
        [str(path), "one more"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert "http://reward-host:8000" in lines[0]
    assert lines[-1] == "one more"
    files = [found for line in lines for found in re.findall(r"/.*/adapters/\S+\.py", line)]
    assert all(Path(file).is_file() for file in files)
    assert files or re.search(r"http://reward-host:8000/compat/|assay_client\.adapters\.for_slime", done.stdout)


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}]


def row_for(trainer: str, task: str | None = "score", reference: str = REFERENCE) -> dict[str, Any]:
    named = {"id": "a"} if task is None else {"id": "a", "task": task}
    return PROMPTS[trainer](PromptRow(CHAT, reference, {"split": "train"}, named))


def test_rows_name_their_reference_their_record_and_their_task() -> None:
    for trainer in ("trl", "ms-swift", "areal"):
        row = row_for(trainer)
        assert (column_of(row), record_of(row), task_of(row)) == (REFERENCE, "a", "score")
        assert task_of(row_for(trainer, None)) is None
    for trainer in ("openrlhf", "slime"):
        row = row_for(trainer)
        assert labelled(row["label"], row.get("metadata")) == (REFERENCE, "score")
        assert row_for(trainer, None)["label"] == REFERENCE
    for trainer in ("verl", "skyrl"):
        row = row_for(trainer)
        assert (row["data_source"], record_of(row["extra_info"])) == ("score", "a")
        assert row_for(trainer, None)["data_source"] == "assay"
    gym = row_for("nemo-gym")
    assert (gym["responses_create_params"], gym["reference"], gym["task"]) == ({"input": CHAT}, REFERENCE, "score")
    info = {"id": "a", "task": "score", "split": "train"}
    assert row_for("prime-rl") == {"prompt": CHAT, "answer": REFERENCE, "info": info}


def snippet(word: str) -> dict[str, Any]:
    """Return what the only snippet with this word defines."""
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = (text for text in snippets if word in text)
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@pytest.mark.usefixtures("at")
def test_tunix() -> None:
    """Its manager passes columns as arrays, and `mode`."""
    function = snippet("AssayReward")["score_reward"]
    columns = {"reference": np.array([REFERENCE] * 3), "mode": "Mode.TRAIN"}
    assert function(prompts=["p"] * 3, completions=TEXTS, **columns) == pytest.approx(EXPECTED)
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        function(prompts=["p"] * 3, completions=TEXTS, reference=np.array([REFERENCE, None, REFERENCE], object))
