"""One vocabulary in all commands: an option has one name, one form and one help; guesses are answered."""

from __future__ import annotations

import json
from collections import defaultdict

import click
import pytest

from assay.service.cli.command import FORMER_OPTIONS, GUESSED_COMMANDS, GUESSED_OPTIONS, SettingOption
from assay.service.cli.main import COMMANDS, main
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, write_rows

LISTS = ("NAMES", "FIELDS", "FILES", "SOURCES")
BEGINNINGS = {
    "--csv": "Write ",
    "--group-field": "Field by which rows are grouped",
    "--option": "An option of ",
    "--output": "Where to write ",
    "--response-field": "Name of the response in a row",
    "--seed": "Seed of ",
    "--task-field": "Name or dotted path of the task",
    "--timeout": "Time limit for ",
}
"""How the help of an option begins whose rest is a command's own."""


def options_of(name: str) -> list[click.Option]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return [
        param for param in command.params if isinstance(param, click.Option) and not isinstance(param, SettingOption)
    ]


def form(option: click.Option) -> tuple[object, ...]:
    return type(option.type), option.metavar, option.is_flag, option.multiple, tuple(option.opts)


def test_the_same_name_has_the_same_form_and_the_same_help() -> None:
    by_name = defaultdict(list)
    for command in COMMANDS:
        for option in options_of(command):
            by_name[option.opts[-1]].append(option)
    for name, options in by_name.items():
        if name != "--output":  # the folder of `prepare`
            assert len({form(option) for option in options}) == 1, name
        helps = {(option.help or "").partition("  [default")[0].rstrip(".") for option in options}
        if name in BEGINNINGS:
            assert all(text.startswith(BEGINNINGS[name]) for text in helps), (name, helps)
        else:
            assert len(helps) == 1, (name, helps)


def test_the_same_thing_has_one_name() -> None:
    names = defaultdict(set)
    for command in COMMANDS:
        for option in options_of(command):
            names[(option.help or "").partition("  [default")[0]].add(option.opts[-1])
    assert {text: some for text, some in names.items() if len(some) > 1} == {}


def test_documents_and_lists() -> None:
    for command in COMMANDS:
        options = {option.opts[-1]: option for option in options_of(command)}
        for name in {"--json", "--html", "--csv", "--markdown", "--latex"} & options.keys():
            option = options[name]
            assert (option.metavar, option.is_flag, option.type.allow_dash) == ("FILE", False, True)  # type: ignore[attr-defined]
        assert {option.metavar for option in options.values() if option.multiple} <= {*LISTS, "NAME=VALUE"}
        assert ("--quiet" in options) == (command not in ("serve", "config"))
        assert not options.keys() & FORMER_OPTIONS.get(command, {}).keys()


def test_guesses_lead_to_names_that_exist() -> None:
    commands = [main.get_command(click.Context(main), name) for name in COMMANDS]
    options = {name for command in commands if command for option in command.params for name in option.opts}
    assert {name for likely in GUESSED_OPTIONS.values() for name in likely} <= options
    assert {name.split()[0] for name in GUESSED_COMMANDS.values()} <= {*COMMANDS, "--help", "--version"}
    assert not GUESSED_COMMANDS.keys() & COMMANDS.keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("eval", "No such command 'eval'; did you mean evaluate?"),
        ("scor", "No such command 'scor'; did you mean score?"),
        ("ablate x --report y", "No such option --report; did you mean --html?"),
        ("score x --reports y", "No such option --reports; did you mean --html?"),
        ("explain x --row 3", "No such option --row; did you mean --number?"),
        ("explain x --jsn", "No such option --jsn; did you mean --json?"),
        ("score x --limit 3", "No such option --limit; --limit is an option of assay generate"),
        ("score x --row 3", "No such option --row; --number is an option of assay explain"),
        ("bench --output x", "No such option --output; did you mean --json?"),
        ("check x --sim 1", "No such option --sim; did you mean --similarity?"),
        ("check x --zzzzzz", "No such option --zzzzzz\n"),
        ("compare x.jsonl", "name the answers of at least two models"),
    ],
)
def test_a_wrong_guess_gets_the_right_name(call, tmp_path, monkeypatch, arguments: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "x.jsonl", [])
    done = call(*arguments.split())
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


ROWS = [
    {"id": "a", "response": RESPONSE, "reference": REFERENCE},
    {"id": "b", "response": "nothing", "reference": REFERENCE},
    {"id": "c", "response": RESPONSE.replace("PBS", "buffer"), "reference": KEY_LINE},
    {"id": "d", "response": RESPONSE, "reference": "no"},
]


def test_former_names_still_work(call, tmp_path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS[:3])
    scored = ("-o", tmp_path / "out.jsonl", "-q")
    for flag in (["--report", tmp_path / "page.html"], [f"--report={tmp_path / 'same.html'}"], ["--html", "-"]):
        assert call("score", rows, *scored, *flag).exit_code == 0
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "same.html").exists()
    assert call("check", rows, "--min-similarity", 0.9, "-q").exit_code == 0
    assert "--report " not in call("score", "--help").stdout


def test_documents_go_to_files_and_to_standard_output(call, tmp_path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    for arguments in (["explain", rows], ["config"], ["conformance", "--vectors", "words"]):
        target = tmp_path / f"{arguments[0]}.json"
        printed = [json.loads(call(*arguments, *flag).stdout) for flag in (["--json", "-"], ["--json"])]
        assert call(*arguments, "--json", target).exit_code == 0
        assert printed == [json.loads(target.read_bytes())] * 2


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_explain_finds_rows_by_number_id_and_reward(call, tmp_path, ending: str) -> None:
    if ending == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        rows = tmp_path / "rows.parquet"
        pq.write_table(pa.Table.from_pylist([{**row, "reference": KEY_LINE} for row in ROWS[:3]]), rows)
    else:
        rows = write_rows(tmp_path / f"rows.{ending}", ROWS[:3] if ending == "jsonl" else [ROWS[:3]])
    sign = ":" if ending == "jsonl" else "#"
    by_number, by_id = (call("explain", rows, *flag, "--json").stdout for flag in (("-n", 2), ("--id", "b")))
    assert json.loads(by_number) == json.loads(by_id)
    assert json.loads(by_id)["reason"] == "missing_sections"
    assert call("explain", rows, "-n", 4).exit_code == call("explain", rows, "--id", "z").exit_code == 2
    done = call("explain", rows, "--worst", 2)
    assert [line for line in done.stdout.splitlines() if line.startswith(str(rows))] == [
        f"{rows}{sign}2 (b): missing_sections",
        f"{rows}{sign}3 (c): low_coverage",
    ]
    document = json.loads(call("explain", rows, "--worst", 9, "--json").stdout)
    assert [row["id"] for row in document] == ["b", "c", "a"]
    assert [row["reward"] for row in document] == sorted(row["reward"] for row in document)
    assert call("explain", rows, "--worst", 2, "--id", "a").exit_code == 2


def test_worst_lists_rows_that_have_no_reward(call, tmp_path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    done = call("explain", rows, "--worst", 1)
    assert done.exit_code == 1
    assert f"{rows}:4: reference: line 1 is not of the form" in done.stderr
    assert f"{rows}:2" not in done.stderr
    assert "Reward 0.0000" in done.stdout


def test_lists_have_commas_or_are_repeated(call, tmp_path) -> None:
    first, second = (write_rows(tmp_path / f"{name}.jsonl", ROWS[:3]) for name in ("one", "two"))
    printed = [
        call("compare", first, second, *flags, "-q").stdout
        for flags in (["--name", "x,y", "--metrics", "step_m,mean_obj"], ["--name", "x", "--name", "y"])
    ]
    assert all("Differences to x" in text for text in printed)
    assert "mean_obj" in printed[0] or "Obj" in printed[0]
