"""Invalid references of a data set: errors of the client name the records that `assay check` lists."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_client import Client, InvalidReference
from assay_client.adapters import for_areal, for_ms_swift, for_skyrl, for_trl, for_verl
from tests.http.samples import PERFECT, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
CHECK = [sys.executable, "-c", "from assay.service.cli.main import main; main()", "check"]

REFERENCES = {
    "r1": REFERENCE,
    "r2": "Step 1: nothing",
    "r3": PERFECT,
    "r4": "",
    "r5": "Step 1: {'action': 'add'}",
    "r6": "Step 1: nothing",
}
BROKEN = {"r2": "bad_step_line", "r4": "no_steps", "r5": "bad_step_json", "r6": "bad_step_line"}
ROWS = [{"id": name, "reference": reference} for name, reference in REFERENCES.items()]
N = len(ROWS)

IDS, TEXTS = list(REFERENCES), list(REFERENCES.values())
INFOS = np.array([{"index": name} for name in IDS], object)
BATCHES: dict[str, Callable[[], Any]] = {
    "TRL": lambda: for_trl.score_reward(["p"] * N, [PERFECT] * N, reference=TEXTS, id=IDS),
    "TRL, async": lambda: asyncio.run(
        for_trl.async_score_reward(["p"] * N, [PERFECT] * N, reference=TEXTS, index=np.array(IDS))
    ),
    "ms-swift": lambda: for_ms_swift.AssayReward()([PERFECT] * N, solution=TEXTS, id=IDS),
    "verl, batch": lambda: for_verl.compute_score_batch(["d"] * N, [PERFECT] * N, TEXTS, INFOS),
}
SINGLES: dict[str, Callable[[], Any]] = {
    "verl": lambda: asyncio.run(for_verl.compute_score("d", PERFECT, "", {"index": 17})),
    "AReaL": lambda: for_areal.reward_fn("p", PERFECT, [1], [2], answer="", query_id=17),
    "SkyRL": lambda: for_skyrl.AssayEnv(
        {}, {"reward_spec": {"ground_truth": ""}, "extra_info": {"index": np.int64(17)}}
    ).step(PERFECT),
}


@pytest.mark.usefixtures("compiled")
def test_check_lists_the_references_that_training_would_reject(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    done = subprocess.run([*CHECK, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    found = re.findall(rf"^{path}:(\d+): error: .*\((\w+)\)$", done.stdout, re.MULTILINE)
    assert {ROWS[int(line) - 1]["id"]: reason for line, reason in found} == BROKEN


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("call", BATCHES.values(), ids=BATCHES)
def test_the_error_of_a_batch_names_the_same_records(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidReference, match="`assay check` lists every such reference") as caught:
        call()
    assert {issue.record: issue.reason for issue in caught.value.issues} == BROKEN
    for name, reason in BROKEN.items():
        assert re.search(rf"record {name}: references\[\d\]: {reason}", str(caught.value))


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("call", SINGLES.values(), ids=SINGLES)
def test_the_error_of_a_single_call_names_its_record(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidReference, match=r"^record 17: reference: no_steps .*`assay check`"):
        call()


def test_a_wrong_type_is_reported_before_anything_is_sent(down: Any) -> None:
    with pytest.raises(InvalidReference, match=r"^record b: references\[1\]: wrong_type"):
        for_trl.score_reward(["p"] * 2, [PERFECT] * 2, reference=[REFERENCE, 5], id=["a", "b"])
    assert not down.requests


def test_references_that_are_no_list_have_no_hint_about_the_data_set(down: Any) -> None:
    with pytest.raises(InvalidReference, match=r"^references: wrong_type \(a list is needed\)$"):
        Client(down.url).score([PERFECT], REFERENCE)
