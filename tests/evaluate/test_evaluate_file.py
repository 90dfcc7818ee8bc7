"""`assay evaluate`: files in, tables and files out, with any content of a line."""

from __future__ import annotations

import json
import math
import re

import pytest

from assay.service.cli.main import main
from assay.service.tasks import evaluate
from tests.command_line import RUNNER
from tests.evaluate.answer_files import rows, written
from tests.report.pages import Page


def test_a_table_like_the_papers(call, tmp_path):
    path, latex = written(tmp_path, rows(9)), tmp_path / "table.tex"
    result = call("evaluate", path)
    assert result.exit_code == 0
    table, _, notes = result.stdout.partition("\n\n")
    head, _, *lines = [line.split() for line in table.splitlines()]
    assert head == ["n", "Step-M", "Order-S", "Order-LCS", "Order-Tau", "Semantic-A", "Obj", "Par", "Position"]
    errors = lines.pop(1)
    assert [line[:-9] for line in lines] == [["all"], ["type", "planning"], ["type", "safety"]]
    assert lines[0][-9:-6] == ["9", "66.67", "66.67"]
    assert errors[:2] == ["±", f"{100 * math.sqrt(2 / 9 / 8):.2f}"]
    assert notes.splitlines() == [
        "Semantic-A is out of 150, the other percentages out of 100.",
        "±: standard error of the mean over the records.",
        "No ± of a mean: fewer than 10 values, all of them equal.",
        "Every record has level 1.",
        "",
        evaluate("score", []).signature,
    ]
    assert "evaluated    9" in result.stderr
    lines = "\n\n".join(map(json.dumps, rows(9)))
    assert RUNNER.invoke(main, ["evaluate", "-"], input=lines).stdout == result.stdout
    named = call("evaluate", path, "--metrics", "order_s,semantic_a", "--markdown", "-", "--latex", latex, "-q")
    assert named.stdout.splitlines()[:5] == [
        "|  | n | Order-S | Semantic-A |",
        "| :-- | --: | --: | --: |",
        "| all | 9 | 66.67 ± 16.67 | 100.00 ± 25.00 |",
        "| type planning | 5 | 60.00 ± 24.49 | 90.00 ± 36.74 |",
        "| type safety | 4 | 75.00 ± 25.00 | 112.50 ± 37.50 |",
    ]
    assert r"type safety & 4 & 75.00 $\pm$ 25.00 & 112.50 $\pm$ 37.50 \\" in latex.read_text().splitlines()


def test_shares_are_in_percent(call, tmp_path):
    answers = [
        {"answer": "yes", "generated_response": f"[ANSWER_START]{text} & 80[ANSWER_END]"} for text in ("yes", "no")
    ]
    result = call("evaluate", written(tmp_path, answers), "--task", "bioprobench.pqa", "--markdown", "-", "-q")
    heads, _, values = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines()[:3]]
    cells = dict(zip(heads, values, strict=True))
    assert (cells["Acc"], cells["Brier"]) == ("50.00 ± 50.00", "0.3400 ± 0.3000")


def test_what_is_no_mean_over_records_has_no_standard_error(call, tmp_path):
    """F1 is of all records together."""
    told = [
        {"is_correct": k % 2 == 0, "generated_response": f"[ANSWER_START]{k % 3 == 0}[ANSWER_END]"} for k in range(6)
    ]
    result = call("evaluate", written(tmp_path, told), "--task", "bioprobench.err", "--markdown", "-", "-q")
    assert result.exit_code == 0, result.output
    heads, _, values = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines()[:3]]
    cells = dict(zip(heads, values, strict=True))
    assert cells["Acc"] == f"50.00 ± {100 * math.sqrt(0.25 * 6 / 5 / 6):.2f}"
    assert cells["F1"] == f"{100 * 4 / 7:.2f}"


def test_many_lines_with_malformed_ones(call, tmp_path):
    """Each malformed line costs its own result only, and is named."""
    lines: list = rows(400)
    broken = {17: '{"response": ', 40: "[]", 399: '{"response": null, "reference": "x"}', 5: '"\\ud800"'}
    for number, text in broken.items():
        lines[number - 1] = text
    lines[70 - 1] = {"response": "x", "reference": "no step at all"}
    target = tmp_path / "all.json"
    result = call("evaluate", written(tmp_path, lines), "--json", target)
    assert result.exit_code == 1
    named = {int(line.split(":")[1]) for line in result.stderr.splitlines() if "answers.jsonl:" in line}
    assert named == {*broken, 70}
    document = json.loads(target.read_text())
    read = [k for k in range(1, 401) if k not in broken]
    assert document["lines"] == read
    reasons = {5: "not_json", 17: "not_json", 40: "not_an_object", 399: "wrong_type"}
    assert {entry["line"]: entry["reason"] for entry in document["unread"]} == reasons
    expected = evaluate("score", [lines[k - 1] for k in read], by=["level", "type"])
    assert document["aggregate"] == expected.aggregate
    assert document["by"] == expected.by
    assert document["failed"] == [{"record": read.index(70), "reason": "bad_step_line"}]
    assert document["per_record"]["order_s"][0] == 0.0


def test_the_report(call, tmp_path):
    lines = [*rows(30), {"broken": "<script>alert(1)</script>"}, {"response": "x", "reference": "y", "type": "<b>&"}]
    target = tmp_path / "report.html"
    assert call("evaluate", written(tmp_path, lines), "--html", target).exit_code == 1
    page = Page(target)
    assert "alert(1)" not in page.source
    assert "<b>&" not in page.source
    expected = ("Semantic-A", "level 1", "type planning", "type <b>&", "bad_step_line", "missing_field", "line 31")
    for shown in (*expected, evaluate("score", []).signature):
        assert shown in page.text, shown
    # Step-M, Order-Tau and Semantic-A, each over all records, one level and two types; the others have equal values
    assert page.tags.count("svg") == 3 * 4
    assert page.text.count("Every record has the value of Step-M.") == 5


def test_fields_are_mapped(call, tmp_path):
    told = [{"out": {"text": row["response"]}, "gold": row["reference"]} for row in rows(6)]
    path = written(tmp_path, told)
    result = call("evaluate", path, "--field", "response=out.text", "--field", "reference=gold", "--metrics", "order_s")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[::2]][:2] == [["n", "Order-S"], ["all", "6", "66.67"]]
    wrong = call("evaluate", path, "--field", "response=out.txt", "--field", "reference=gold")
    assert wrong.exit_code == 2
    assert "'out.txt'" in wrong.stderr
    assert "fields: gold, out; did you mean out?" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "scores"], "--task: must be one of: score"),
        (["--option", "profil=paper"], "--option profil: there is no option of this name; did you mean profile?"),
        (["--metrics", "step_m,step_n"], "; did you mean step_m?"),
        (["--option", "profile"], "not of the form NAME=VALUE"),
        (["--task", "bioprobench.gen", "--option", "delta_sweep=0.5"], "--option delta_sweep: must be a list"),
        (["--json", "-", "--csv", "-"], "only one of"),
    ],
)
def test_usage(call, tmp_path, arguments, told):
    result = call("evaluate", written(tmp_path, rows(2)), *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_the_list_of_tasks(call):
    shown = call("evaluate", "--list").stdout
    assert "bioprobench.ord" in shown
    assert "semantic_a" in shown
    gen = shown.partition("bioprobench.gen")[2].partition("bioprobench.rea_err")[0]
    assert re.search(r"--option delta +For step recall and precision: .*  \[default: 0.7\]\n", gen)
    assert re.search(r"--option empty_step_precision .*  \[one, zero; default: one\]\n", gen)
