"""`assay evaluate FOLDER`: rows of several tasks, with options, metrics and tables for each."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.research.reports.evaluations import options_for
from assay.service.errors import InvalidRequest
from assay.service.tasks.evaluation import task_named
from tests.command_line import read_rows, write_rows
from tests.prepare.published import ERR, EVAL, ORD, PQA, RIGHT

Call = Callable[..., Result]
RECORDS = [EVAL, PQA, {**ORD, "domain": "plants"}, ERR, {**RIGHT, "id": "ERR-2", "domain": "plants"}]
TASKS = ["scirecipe", "bioprobench.pqa", "bioprobench.ord", "bioprobench.err"]


@pytest.fixture
def folder(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a folder beside two files of answers: right ones, and for the model `half` wrong ones to PQA and ORD."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "records.jsonl", RECORDS)
    for name, stage in (("rows", "grpo"), ("right", "supervised")):
        done = call("prepare", "--hold-out", "records.jsonl", "--stage", stage, "-o", name, "--similarity", 1)
        assert done.exit_code == 0, done.output
    rows = read_rows(Path("right", "test.jsonl"))
    answers = [{"id": row["id"], "response": row["completion"][0]["content"]} for row in rows]
    write_rows(tmp_path / "full.jsonl", answers)
    wrong = "[ANSWER_START][0, 1, 2][ANSWER_END]"
    half = [{**answer, "response": wrong} if answer["id"] in ("PQA-1", "ORD-1") else answer for answer in answers]
    write_rows(tmp_path / "half.jsonl", half)
    return "rows"


def aggregates(done: Result) -> dict[str, dict[str, Any]]:
    return {task["task"]: task["aggregate"] for task in json.loads(done.stdout)["tasks"]}


def test_options_and_metrics_are_for_the_tasks_that_have_them(folder: str, call: Call) -> None:
    def evaluate(*flags: Any) -> Result:
        return call("evaluate", folder, "full.jsonl", "--json", "-", "-q", *flags)

    assert list(aggregates(evaluate())) == TASKS
    documents = json.loads(evaluate("--profile", "bioprobench").stdout)["tasks"]
    assert [task["options"].get("profile") for task in documents] == ["thoth", *["bioprobench"] * 3]
    documents = json.loads(evaluate("--option", "bioprobench.err.strict_markers=true").stdout)["tasks"]
    assert [task["options"].get("strict_markers") for task in documents] == [None, None, None, True]
    assert list(aggregates(evaluate("--metrics", "exact_match,step_m"))) == ["scirecipe", "bioprobench.ord"]
    assert list(aggregates(evaluate("--task", "score"))) == ["score"]
    documents = json.loads(evaluate("--by", "domain").stdout)["tasks"]
    assert [list(task["by"]["domain"]) for task in documents[2:]] == [["plants"], ["plants", "unknown"]]
    for flags, said in {
        ("--option", "strict=1"): "strict_markers",
        ("--metrics", "accurate"): "accuracy",
        ("--profile", "upstream"): "profile",
        ("--task", "bioplanner"): "answers to none of these rows",
        ("--task", "bioprobench.rea_er"): "bioprobench.rea_err",
    }.items():
        done = evaluate(*flags)
        assert (done.exit_code, said in done.stderr) == (2, True), done.output


def test_a_metric_is_for_the_tasks_whose_profile_has_it() -> None:
    tasks = [task_named("bioprobench.ord"), task_named("bioprobench.gen")]
    in_both = {"profile": "bioprobench-2", "metrics": ["exact_match"]}
    assert options_for(tasks, {}, ["exact_match"]) == [{"metrics": ["exact_match"]}, None]
    assert options_for(tasks, {"profile": "bioprobench-2"}, ["exact_match"]) == [in_both, in_both]
    with pytest.raises(InvalidRequest, match="unknown_metric"):
        options_for(tasks, {}, ["token_f1"])


def test_models_are_compared_task_by_task(folder: str, call: Call, small_wordnet: Path) -> None:
    flags = ("--json", "all.json", "--csv", "all.csv", "--html", "all.html", "--markdown", "all.md", "-q")
    done = call("evaluate", folder, "full.jsonl", "half.jsonl", *flags)
    assert done.exit_code == 0, done.output
    tasks = json.loads(Path("all.json").read_bytes())["tasks"]
    by_task = {task["models"][0]["task"]: [model["aggregate"] for model in task["models"]] for task in tasks}
    assert list(by_task) == TASKS
    assert [model["exact_match"] for model in by_task["bioprobench.ord"]] == [1.0, 0.0]
    assert [model["accuracy_over_all"] for model in by_task["bioprobench.pqa"]] == [1.0, 0.0]
    rows = list(csv.DictReader(Path("all.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["task"], row["model"]) for row in rows].count(("bioprobench.err", "half")) == 2
    assert len(rows) == 2 * len(RECORDS)
    page = Path("all.html").read_text(encoding="utf-8")
    assert all(f"<h2>{task}" in page for task in TASKS)
    assert "bioprobench.ord – Differences to full" in Path("all.md").read_text(encoding="utf-8")


def test_printed_tables_of_several_models(folder: str, call: Call) -> None:
    done = call("evaluate", folder, "full.jsonl", "half.jsonl", "--table", "paper.19", "--csv", "-", "-q")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    cells = {(row["model"], row["profile"]): (row["ORD EM"], row["PQA ACC"]) for row in rows}
    assert cells["full", "bioprobench"] == ("100.00", "100.00")
    assert cells["half", "bioprobench"] == ("0.00", "0.00")
    for flags, said in {
        ("--table", "paper.4"): "paper.1",
        ("--table", "protomed"): "there are no answers of llam_eval",
        ("--table", "paper", "--by", "type"): "--table has its own",
        ("--beside", "published"): "--beside is for --table",
    }.items():
        done = call("evaluate", folder, "full.jsonl", *flags)
        assert (done.exit_code, said in done.stderr) == (2, True), done.output


def test_lines_that_cannot_be_read_are_listed_once(folder: str, call: Call, tmp_path: Path) -> None:
    lines = Path("full.jsonl").read_bytes().splitlines()
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"\n".join([b"no json", *lines[:2], b'{"id": "PQA-1"}', *lines[2:]]))
    done = call("evaluate", folder, broken, "-q")
    assert done.exit_code == 1
    listed = [line.partition(": ")[0] for line in done.stderr.splitlines() if "broken.jsonl:" in line]
    assert listed == [f"{broken}:1", f"{broken}:4"]
    done = call("score", folder, broken, "-o", "scored.jsonl", "-q")
    rows = read_rows(Path("scored.jsonl"))
    assert (done.exit_code, len(rows), sum("error" in row for row in rows)) == (1, len(lines) + 2, 2)


def test_the_tasks_and_profiles_are_said_first(folder: str, call: Call, tmp_path: Path) -> None:
    """The same answers are evaluated by another task if they have their references: say by which, and why."""
    row = next(row for row in read_rows(Path("rows", "test.jsonl")) if row["task"] == "score")
    answer = next(answer for answer in read_rows(Path("full.jsonl")) if answer["id"] == row["id"])
    inline = write_rows(tmp_path / "inline.jsonl", [answer | {"reference": row["reference"]}])
    of_folder = "task         scirecipe, profile thoth: it evaluates as the benchmark of the rows in rows does"
    default = "task         score, profile paper: it is the default"
    for sources, flags, lines in (
        ((folder, "full.jsonl"), (), [of_folder, "task         bioprobench.pqa", "task         bioprobench.ord"]),
        ((folder, "full.jsonl", "half.jsonl"), (), [of_folder, "task         bioprobench.pqa, profile "]),
        ((folder, "full.jsonl"), ("--task", "score"), ["task         score, profile paper: --task names it"]),
        ((folder, "full.jsonl"), ("--profile", "paper"), [of_folder.replace("thoth", "paper")]),
        ((folder, "full.jsonl"), ("--table", "paper.1"), ["task         scirecipe, profile thoth: --table paper.1"]),
        ((inline,), (), [default]),
        ((inline,), ("--profile", "thoth"), [default.replace("paper", "thoth")]),
        ((inline,), ("--task", "scirecipe"), ["task         scirecipe, profile thoth: --task names it"]),
        ((inline, inline), ("--name", "a", "--name", "b"), [default]),
    ):
        several = "--task" not in flags and sources[0] == folder
        metrics = () if "--table" in flags else ("--metrics", "step_m,exact_match,accuracy" if several else "step_m")
        done = call("evaluate", *sources, *flags, *metrics)
        said = done.stderr.splitlines()
        assert all(line.startswith(start) for line, start in zip(said, lines, strict=False)), done.output
        assert "without the folder, it is score" in said[0] or of_folder[:50] not in said[0]
        assert done.stderr.count("task  ") == len(dict.fromkeys(said[: done.stderr.count("task  ")]))
        assert "task  " not in call("evaluate", *sources, *flags, *metrics, "-q").stderr
