"""Tables of evaluations to be pasted, standard errors, and the report on the lowest-scoring records."""

from __future__ import annotations

import html
import math
import re

from click.testing import CliRunner

from assay.service.cli.main import main
from assay.service.tables.table import broken
from tests.evaluate.answer_files import GOOD, REFERENCE, STEP, rows, written


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="assay")


def test_the_table_as_markdown_and_latex(tmp_path):
    path, target = written(tmp_path, rows(9)), tmp_path / "table.tex"
    result = run("evaluate", path, "--markdown", "-", "--latex", target, "--metrics", "order_s,semantic_a", "-q")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "|  | n | Order-S | Semantic-A |",
        "| :-- | --: | --: | --: |",
        "| all | 9 | 66.67 ± 16.67 | 100.00 ± 25.00 |",
        "| type planning | 5 | 60.00 ± 24.49 | 90.00 ± 36.74 |",
        "| type safety | 4 | 75.00 ± 25.00 | 112.50 ± 37.50 |",
        "",
        "Semantic-A is out of 150, the other percentages out of 100.",
        "",
        "±: standard error of the mean over the records.",
        "",
        "Every record has level 1.",
    ]
    assert r"type safety & 4 & 75.00 $\pm$ 25.00 & 112.50 $\pm$ 37.50 \\" in target.read_text().splitlines()


def test_what_is_no_mean_over_records_has_no_standard_error(tmp_path):
    """F1 is of all records together."""
    told = [
        {"is_correct": k % 2 == 0, "generated_response": f"[ANSWER_START]{k % 3 == 0}[ANSWER_END]"} for k in range(6)
    ]
    path = written(tmp_path, told)
    result = run("evaluate", path, "--task", "bioprobench.err", "--markdown", "-", "-q")
    assert result.exit_code == 0, result.output
    heads, _, values = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines()[:3]]
    cells = dict(zip(heads, values, strict=True))
    assert cells["Acc"] == f"50.00 ± {100 * math.sqrt(0.25 * 6 / 5 / 6):.2f}"
    assert cells["F1"] == f"{100 * 4 / 7:.2f}"


def test_the_report_leads_to_the_lowest_scoring_records(tmp_path):
    lines = [*rows(6), {"id": "swapped", "response": GOOD, "reference": f"{REFERENCE}\nStep 2: {STEP}"}]
    target = tmp_path / "report.html"
    assert run("evaluate", written(tmp_path, lines), "--html", target, "-q").exit_code == 0
    text = html.unescape(re.sub("<[^>]*>", "", target.read_text(encoding="utf-8")))
    listed = text.partition("Lowest-scoring records")[2].partition("Distributions")[0]
    assert "2 answers (28.6 %) have the lowest value of every metric." in text
    places = [listed.index(name) for name in ("r0", "r3", "swapped", "r1", "r2")]
    assert places == sorted(places)
    assert listed.index("answers.jsonl:1") < listed.index("answers.jsonl:4") < listed.index("answers.jsonl:7")
    assert "nothing" in listed
    assert '"objects": ["pbs"]' in listed
    assert f"evaluate {tmp_path}/answers.jsonl --html" in text


def test_headings_are_broken_on_a_narrow_terminal():
    heads, rows = ["", "n", "Order-LCS", "KW F1"], [["all", "20", "70.59", "0.5000"]]
    assert broken(heads, rows, 80) == heads
    assert broken(heads, rows, 20) == ["\n", "\nn", "Order-\nLCS", "KW\nF1"]
