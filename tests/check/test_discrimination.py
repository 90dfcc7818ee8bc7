"""Pairs of right and wrong answers: how often the right one earns more, beside counts by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay import Scorer
from assay.kernels.warmup import warmup
from assay.research.check.changes import DESTROYING, HARMLESS, Answer, answer_in
from assay.research.check.discrimination import OTHER_WORDS, Share, step_of
from tests.check.data_sets import GOOD, STEPS, answer
from tests.command_line import ROOT, read_rows, write_rows

ERRORS: list[dict[str, Any]] = [
    {
        "context": {"prior_step": "1.1 Wash the cells.", "next_step": "1.3 Count the cells."},
        "corrected_text": "1.2 Incubate the cells with 5 ml of trypsin for 3 min.",
        "corrupted_text": wrong,
        "is_correct": wrong is None,
        "type": kind,
    }
    for kind, wrong in {
        "parameter": "1.2 Incubate the cells with 5 ml of trypsin for 3 h.",
        "reagent": "1.2 Incubate the cells with 5 ml of ethanol for 3 min.",
        "operation": "1.2 Freeze the cells with 5 ml of trypsin for 3 min.",
        "correct": None,
    }.items()
]


@pytest.fixture(autouse=True)
def kernels() -> None:
    """Load what `answer_in` needs, which commands have loaded before they read an answer."""
    warmup()


@pytest.fixture
def discrimination(call: Callable[..., Result], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def discrimination(rows: Sequence[Any], *flags: str) -> dict[str, Any]:
        result = tmp_path / "check.json"
        done = call("check", write_rows(tmp_path / "rows.jsonl", rows), "--discriminates", "--json", result, *flags)
        assert done.exit_code == 0, done.stderr
        told: dict[str, Any] = json.loads(result.read_bytes())["discrimination"]
        return told

    return discrimination


def test_changes_of_gold_answers(discrimination: Callable[..., dict[str, Any]]) -> None:
    rows = read_rows(ROOT / "examples" / "laboratory.jsonl")
    told = discrimination(rows)
    changes = {entry["change"]: entry for entry in told["changes"]}
    assert set(changes) == {*DESTROYING, *HARMLESS}
    limit = changes["a limit for a dose: `<5 ml`"]
    assert [limit["right_earns_more"][name]["mean"] for name in ("configured", "paper", "all")] == [0.0, 0.0, 1.0]
    assert limit["records"] == 12
    kinds = {entry["kind"]: entry for entry in told["kinds"]}
    assert list(kinds)[-1] == OTHER_WORDS
    wins, costs = [], []
    for row in rows:
        gold = answer_in(row["reference"])
        assert gold is not None
        wrong = [change(gold) for title, change in DESTROYING.items() if title.startswith(("an object", "two objects"))]
        texts = [changed.text for changed in wrong if changed != gold]
        rewards = Scorer().score(texts, [gold.text], [0] * len(texts)).rewards
        wins.append(sum(rewards < 1) / len(texts))
        costs.append(sum(1 - rewards) / len(texts))
    assert kinds["reagent"]["right_earns_more"]["paper"]["mean"] == pytest.approx(sum(wins) / 12, abs=1e-12)
    assert kinds["reagent"]["mean_cost"]["paper"] == pytest.approx(sum(costs) / 12, abs=1e-12)


def test_the_table_of_the_page(call: Callable[..., Result]) -> None:
    result = call("check", ROOT / "examples" / "laboratory.jsonl", "--discriminates")
    page = (ROOT / "docs" / "research" / "check.md").read_text(encoding="utf-8")
    table = page[page.index("Right answers beside wrong ones:\n") :].partition("```")[0]
    assert table in result.stderr


def test_records_of_errors(discrimination: Callable[..., dict[str, Any]]) -> None:
    told = discrimination(ERRORS, "--task", "bioprobench.err")
    assert told["rows_without_pairs"] == 1
    assert [entry["kind"] for entry in told["kinds"]] == ["operation", "parameter", "reagent"]
    assert all(entry["right_earns_more"]["paper"]["mean"] == 1.0 for entry in told["kinds"])
    assert all(entry["right_in_other_words_earns_more"] is None for entry in told["kinds"])
    cost = {entry["kind"]: entry["mean_cost"]["all"] for entry in told["kinds"]}
    assert cost["parameter"] > 0.5 > cost["reagent"] > 0.0


def test_rows_without_pairs(discrimination: Callable[..., dict[str, Any]]) -> None:
    told = discrimination([{"reference": {"steps": STEPS}}])
    assert told == {"rows_without_pairs": 1, "kinds": [], "changes": []}
    too_long = ERRORS[0] | {"corrected_text": "Add 5 ml of water. " * 20_000}
    told = discrimination([too_long, *ERRORS], "--task", "bioprobench.err")
    assert (told["rows_without_pairs"], [entry["records"] for entry in told["kinds"]]) == (2, [1, 1, 1])


def test_a_sentence_as_a_step() -> None:
    step = step_of("2.1.3 Dilute the DNA 1:100 in PBS, and add 5 µl of dye for 10 min.")
    assert step is not None
    assert (step.action, step.parameters) == ("dilute", ("5 µl", "10 min", "1:100"))
    assert step.objects == ("DNA", "PBS", "add", "dye")
    assert step.prose == "Dilute the DNA 1:100 in PBS, and add 5 µl of dye for 10 min."
    assert step_of("1.2 ...") is step_of("") is step_of(None) is None


@pytest.mark.parametrize("steps", [STEPS[:1], STEPS, [{"action": "stop", "objects": [], "parameters": []}]])
def test_changes_apply_to_any_answer(steps: list[dict[str, Any]]) -> None:
    gold = answer_in(answer(steps, [" ".join([s["action"], *s["objects"], *s["parameters"]]) for s in steps]))
    assert gold is not None
    texts = [change(gold).text for change in (*DESTROYING.values(), *HARMLESS.values())]
    scores = Scorer().score([gold.text, *texts], [gold.text], [0] * (len(texts) + 1))
    assert scores.rewards[0] == 1.0
    assert set(scores.reasons) <= {"ok", "low_coverage"}


def test_answers_whose_plan_and_prose_differ_have_no_pairs() -> None:
    assert answer_in(GOOD) is not None
    assert answer_in(answer(STEPS, ["Add 5 ml of buffer."])) is None
    assert answer_in("no protocol") is None
    assert isinstance(answer_in(GOOD), Answer)


def test_wilson_intervals() -> None:
    # Newcombe 1998, table I: 81 of 263 and 0 of 20
    for successes, number, low, high in ((81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611)):
        share = Share.of([1.0] * successes + [0.0] * (number - successes))
        assert (share.low, share.high) == pytest.approx((low, high), abs=1e-4)
