"""`assay evaluate`: files in, tables and files out, with any content of a line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from assay.service.cli.main import main
from assay.service.tasks import evaluate
from tests.evaluate.answer_files import rows, written


def run(*arguments, stdin: str | bytes | None = None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def test_a_table_like_the_papers(tmp_path):
    result = run("evaluate", written(tmp_path, rows(9)))
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
        "Every record has level 1.",
        "",
        evaluate("score", []).signature,
    ]
    assert "evaluated    9" in result.stderr


def test_ten_thousand_lines_with_malformed_ones(tmp_path):
    """Each malformed line costs its own result only, and is named."""
    lines: list = rows(10_000)
    broken = {17: '{"response": ', 4_000: "[]", 9_999: '{"response": null, "reference": "x"}', 5: '"\\ud800"'}
    for number, text in broken.items():
        lines[number - 1] = text
    lines[7_000 - 1] = {"response": "x", "reference": "no step at all"}
    target = tmp_path / "all.json"
    result = run("evaluate", written(tmp_path, lines), "--json", target)
    assert result.exit_code == 1
    named = {int(line.split(":")[1]) for line in result.stderr.splitlines() if "answers.jsonl:" in line}
    assert named == {*broken, 7_000}
    document = json.loads(target.read_text())
    kept = [k for k in range(1, 10_001) if k not in broken]
    assert document["lines"] == kept
    assert {entry["line"]: entry["reason"] for entry in document["unread"]} == {
        5: "not_json",
        17: "not_json",
        4_000: "not_an_object",
        9_999: "wrong_type",
    }
    expected = evaluate("score", [lines[k - 1] for k in kept], by=["level", "type"])
    assert document["aggregate"] == expected.aggregate
    assert document["by"] == expected.by
    assert document["failed"] == [{"record": kept.index(7_000), "reason": "bad_step_line"}]
    assert document["per_record"]["order_s"][0] == 0.0


def test_csv_has_a_line_for_each_record(tmp_path):
    lines = [*rows(3), "x", {"response": "x", "reference": "y", "type": "a,\nb"}]
    result = run("evaluate", written(tmp_path, lines), "--csv", "-", "-q")
    assert result.exit_code == 1
    found = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["line"], row["id"], row["level"], row["type"], row["failed"]) for row in found] == [
        ("1", "r0", "1", "planning", ""),
        ("2", "r1", "1", "safety", ""),
        ("3", "r2", "1", "planning", ""),
        ("5", "", "unknown", "a,\nb", "bad_step_line"),
    ]
    assert [row["semantic_a"] for row in found] == ["0.0", "1.5", "1.5", ""]


class Page(HTMLParser):
    """The references of a page, and its visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        self.text += data


def test_the_report_needs_nothing_from_elsewhere(tmp_path):
    lines = [*rows(30), {"broken": "<script>alert(1)</script>"}, {"response": "x", "reference": "y", "type": "<b>&"}]
    target = tmp_path / "report.html"
    assert run("evaluate", written(tmp_path, lines), "--html", target).exit_code == 1
    text = target.read_text(encoding="utf-8")
    page = Page(text)
    assert page.outside == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert "http-equiv" in text
    assert "prefers-color-scheme: dark" in text
    assert "alert(1)" not in text
    assert "<b>&" not in text
    expected = ("Semantic-A", "level 1", "type planning", "type <b>&", "bad_step_line", "missing_field", "line 31")
    for shown in (*expected, evaluate("score", []).signature):
        assert shown in page.text, shown
    # Step-M, Order-Tau and Semantic-A, each over all records, one level and two types; the others have equal values
    assert page.tags.count("svg") == 3 * 4
    assert page.text.count("Every record has the value of Step-M.") == 5


def test_fields_are_mapped(tmp_path):
    told = [{"out": {"text": row["response"]}, "gold": row["reference"]} for row in rows(6)]
    path = written(tmp_path, told)
    result = run("evaluate", path, "--field", "response=out.text", "--field", "reference=gold", "--metrics", "order_s")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["n", "Order-S"]
    assert result.stdout.splitlines()[2].split() == ["all", "6", "66.67"]
    wrong = run("evaluate", path, "--field", "response=out.txt", "--field", "reference=gold")
    assert wrong.exit_code == 2
    known = "fields: gold, out; did you mean out? Name the right one with --field response=NAME"
    assert f"no field 'out.txt' in any row; {known}" in wrong.stderr


def test_long_values_to_group_by_are_shortened_to_one_line(tmp_path):
    told = [
        {**row, "prompt": f"Write protocol {k % 2}.\n\n{'Answer in four sections. ' * 9}"}
        for k, row in enumerate(rows(4))
    ]
    lines = run("evaluate", written(tmp_path, told), "--by", "prompt").stdout.splitlines()
    names = [line.partition("…")[0] for line in lines if line.startswith("prompt ")]
    assert names == [f"prompt Write protocol {k}. Answer in four sectio" for k in range(2)]


def test_a_field_to_group_by_that_no_record_has_is_a_warning_everywhere(tmp_path):
    path, page, document = written(tmp_path, rows(3)), tmp_path / "a.html", tmp_path / "a.json"
    result = run("evaluate", path, "--by", "levl", "--html", page, "--json", document)
    (sentence,) = json.loads(document.read_text())["warnings"]
    assert "levl" in sentence
    assert "fields: " in sentence
    assert f"warning: {path}: {sentence}" in result.stderr
    assert sentence in result.stdout
    assert sentence in Page(page.read_text()).text
    assert "warning" not in run("evaluate", path, "--by", "level").stderr


def test_usual_names_are_found_and_shown(tmp_path):
    told = [{"model_output": row["response"], "gt_key_block": row["reference"]} for row in rows(6)]
    result = run("evaluate", written(tmp_path, told), "--profile", "thoth")
    assert result.exit_code == 0
    assert "note: response was read from the field model_output" in result.stderr
    assert "note: reference was read from the field gt_key_block" in result.stderr


@pytest.mark.parametrize("form", ["array", "request", "stdin", "parquet"])
def test_other_forms(tmp_path, form):
    expected = run("evaluate", written(tmp_path, rows(9))).stdout
    if form == "stdin":
        found = run("evaluate", "-", stdin="\n\n".join(map(json.dumps, rows(9))))
    elif form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows(9)), tmp_path / "a.parquet")
        found = run("evaluate", tmp_path / "a.parquet")
    else:
        document = rows(9) if form == "array" else {"task": "score", "records": rows(9)}
        found = run("evaluate", written(tmp_path, [json.dumps(document, indent=1)], "a.json"))
    assert found.exit_code == 0
    assert found.stdout == expected


def test_libraries_bring_their_metrics(tmp_path):
    told = [{**row, "action_new": ["add", "mix"]} for row in rows(3)]
    head = run("evaluate", written(tmp_path, told)).stdout.splitlines()[0].split()
    assert head[-2:] == ["Outside", "Distractors"]
    assert "Outside" not in run("evaluate", written(tmp_path, told), "--metrics", "step_m").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "scores"], "--task: must be one of: score"),
        (["--task", "lexica"], "; did you mean lexical?"),
        (["--profile", "other"], "--profile: must be one of: paper, thoth"),
        (["--option", "profil=paper"], "--option profil: there is no option of this name; did you mean profile?"),
        (["--metrics", "step_m,step_n"], "; did you mean step_m?"),
        (["--option", "profile"], "not of the form NAME=VALUE"),
        (["--task", "bioprobench.gen", "--option", "delta_sweep=0.5"], "--option delta_sweep: must be a list"),
        (["--task", "bioprobench.gen", "--option", f"delta_sweep={[0.5] * 33}"], "must have at most 32 items"),
        (["--task", "llam_eval", "--option", "base_url=judge"], "--option base_url: must match ^https?://"),
        (["--json", "-", "--csv", "-"], "only one of"),
        (["--json", "/nowhere/at/all.json"], "the directory does not exist"),
    ],
)
def test_usage(tmp_path, arguments, told):
    result = run("evaluate", written(tmp_path, rows(2)), *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_document_without_rows(tmp_path):
    for text in ("{", '{"rows": []}', "[1, 2", "5"):
        result = run("evaluate", written(tmp_path, [text], "a.json"))
        assert result.exit_code == 2, text
        assert "a.json" in result.stderr


@pytest.mark.parametrize("version", ["3.9", "3.10"])
def test_versions_are_no_numbers(tmp_path, version):
    path = written(tmp_path, [{"response": "wash", "reference": "wash"}])
    options = ["--task", "lexical", "--metrics", "keyword_f1", "--option", f"nltk={version}"]
    assert f"|nltk_rules:{version}|" in run("evaluate", path, *options).stdout


def test_the_list_of_tasks():
    shown = run("evaluate", "--list").stdout
    assert "bioprobench.ord" in shown
    assert "semantic_a" in shown
    gen = shown.partition("bioprobench.gen")[2].partition("bioprobench.rea_err")[0]
    assert re.search(r"--option delta +For step recall and precision: .*  \[default: 0.7\]\n", gen)
    assert re.search(r"--option empty_step_precision .*  \[one, zero; default: one\]\n", gen)
