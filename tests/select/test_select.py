"""`assay select`: files in, rows out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from assay.kernels.score import COMPONENTS
from tests.command_line import read_rows, write_rows
from tests.files.any_format import FORMATS, read, write

Call = Callable[..., Result]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How?"}]


def row(prompt: Any, response: str, reward: float, **others: Any) -> dict[str, Any]:
    return {"prompt": prompt, "reference": "r", "response": response, "reward": reward, "reason": "ok", **others}


ROWS = [
    row("p", "bad", 0.0, id="p0", reason="missing_sections"),
    row("q", "only", 0.7, id="q0"),
    row("p", "good", 0.9, id="p1"),
    row("p", "fair", 0.6, id="p2"),
    row("p", "good", 0.9, id="p3"),
    row("flat", "one", 0.5, id="f0"),
    row("flat", "two", 0.5, id="f1"),
]


def summary(call: Call, *arguments: Any) -> dict[str, Any]:
    target = Path(arguments[0]).with_name("summary.json")
    done = call("select", *arguments, "--json", target)
    assert done.exit_code == 0, done.stderr
    return json.loads(target.read_bytes())


@pytest.mark.parametrize(("form", "target"), [*zip(FORMATS, reversed(FORMATS), strict=True)])
def test_every_format(call: Call, tmp_path: Path, form: str, target: str) -> None:
    """The same input gives the same bytes, and no row gives an empty file."""
    source, output = write(tmp_path / f"scored.{form}", ROWS), tmp_path / f"out.{target}"
    pair = {"prompt": "p", "reference": "r", "chosen": "good", "rejected": "bad"}
    figures = {"rollouts": 4, "pass_rate": 0.75, "mean_reward": 0.6, "spread": 0.9}
    for mode, expected in (
        ("--best", [ROWS[2], ROWS[1], ROWS[5]]),
        ("--pairs", [{**pair, "chosen_reward": 0.9, "rejected_reward": 0.0}]),
        ("--curriculum", [{"id": "p0", "prompt": "p", "reference": "r", **figures}]),
    ):
        contents = []
        for _ in range(2):
            assert call("select", source, mode, "-o", output).exit_code == 0
            contents.append(output.read_bytes())
        assert read(output) == expected
        assert contents[0] == contents[1]
    flat = call("select", write(source, ROWS[5:]), "--pairs", "-o", output)  # no row is written
    assert (flat.exit_code, "warning" in flat.stderr, read(output)) == (0, True, [])


def test_rows_that_are_kept_are_unchanged(call: Call, tmp_path: Path) -> None:
    """Also numbers that do not fit into 64 bits, and spellings of numbers and texts."""
    line = b'{"reward":1.00, "prompt" :"\\u00e9", "response":"a", "seed":123456789012345678901234567890}'
    source = write_rows(tmp_path / "scored.jsonl", [line, row("q", "b", 0.5)])
    call("select", source, "--best", "-o", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes().splitlines()[0] == line
    write_rows(source, [line, line.replace(b'"a"', b'"b"').replace(b"1.00", b"0")])
    call("select", source, "--curriculum", "--min-reward", "1", "-o", tmp_path / "out.jsonl")
    assert read_rows(tmp_path / "out.jsonl")[0]["seed"] == 123456789012345678901234567890


def test_a_summary_says_what_was_kept_and_why(call: Call, tmp_path: Path) -> None:
    unscored = [{"prompt": "p", "response": "x", "error": {"reason": "bad_json", "detail": "d", "line": 8}}]
    source = write_rows(tmp_path / "scored.jsonl", ROWS + unscored)
    output = ("-o", tmp_path / "out.jsonl")
    document = summary(call, source, "--best", "--min-reward", "0.65", *output)
    assert document["rows"] == {
        "read": 8,
        "scored": 7,
        "passed": None,
        "not_scored": {"bad_json": 1},
        "faults": {},
        "dropped": {"below_min_reward": 3, "duplicate": 1, "failed_gate": 1},
    }
    assert document["groups"] == {"all": 3, "kept": 2, "dropped": {"all_below_min_reward": 1}}
    assert document["written"] == 2
    assert document["mean_reward"] == {"all": pytest.approx(4.1 / 7), "kept": pytest.approx(0.8)}
    document = summary(call, source, "--pairs", "all", *output)
    assert document["groups"]["dropped"] == {"no_spread": 1, "single": 1}
    assert (document["written"], document["options"]["per_group"]) == (3, "all")
    assert document["mean_reward"] == pytest.approx({"all": 4.1 / 7, "chosen": 0.8, "rejected": 0.2})
    assert "kept         1 pair from 1 of 3 groups" in call("select", source, "--pairs", *output).stderr
    shown = call("select", source, "--curriculum", *output).stderr
    for words in ("8 rows in 3 groups", "no_spread", "kept         1 of 3 groups (33.3 %)", "bad_json"):
        assert words in shown
    assert not call("select", source, "--curriculum", "-q", *output).stderr


def test_dropped_groups(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "scored.jsonl", ROWS)
    dropped = tmp_path / "dropped.jsonl"
    call("select", source, "--curriculum", "--max-pass-rate", "0.5", "--dropped", dropped, "-o", tmp_path / "out.jsonl")
    assert [(read_row["reason"], read_row["prompt"], read_row["line"]) for read_row in read_rows(dropped)] == [
        ("above_max_pass_rate", "p", 1),
        ("single", "q", 2),
        ("no_spread", "flat", 6),
    ]
    figures = {"rollouts": 2, "pass_rate": 1.0, "mean_reward": 0.5, "spread": 0.0}
    assert read_rows(dropped)[2] == {"reason": "no_spread", "line": 6, **figures, "prompt": "flat", "reference": "r"}

    call("select", source, "--pairs", "--margin", "0.95", "--dropped", dropped, "-o", tmp_path / "out.jsonl")
    assert [read_row["reason"] for read_row in read_rows(dropped)] == ["below_margin", "single", "no_spread"]
    assert "pass_rate" not in read_rows(dropped)[0]  # which matters in a curriculum only


def test_who_passes(call: Call, tmp_path: Path) -> None:
    """By components both gates and order 1; a reward from --min-reward on, if that is given."""
    sure = {"format": 1.0, "consistency": 1.0, "order": 1.0}
    parts = [sure, {**sure, "order": 0.5}, {**sure, "consistency": 0.0}]
    output = tmp_path / "out.jsonl"
    for name, rows in (
        ("scored.jsonl", [row("p", f"{k}", 1 - k / 3, components=part) for k, part in enumerate(parts)]),
        ("scored.parquet", [row("p", f"{k}", 1 - k / 3, **part) for k, part in enumerate(parts)]),
    ):
        source = write(tmp_path / name, rows)
        assert summary(call, source, "--curriculum", "-o", output)["passed_if"] == "both gates and order 1"
        assert read_rows(output)[0]["pass_rate"] == 1 / 3
        call("select", source, "--curriculum", "--min-reward", "0.5", "-o", output)
        assert read_rows(output)[0]["pass_rate"] == 2 / 3
        document = summary(call, source, "--best", "all", "--passed", "-o", output)
        assert [read_row["response"] for read_row in read_rows(output)] == ["0"]
        assert document["rows"]["dropped"] == {"not_passed": 2}


def test_groups(call: Call, tmp_path: Path) -> None:
    """Equal prompts with different references are two groups; a field may name the group instead."""
    rows = [row("p", "a", 1.0, run={"group": 1}), row("p", "b", 0.5, reference="other", run={"group": 1})]
    source, output = write_rows(tmp_path / "scored.jsonl", rows), ("-o", tmp_path / "out.jsonl")
    assert summary(call, source, "--best", *output)["groups"]["all"] == 2
    document = summary(call, source, "--best", "--group-field", "run.group", *output)
    assert (document["groups"]["all"], document["grouped_by"]) == (1, "run.group")
    write_rows(source, [{"key": "k", "prediction": "a", "score": 1}, {"key": "k", "prediction": "b", "score": 0.5}])
    document = summary(call, source, "--pairs", "--reward-field", "score", *output)
    assert (document["written"], document["grouped_by"]) == (1, "key")
    notes = call("select", source, "--pairs", "--reward-field", "score", *output).stderr.splitlines()[:2]
    assert [note.rpartition(" ")[2] for note in notes] == ["prediction", "key"]


def test_faults_are_listed(call: Call, tmp_path: Path) -> None:
    bad = [
        *(b"no json", b"[1]", {"prompt": "p", "response": "x"}, row("p", "x", "1"), row("p", "x", True)),
        {**row("p", "x", 1.0), "response": 5},
    ]
    source, output = write_rows(tmp_path / "scored.jsonl", [*ROWS, *bad]), tmp_path / "out.jsonl"
    done = call("select", source, "--best", "-o", output)
    assert done.exit_code == 1
    listed = [line for line in done.stderr.splitlines() if line.startswith(str(source))]
    assert [line.partition(":")[2].partition(":")[0] for line in listed] == [str(n) for n in range(8, 14)]
    reasons = [line.rpartition("(")[2][:-1] for line in listed]
    assert reasons == ["not_json", "not_an_object", "missing_field", "not_a_number", "not_a_number", "not_a_string"]
    assert len(read_rows(output)) == 3
    pair = [row("p", "x", float("nan")), row("p", "y", 1.0)]
    done = call("select", write(tmp_path / "scored.parquet", pair), "--best", "-o", output)
    assert (done.exit_code, len(read_rows(output))) == (1, 1)
    assert "scored.parquet#1: the field 'reward' is nan (not_finite)" in done.stderr
    done = call("select", write_rows(source, [row(5, "x", 1.0), row(CHAT, "y", 1.0)]), "--best", "--trainer", "trl")
    assert (done.exit_code, "(wrong_type)" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--best", "--pairs"], "one of"),
        (["--best", "--margin", "0.1"], "--margin is for --pairs"),
        (["--best", "--min-reward", "nan"], "--min-reward: not a finite number"),
        (["--curriculum", "--min-pass-rate", "0.6", "--max-pass-rate", "0.5"], "above"),
        (["--best", "-1"], "'-1' is neither a number from 1 on nor all"),
        (["--best", "--passed"], "--include components"),
        (["--best", "--prompt-field", "ask"], "no field 'ask'"),
        (["--best", "--trainer", "verl"], "verl reads responses only from Parquet"),
        (["--best", "--trainer", "areal"], "--best has rows for trl, verl, openrlhf, ms-swift, slime, skyrl, prime-rl"),
        (["--best", "--dropped", "nowhere/dropped.jsonl"], "nowhere/dropped.jsonl: the directory does not exist"),
    ],
)
def test_usage(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "scored.jsonl", [{"prompt": "p", "error": {"reason": "bad_reference"}}, *ROWS])
    output = [] if "-o" in arguments else ["-o", "out.jsonl"]
    done = call("select", "scored.jsonl", *arguments, *output)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scored.jsonl"]


SFT = {"prompt": "p", "completion": "good"}
ASKED = [{"role": "user", "content": "p"}]
ANSWER = [{"role": "assistant", "content": "good"}]
ANSWERED = {"messages": ASKED + ANSWER}
PAIR = {"prompt": "p", "chosen": "good", "rejected": "bad"}
STATISTICS = {"rollouts": 4, "pass_rate": 0.75, "mean_reward": 0.6, "spread": 0.9}
TRUTH = {"style": "rule", "ground_truth": "r"}
OF_DATA = {"data_source": "assay", "prompt": ASKED, "extra_info": {"index": "p0", **STATISTICS}}
VERL = {**OF_DATA, "ability": "protocol", "reward_model": TRUTH}
SKYRL = {**OF_DATA, "env_class": "assay", "reward_spec": TRUTH}
GYM = {"responses_create_params": {"input": ASKED}, "reference": "r", "id": "p0", **STATISTICS}


@pytest.mark.parametrize(
    ("mode", "trainer", "expected"),
    [
        ("--best", "trl", SFT),
        ("--best", "openrlhf", {"input": "p", "output": "good"}),
        *(("--best", name, {"messages": ASKED + ANSWER}) for name in ("verl", "prime-rl")),
        ("--pairs", "trl", PAIR),
        ("--pairs", "ms-swift", {**ANSWERED, "rejected_response": "bad"}),
        ("--curriculum", "trl", {"prompt": "p", "reference": "r", "id": "p0", **STATISTICS}),
        ("--curriculum", "verl", VERL),
        ("--curriculum", "openrlhf", {"input": "p", "label": "r", "id": "p0", **STATISTICS}),
        ("--curriculum", "ms-swift", {"messages": ASKED, "reference": "r", "id": "p0", **STATISTICS}),
        ("--curriculum", "slime", {"prompt": "p", "label": "r", "metadata": {"id": "p0", **STATISTICS}}),
        ("--curriculum", "areal", {"messages": ASKED, "reference": "r", "query_id": "p0", **STATISTICS}),
        ("--curriculum", "skyrl", SKYRL),
        ("--curriculum", "prime-rl", {"prompt": ASKED, "answer": "r", "info": {"id": "p0", **STATISTICS}}),
        ("--curriculum", "nemo-gym", GYM),
    ],
)
def test_rows_of_trainers(call: Call, tmp_path: Path, mode: str, trainer: str, expected: dict[str, Any]) -> None:
    """tests/trainers/test_selected_rows.py gives such rows to the trainers themselves."""
    source, output = write_rows(tmp_path / "scored.jsonl", ROWS), tmp_path / "out.parquet"
    assert call("select", source, mode, "--trainer", trainer, "-o", output).exit_code == 0
    rewards = {"--best": {"reward": 0.9}, "--pairs": {"chosen_reward": 0.9, "rejected_reward": 0.0}}
    assert read(output)[0] == {**expected, **rewards.get(mode, {})}


def test_tasks_and_references_of_other_kinds(call: Call, tmp_path: Path) -> None:
    """A reference is text for trainers, because columns have one type; the task of a row travels."""
    step = {"action": "add", "objects": ["pbs"], "parameters": []}
    references = [{"steps": [step]}, {"wrong_steps": ["b"], "correct_steps": ["b"]}]
    tasks = [None, "bioprobench.ord"]
    rows = [row("pq"[k], f"{n}", float(n), reference=references[k], task=tasks[k]) for k in range(2) for n in range(2)]
    source, output = write_rows(tmp_path / "scored.jsonl", rows), tmp_path / "out.parquet"
    call("select", source, "--curriculum", "--trainer", "verl", "-o", output)
    table = read(output)
    assert [entry["data_source"] for entry in table] == ["assay", "bioprobench.ord"]
    truths = [entry["reward_model"]["ground_truth"] for entry in table]
    assert truths[0] == "Step 1: " + json.dumps(step, separators=(",", ":"))
    assert json.loads(truths[1]) == references[1]
    assert [entry["extra_info"]["index"] for entry in table] == [1, 3]  # lines, as rows have no id
    call("select", source, "--curriculum", "--trainer", "openrlhf", "-o", output)
    assert json.loads(read(output)[1]["label"]) == {"task": "bioprobench.ord", "reference": references[1]}
    # In Parquet each component is a column; they are of a response, and not in a curriculum.
    for names in (COMPONENTS, COMPONENTS[:-1]):  # and as rules 3 had them, without quantity_errors
        rows = [row("p", f"{k}", float(k), **dict.fromkeys(names, float(k)), advantage=1.0) for k in range(2)]
        call("select", write(tmp_path / "scored.parquet", rows), "--curriculum", "-o", output)
        assert pq.read_schema(output).names == ["prompt", "reference", "rollouts", "pass_rate", "mean_reward", "spread"]
