"""`assay score --html`: a self-contained file in which responses stay text, also on a file larger than memory."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

from assay import Scorer
from assay.research.reports.report import kind_of
from assay.service.explain.explanation import explain
from assay.service.records.jobs.summary import QUANTILES
from assay.service.tables.page import without_controls
from tests.cases import told
from tests.cases.writing import step
from tests.command_line import write_rows
from tests.report.pages import Page

R = [step("add", "cells|pbs", "5 ml"), step("spin", "cells", "5 min"), step("store", "pellet")]
REFERENCE = {"steps": R}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;\x1b[2J\u202e</pre></details></style><svg onload=x>"
ROWS: list[dict] = [
    {"prompt": "one", "response": told(R), "reference": REFERENCE},
    {"prompt": "one", "response": told([R[0], R[2], R[1]]), "reference": REFERENCE},
    {"prompt": f"two {EVIL}", "response": f"no {EVIL}", "reference": REFERENCE},
    {"prompt": f"two {EVIL}", "response": "no", "reference": REFERENCE},
    {"prompt": "three", "response": told([step(EVIL, EVIL, EVIL)]), "reference": {"steps": [step("x" + EVIL, EVIL)]}},
    {"prompt": "three", "response": "x", "reference": "not a reference"},
]


@pytest.fixture
def page(call, tmp_path):
    """Score rows with a report; return the page."""

    def page(rows: list[dict], *flags: object) -> Page:
        source = write_rows(tmp_path / "rows.jsonl", rows)
        done = call("score", source, "-o", tmp_path / "out.jsonl", "--html", tmp_path / "report.html", *flags)
        assert done.exit_code in (0, 1), done.output
        return Page(tmp_path / "report.html")

    return page


def test_hostile_texts_stay_texts(call, page, tmp_path):
    """Also as names of groups; whoever reads it twice reads the same."""
    report_page = page(ROWS, "--group-field", "prompt")
    assert "<script>alert(1)</script>" in report_page.text
    assert not re.search(r"https?://", report_page.source.replace(EVIL, ""))
    again = page(ROWS, "--group-field", "prompt")
    assert len({re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", document.source) for document in (report_page, again)}) == 1
    rows = [row | {"type": EVIL} for row in ROWS[:3]]
    report = tmp_path / "report.html"
    assert call("evaluate", write_rows(tmp_path / "<b>.jsonl", rows), "--html", report).exit_code == 0
    assert EVIL.replace("\x1b", "\ufffd").replace("\u202e", "\ufffd") in Page(report).text


def test_what_it_says(page):
    rows = [*ROWS, *({"prompt": "four", "response": told(R[:2]), "reference": REFERENCE} for _ in range(2))]
    text = " ".join(" ".join(page(rows, "--group-field", "prompt").texts).split())
    for said in (
        "Rewards of rows.jsonl",
        "bad_step_line",
        "Groups without spread: 2",
        "Swap steps 2 and 3: order 0.0000 → 1.0000",
        "duplicate steps",
        "correlation",
        "2 of 7 responses (28.6 %) fail a gate: missing_sections (2).",
        "3 groups of 2 responses",
        "From the best reward to this one",
    ):
        assert said in text
    assert "rows.jsonl:3" in text


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"response": told(R), "reference": REFERENCE}],
        [{"response": told(R), "reference": REFERENCE}] * 5,
    ],
    ids=["empty", "one", "all equal"],
)
def test_few_rows(page, rows):
    assert ("Groups without spread: 1" in page(rows).source) == (len(rows) == 5)


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_columns_and_a_request(call, tmp_path, form):
    source = write_rows(tmp_path / "rows.jsonl", ROWS[:2])
    rows_file, report = tmp_path / f"rows.{form}", tmp_path / "report.html"
    if form == "json":
        request = {"references": [REFERENCE], "responses": [row["response"] for row in ROWS[:2]]}
        rows_file.write_text(json.dumps(request), encoding="utf-8")
    else:
        lines = "\n".join(f"Step {k}: {json.dumps(element)}" for k, element in enumerate(R, 1))
        write_rows(source, [{**row, "reference": lines} for row in ROWS[:2]])
        assert call("score", source, "-o", rows_file, "-q").exit_code == 0
    done = call("score", rows_file, "-o", tmp_path / f"out.{form}", "--html", report)
    assert done.exit_code == 0, done.output
    assert "2</b><span>responses" in report.read_text(encoding="utf-8")
    assert call("score", source, "-o", tmp_path / "out.jsonl", "--html", source).exit_code == 2


def test_the_terminal_and_the_report_print_the_same_quantiles(call, tmp_path, example_rollouts):
    """Of a file with failed gates, also of SCORE, which is the reward in other units."""
    source, report = write_rows(tmp_path / "rows.jsonl", example_rollouts), tmp_path / "report.html"
    done = call("score", source, "-o", tmp_path / "out.jsonl", "--include", "components", "--html", report)
    lines = done.stderr.splitlines()
    heads = next(k for k, line in enumerate(lines) if "mean reward" in line)
    shown = lines[heads + 2].split()
    table = next(csv_of(Page(report), "Rewards"))
    assert [table[name] for name in ("mean", *QUANTILES)] == shown
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    passed = [row["components"] for row in rows if row["reason"] == "ok"]
    assert 0 < len(passed) < len(rows)
    components = {row[""]: row for row in csv_of(Page(report), "Components")}
    for name in ("coverage", "step_gap", "mean_words", "order", "semantics", "score", "quantity_errors"):
        exact = np.quantile([row[name] for row in passed], list(QUANTILES.values()))
        digits = 2 if name in ("mean_words", "quantity_errors") else 4
        assert [components[name][key] for key in QUANTILES] == [f"{value:.{digits}f}" for value in exact]


def csv_of(page: Page, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the report."""
    text = re.search(f'aria-label="{name} as CSV">(.*?)</pre>', page.source, re.DOTALL)
    assert text is not None
    yield from csv.DictReader(io.StringIO(html.unescape(text[1])))


def test_lines_and_tabs_stay_and_other_controls_are_replaced():
    assert without_controls("a\tb\r\nc\x00\u2028") == "a\tb\nc\ufffd\ufffd"


def test_parameters_with_equal_terms_are_shared():
    mine, theirs = step("add", "pbs", "500 µl|2 min"), step("add", "pbs", "0.5 ml|3 min")
    explanation = explain(Scorer(parameter_similarity="quantities"), told([mine]), {"steps": [theirs]})
    (pair,) = explanation.pairs
    for side in explanation.prediction[0], explanation.reference[0]:
        assert [kind_of(phrase, pair.parameters) for phrase in side.parameters] == ["shared", "other"]
