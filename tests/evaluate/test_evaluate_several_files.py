"""`assay evaluate` with the answers of several models: tables, intervals, agreement with labels, and every fault."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from assay.service.tasks import evaluate
from tests.evaluate.answer_files import GOOD, REFERENCE, written


def answers(good: str, **fields) -> list[dict]:
    """Return a record for each character, with a right answer for 1."""
    return [
        {
            "id": f"r{k}",
            "response": GOOD if answer == "1" else "nothing",
            "reference": f"{REFERENCE}\n" * (1 + k % 2),
            "type": ["planning", "safety"][k % 2],
            **{name: values[k] for name, values in fields.items()},
        }
        for k, answer in enumerate(good)
    ]


BASE, TUNED = "000110110101", "111110010111"


@pytest.fixture
def files(tmp_path):
    shuffled = answers(TUNED)[::-1]
    return written(tmp_path, answers(BASE), "base.jsonl"), written(tmp_path, shuffled, "tuned.jsonl")


@pytest.fixture
def evaluated(call, tmp_path):
    """Return a function that evaluates files and gives what is printed and the document."""

    def evaluated(*arguments, status: int = 0):
        target = tmp_path / "all.json"
        result = call("evaluate", *arguments, "--json", target)
        assert result.exit_code == status, result.output
        return result, json.loads(target.read_text())

    return evaluated


def test_tables_with_the_best_marked_and_differences(call, files, tmp_path):
    result = call("evaluate", *files, "--metrics", "order_s,semantic_a", "-q")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["model", "n", "rank", "Order-S", "Semantic-A"]
    assert lines[2][:5] == ["all", "base", "12", "2.00", "16.67"]
    assert lines[3][0] == "±"
    assert lines[4][:4] == ["tuned", "12", "1.00*", "33.33*"]
    tied = next(line for line in lines if line[:3] == ["type", "safety", "base"])
    assert tied[-2] == "0.00*"  # both models have no right order there
    assert ["tuned", "Order-S", "12", "16.67"] in [line[:4] for line in lines]
    assert "tuned: 12 pairs by their ids." in result.stdout
    of_records = tmp_path / "records.csv"
    flags = ("--metrics", "order_s", "--markdown", "-", "--csv", of_records, "-q")
    result = call("evaluate", *files, *flags)
    assert result.exit_code == 0
    assert "| all | base | 12 | 2.00 | 16.67 ± 11.24 |" in result.stdout
    assert "| all | tuned | 12 | **1.00** | **33.33 ± 14.21** |" in result.stdout
    rows = list(csv.DictReader(io.StringIO(of_records.read_text())))
    assert [row["model"] for row in rows] == ["base"] * 12 + ["tuned"] * 12
    assert rows[12]["id"] == "r11"


def test_the_document_holds_scipys_intervals(evaluated, files):
    stats = pytest.importorskip("scipy.stats")
    _, document = evaluated(*files, "--seed", 5, "--resamples", 599, "--baseline", "tuned")
    base, tuned = document["models"]
    assert (base["name"], tuned["name"]) == ("base", "tuned")
    assert base["aggregate"] == evaluate("score", answers(BASE)).aggregate
    compared = document["comparison"]
    pairing = {"model": "base", "by": "id", "pairs": 12, "records": 12, "baseline_records": 12, "questions": 2}
    lists = {name: [] for name in ("unpaired", "baseline_unpaired", "contradictory")}
    assert compared["pairing"] == [pairing | lists]
    blocks = {("all", None): (compared["all"], range(12))}
    for k, value in enumerate(("planning", "safety")):
        blocks["type", value] = compared["by"]["type"][value], range(k, 12, 2)
    for block, rows in blocks.values():
        for difference in block["differences"]:
            x = np.array(
                [base["per_record"][difference["metric"]][k] for k in reversed(rows)]
            )  # in the baseline's order
            y = np.array([tuned["per_record"][difference["metric"]][11 - k] for k in reversed(rows)])
            expected = stats.bootstrap(
                (x, y), lambda x, y: np.mean(x - y), paired=True, vectorized=False, n_resamples=599, rng=5,
                method="percentile",
            ).confidence_interval  # fmt: skip
            assert (difference["n"], difference["difference"]) == (len(x), pytest.approx(np.mean(x - y)))
            if len(x) < 10 and np.ptp(x - y) == 0.0:
                assert (difference["low"], difference["high"], difference["p"]) == (
                    None,
                    None,
                    1.0,
                )  # the models give the same
            else:
                assert (difference["low"], difference["high"]) == pytest.approx(tuple(expected), abs=1e-12)
    assert compared["all"]["best"]["order_s"] == ["tuned"]
    assert compared["by"]["type"]["safety"]["best"]["order_s"] == ["base", "tuned"]


def test_records_without_a_pair_are_listed(evaluated, tmp_path):
    left = written(tmp_path, answers("0101"), "a.jsonl")
    right = written(tmp_path, [*answers("0111")[1:], {**answers("1")[0], "id": "new"}, "broken"], "b.jsonl")
    result, document = evaluated(left, right, status=1)
    assert f"{right}:4: no pair in a: not compared (unpaired)" in result.stderr
    assert f"{left}:1: no pair in b: not compared (unpaired)" in result.stderr
    assert f"{right}:5: " in result.stderr
    assert "b: 1 record without a pair in a (line 4), not compared." in result.stdout
    (pairing,) = document["comparison"]["pairing"]
    assert (pairing["pairs"], pairing["unpaired"], pairing["baseline_unpaired"]) == (3, [3], [0])


def test_agreement_with_labels(evaluated, tmp_path):
    stats = pytest.importorskip("scipy.stats")
    human = [[1, 2, 2, 3, None, 5, 4, 1, 2, 5, 3, 4], [5, 4, 4, 3, 3, 1, True, 2, 5, 4, "good", 5]]
    paths = [
        written(tmp_path, answers(good, human=values, judge=range(12)), name)
        for good, values, name in ((BASE, human[0], "a.jsonl"), (TUNED, human[1], "b.jsonl"))
    ]
    result, document = evaluated(*paths, "--label", "human,judge", "--metrics", "order_s,semantic_a", status=1)
    assert f"{paths[1]}:11: human is not a number (invalid_label)" in result.stderr
    assert "human: 1 record without a label." in result.stdout
    assert document["agreement"]["invalid_labels"] == {"human": [{"model": "b", "record": 10}], "judge": []}
    values = np.concatenate([entry["per_record"]["semantic_a"] for entry in document["models"]])
    labels = np.array([np.nan if entry in (None, "good") else float(entry) for entry in (*human[0], *human[1])])
    k, types = ~np.isnan(labels), np.arange(24) % 2
    parts = {("a", None): k & (np.arange(24) < 12), (None, "planning"): k & (types == 0)}
    for (model, value), rows in parts.items():
        (entry,) = [
            entry
            for entry in document["agreement"]["correlations"]
            if (entry["label"], entry["model"], entry["value"], entry["metric"])
            == ("human", model, value, "semantic_a")
        ]
        assert entry["n"] == rows.sum()
        expected = stats.spearmanr(values[rows], labels[rows])
        assert entry["spearman"] == pytest.approx(expected.statistic)
        assert entry["p_student"] == (pytest.approx(expected.pvalue) if model else None)
        assert (entry["p"] is None) == (model is None)  # several records have the same id
        assert entry["pearson"] == pytest.approx(stats.pearsonr(values[rows], labels[rows]).statistic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "x"], "--name is needed for each file: 1 for 2"),
        (["--baseline", "tune"], "--baseline must be one of: base, tuned; did you mean tuned?"),
        (
            ["--label-field", "humann"],
            "--label-field: no record has the field 'humann'; fields: id, reference, response, type",
        ),
    ],
)
def test_usage(call, files, arguments, message):
    result = call("evaluate", *files, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
