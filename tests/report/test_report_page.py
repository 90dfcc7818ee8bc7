"""`assay score --report`: a self-contained file in which responses stay text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from assay import ScoreSettings
from assay.service.cli.main import main
from assay.service.records.summary import QUANTILES
from assay.service.tables.page import without_controls
from tests.cases import answer, told
from tests.cases.writing import step

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
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "div", "p", "b", "span", "br"),
    *("h1", "h2", "h3", "h4", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td", "code", "ul", "li"),
    *("details", "summary", "pre", "svg", "line", "rect", "text", "circle"),
    *("a", "small"),
}


class Page(HTMLParser):
    """Tags, attributes and text of a page; checks that tags are nested correctly."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []
        assert {f"#{name}" for name in self.ids} >= self.links

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        given = dict(attrs)
        self.attributes |= given.keys() - {"href"} if tag == "a" else given.keys()
        if tag == "a":
            self.links.add(given["href"])
        self.ids |= {given["id"]} if "id" in given else set()
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="assay")


@pytest.fixture
def page(tmp_path):
    """Score rows with a report; return the page."""

    def page(rows: list[dict], *flags: object) -> Page:
        source = write(tmp_path / "rows.jsonl", rows)
        done = call("score", source, "-o", tmp_path / "out.jsonl", "--report", tmp_path / "report.html", *flags)
        assert done.exit_code in (0, 1), done.output
        return Page(tmp_path / "report.html")

    return page


def test_hostile_texts_stay_texts(page):
    found = page(ROWS, "--group-field", "prompt")
    assert found.tags <= ALLOWED
    assert not {name for name in found.attributes if name.startswith("on")}
    assert not found.attributes & {"src", "href", "action", "data", "style", "srcset", "formaction"}
    told_texts = "".join(found.text)
    assert "<script>alert(1)</script>" in told_texts
    assert "\x1b" not in found.source
    assert "\u202e" not in found.source


def test_hostile_names_of_groups_stay_texts(tmp_path):
    rows = [row | {"type": EVIL} for row in ROWS[:3]]
    report = tmp_path / "report.html"
    done = call("evaluate", write(tmp_path / "<b>.jsonl", rows), "--html", report)
    assert done.exit_code == 0, done.output
    found = Page(report)
    assert found.tags <= ALLOWED
    assert not found.attributes & {"src", "href", "action", "data", "style", "srcset", "formaction", "onerror"}
    assert EVIL.replace("\x1b", "\ufffd").replace("\u202e", "\ufffd") in "".join(found.text)
    assert "\x1b" not in found.source
    assert "\u202e" not in found.source


def test_it_needs_nothing_else(page):
    found = page(ROWS)
    assert """content="default-src 'none'; style-src 'unsafe-inline'">""" in found.source
    assert "url(" not in found.source
    assert "@import" not in found.source
    assert not re.search(r"https?://", found.source.replace(EVIL, ""))
    assert "prefers-color-scheme: dark" in found.source


def test_what_it_says(page):
    rows = [*ROWS, *({"prompt": "four", "response": told(R[:2]), "reference": REFERENCE} for _ in range(2))]
    text = " ".join(" ".join(page(rows, "--group-field", "prompt").text).split())
    for said in (
        "Rewards of rows.jsonl",
        "missing_sections",
        "Rows that could not be scored",
        "bad_step_line",
        "Groups without spread: 2",
        "Highest-scoring responses",
        "Lowest-scoring responses that passed both gates",
        "Swap steps 2 and 3: order 0.0000 → 1.0000",
        "One example of each reason",
        "duplicate steps",
        "correlation",
        "not in the response",
        "2 of 7 responses (28.6 %) fail a gate: missing_sections (2).",
        "3 groups of 2 responses",
        "From the best reward to this one",
        "assay score",
    ):
        assert said in text
    assert "rows.jsonl:3" in text


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"response": "x", "reference": "y"}],
        [{"response": "x", "reference": REFERENCE}],
        [{"response": told(R), "reference": REFERENCE}],
        [{"response": told(R), "reference": REFERENCE}] * 5,
    ],
    ids=["empty", "only faults", "one failed gate", "one", "all equal"],
)
def test_few_rows(page, rows):
    found = page(rows)
    assert found.tags <= ALLOWED
    assert ("Groups without spread: 1" in found.source) == (len(rows) == 5)


def test_prose_without_words(page):
    response = answer(f"Step 1: {json.dumps(R[0])}", "Step 1:")
    found = page([{"response": response, "reference": REFERENCE}], "--min-coverage", "0")
    assert "Distribution of mean_words, mean 0.00" in found.source


def test_settings_change_the_scale(page):
    found = page(ROWS, "--reward-scale", "shift", "--order", "lcs")
    assert "-1.25" in found.source
    assert "changed" in found.source
    assert ScoreSettings(reward_scale="shift", order="lcs").signature in found.source


def test_rows_are_written_as_without_a_report(tmp_path):
    source = write(tmp_path / "rows.jsonl", ROWS)
    for name, flags in (("with", ["--report", tmp_path / "report.html"]), ("without", [])):
        call("score", source, "-o", tmp_path / name, "--output-format", "jsonl", "--include", "components", *flags)
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_the_same_file_gives_the_same_report(page):
    first, second = (re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", page(ROWS).source) for _ in range(2))
    assert first == second


def test_a_dump_of_verl(tmp_path):
    names = {"prompt": "input", "response": "output", "reference": "gts"}
    rows = [{names[name]: value for name, value in row.items()} | {"score": 0.0, "step": 1} for row in ROWS]
    source = write(tmp_path / "1.jsonl", rows[:5])
    report = tmp_path / "report.html"
    done = call("score", source, "--layout", "verl", "-o", tmp_path / "out.jsonl", "--report", report)
    assert done.exit_code == 0, done.output
    assert "3</b><span>prompts" in report.read_text(encoding="utf-8")
    renamed = write(tmp_path / "2.jsonl", [{**row, "answer": row["output"]} for row in rows[:5]])
    done = call("score", renamed, "--layout", "verl", "--response-field", "answer", "-o", tmp_path / "out.jsonl")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_columns(tmp_path, form):
    pytest.importorskip("pyarrow")
    rows = [row | {"reference": "\n".join(f"Step 1: {json.dumps(one)}" for one in R)} for row in ROWS[:4]]
    source, columns = write(tmp_path / "rows.jsonl", rows), tmp_path / f"rows.{form}"
    assert call("score", source, "-o", columns, "-q").exit_code == 0
    reports = []
    for given in (source, columns):
        report = tmp_path / "report.html"
        assert call("score", given, "-o", tmp_path / "out.jsonl", "-q", "--report", report).exit_code == 0
        reports.append(Page(report).text)
    numbers = [[text for text in texts if re.fullmatch(r"[\d.,]+", text)] for texts in reports]
    assert numbers[0] == numbers[1]


def test_a_request(tmp_path):
    request = {"references": [REFERENCE], "responses": [row["response"] for row in ROWS[:3]]}
    source, report = tmp_path / "request.json", tmp_path / "report.html"
    source.write_text(json.dumps(request), encoding="utf-8")
    done = call("score", source, "-o", tmp_path / "out.json", "--report", report)
    assert done.exit_code == 0, done.output
    assert "3</b><span>responses" in report.read_text(encoding="utf-8")


def test_where_it_cannot_be_written(tmp_path):
    source = write(tmp_path / "rows.jsonl", ROWS)
    for report in (source, "-", tmp_path / "nowhere" / "report.html"):
        done = call("score", source, "-o", tmp_path / "out.jsonl", "--report", report)
        assert done.exit_code == 2
    assert source.read_text(encoding="utf-8").count("\n") == len(ROWS)
    done = call("score", source, "--report", tmp_path / "r.html", "--task", "bioprobench.ord")
    assert done.exit_code == 2


def test_lines_and_tabs_stay_and_other_controls_are_replaced():
    assert without_controls("a\tb\r\nc\x00\u2028") == "a\tb\nc\ufffd\ufffd"


def test_its_quantiles_are_those_of_the_terminal(tmp_path):
    """Both interpolate linearly."""
    responses = [told(list(order)[:length]) for length in (2, 3) for order in permutations(R)]
    source = write(tmp_path / "rows.jsonl", [{"response": text, "reference": REFERENCE} for text in [*responses, "x"]])
    done = call("score", source, "-o", tmp_path / "out.jsonl", "--report", tmp_path / "report.html")
    (line,) = re.findall(r"^mean reward.*\n─+\n(.*)$", done.stderr, re.MULTILINE)
    row = re.search(r"<td>reward</td>(.*?)</tr>", Page(tmp_path / "report.html").source, re.DOTALL)[1]
    terminal, shown = (
        [float(value) for value in line.split()],
        [float(value) for value in re.findall(r"<td>([^<]+)<", row)],
    )
    _count, mean, _deviation, *quantiles = shown
    assert len(set(terminal)) > 4
    assert [mean, *quantiles] == pytest.approx(terminal, abs=1e-4)


def test_the_terminal_and_the_report_print_the_same_quantiles(tmp_path, example_rollouts):
    """Of a file with failed gates, also of SCORE, which is the reward in other units."""
    source, report = write(tmp_path / "rows.jsonl", example_rollouts), tmp_path / "report.html"
    done = call("score", source, "-o", tmp_path / "out.jsonl", "--include", "components", "--report", report)
    lines = done.stderr.splitlines()
    heads = next(k for k, line in enumerate(lines) if "mean reward" in line)
    shown = lines[heads + 2].split()
    table = next(csv_of(Page(report), "Rewards"))
    assert [table[name] for name in ("mean", *QUANTILES)] == shown
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    passed = [row["components"] for row in rows if row["reason"] == "ok"]
    assert 0 < len(passed) < len(rows)
    components = {row[""]: row for row in csv_of(Page(report), "Components")}
    for name in ("coverage", "step_gap", "mean_words", "order", "semantics", "score"):
        exact = np.quantile([row[name] for row in passed], list(QUANTILES.values()))
        digits = 2 if name == "mean_words" else 4
        assert [components[name][key] for key in QUANTILES] == [f"{value:.{digits}f}" for value in exact]


def csv_of(page: Page, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the report."""
    text = re.search(f'aria-label="{name} as CSV">(.*?)</pre>', page.source, re.DOTALL)
    assert text is not None
    yield from csv.DictReader(io.StringIO(html.unescape(text[1])))


def test_a_report_on_many_long_responses_stays_small(page):
    """Also if every section is full of examples, each with many steps."""
    many = [step(f"add {k}", "|".join(f"object {n} {'x' * 20}" for n in range(12)), "5 ml|1 h|3 x") for k in range(30)]
    whole = [told(many[k % 7 :]) for k in range(20)]
    texts = [*whole, *(text.replace(*fault) for text, fault in zip(whole, FAULTS, strict=False))]
    found = page([{"prompt": "p" * 5_000, "response": text, "reference": {"steps": many}} for text in texts])
    assert len(set(re.findall(r"<code>(\w+)</code> <span", found.source))) >= 5
    assert len(found.source) < 1_000_000


FAULTS = [
    ("<think>", ""),
    ("<note>", ""),
    ('"action"', '"verb"'),
    ('"objects": [', '"objects": '),
    ("Step 9:", "Step 8:"),
]
