"""`assay generate`: what it asks, what its file keeps, and what it does when answers fail to come."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.service.records.jobs.manifest import read_manifest
from assay.service.records.output.output_file import appended_file
from assay.service.tasks import endpoint
from tests.command_line import read_rows, write_rows
from tests.evaluate.judge_server import Answer, Judge, completion, standing_in

COUNT = 6
RECORDS: list[dict[str, Any]] = [
    {"question": f"Fill ____ {name} tubes.", "choices": ["3", "5"], "answer": "5", "id": name}
    for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
]
RIGHT = "[ANSWER_START]5 & 90[ANSWER_END]"


def named_in(body: dict[str, Any]) -> str:
    """Return the id of the record that a request asks about."""
    asked = body["messages"][-1]["content"]
    return next(str(record["id"]) for record in RECORDS if f" {record['id']} tubes" in asked)


def right(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], Any]:
    return 200, {}, completion(RIGHT)


def failing(*names: str, status: int = 500) -> Answer:
    """Return a server that has no answers to the records with these ids."""
    return lambda body, number: (status, {}, b"no") if named_in(body) in names else right(body, number)


@pytest.fixture
def folder(tmp_path: Path, call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.0025)
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    done = call("prepare", source, "-o", tmp_path / "rows", "--similarity", 1, "--test", "0.5", "-q")
    assert done.exit_code == 0, done.output
    return tmp_path / "rows"


@pytest.fixture
def generate(folder: Path, call: Callable[..., Result]) -> Callable[..., Result]:
    """Run the command on all rows, with the output `answers.jsonl` beside their folder."""

    def generate(server: Judge, *flags: Any, model: str = "m", split: str | None = "all") -> Result:
        chosen = () if split is None else ("--split", split)
        target = folder.parent / "answers.jsonl"
        return call("generate", folder, "--endpoint", server.base_url, "--model", model, "-o", target, *chosen, *flags)

    return generate


def test_from_records_to_metrics(folder: Path, generate: Callable[..., Result], call: Callable[..., Result]) -> None:
    """The test split by default, with two samples of each prompt; right answers have the best values."""
    flags = ("--samples", 2, "--seed", 7, "--temperature", 0.6, "--top-p", 0.9, "--max-tokens", 64)
    with standing_in(right) as server:
        done = generate(server, *flags, split=None)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert "answers   6 of 6" in done.stdout
    manifest = read_manifest(str(folder))
    ids = [entry.id for entry in manifest.entries.values() if entry.split == "test"]
    assert len(ids) == 3
    asked = sorted((named_in(body), body.pop("seed"), json.dumps(body.pop("messages"))) for body in server.bodies)
    assert asked == sorted((name, seed, json.dumps(manifest.prompts[name])) for name in ids for seed in (7, 8))
    assert server.bodies == [{"model": "m", "temperature": 0.6, "top_p": 0.9, "max_tokens": 64}] * 6
    rows = read_rows(folder.parent / "answers.jsonl")
    assert sorted((row["id"], row["sample"], row["seed"]) for row in rows) == sorted(
        (name, k, 7 + k) for name in ids for k in (0, 1)
    )
    for row in rows:
        sampling = {"temperature": 0.6, "top_p": 0.9, "max_tokens": 64}
        prompts = {name: manifest.about["prompts"][name] for name in ("name", "sha256")}
        expected = {"model": "m", "manifest": manifest.digest, "prompts": prompts, "response": RIGHT, **sampling}
        assert {name: row[name] for name in expected} == expected
    done = call("evaluate", folder, folder.parent / "answers.jsonl", "--json", "-", "-q")
    (task,) = json.loads(done.stdout)["tasks"]
    assert (task["aggregate"]["count"], task["aggregate"]["accuracy"]) == (6, 1.0)


def test_requests_are_concurrent_and_the_first_is_alone(generate: Callable[..., Result]) -> None:
    held = []

    def slow(body: dict[str, Any], number: int) -> tuple[int, dict[str, str], Any]:
        time.sleep(0.1)
        held.append((number, server.held))
        return right(body, number)

    with standing_in(slow) as server:
        assert generate(server, "--samples", 4, "--concurrency", 5).exit_code == 0
    assert 3 <= server.most_held <= 5
    assert held[0] == (0, 1)


def test_only_missing_answers_are_asked_for(folder: Path, generate: Callable[..., Result]) -> None:
    """After faults of some prompts, after a killed process left half a line, and for further samples."""
    target = folder.parent / "answers.jsonl"
    with standing_in(failing("beta", "zeta")) as server:
        done = generate(server, "--retries", 1)
    assert done.exit_code == 1
    assert "beta, sample 0: HTTP status 500, 2 tries\n" in done.stderr
    assert "zeta, sample 0: HTTP status 500, 2 tries\n" in done.stderr
    assert "2 of 6 have no answer" in done.stderr
    assert len(read_rows(target)) == COUNT - 2
    whole = target.read_bytes()
    for left in (whole + b"{", whole + b'{"id":"be', whole[:-1]):
        target.write_bytes(left)
        with standing_in(right) as server:
            assert generate(server).exit_code == 0
        assert sorted(map(named_in, server.bodies)) == ["beta", "zeta"]
        assert sorted(row["id"] for row in read_rows(target)) == sorted(record["id"] for record in RECORDS)
    with standing_in(right) as server:
        assert generate(server).exit_code == 0
        assert not server.bodies
        done = generate(server, "--samples", 2)
    assert ("12 of 12" in done.stdout, len(server.bodies)) == (True, COUNT)


def test_answers_of_other_settings_are_never_mixed(folder: Path, generate: Callable[..., Result]) -> None:
    target = folder.parent / "answers.jsonl"
    with standing_in(right) as server:
        assert generate(server, "--temperature", 0.5, "--seed", 1, "--limit", 2).exit_code == 0
        content = target.read_bytes()
        first, second = read_rows(target)
        cases: list[tuple[list[Any], list[Any], str]] = [
            (["--temperature", 1, "--seed", 1], [first], "line 1 has other settings: temperature 0.5, not 1.0."),
            (["--temperature", 0.5, "--seed", 2], [first], "seed 1, not 2."),
            (["--temperature", 0.5], [first], "seed 1, not null."),
            (["--temperature", 0.5, "--seed", 1, "--max-tokens", 9], [first], "max_tokens null, not 9."),
            ([], [first, {**second, "manifest": "0" * 64}], "line 2 has other settings: manifest 000000000000, not"),
            ([], [{**first, "prompts": {"name": "p", "sha256": "1" * 64}}], "prompts p 111111111111, not assay "),
            ([], [first, second, first], f"line 3 is a second answer: {first['id']}, sample 0"),
            ([], [{**first, "id": "other", "prompt_sha256": "2" * 64}], "prompt_sha256 222222222222, not null."),
            ([], [first, {"id": "beta", "response": "5"}], "line 2 is not an answer of assay generate"),
            ([], [[]], "line 1 is not an answer of assay generate"),
            ([], [{**first, "id": ["beta"]}], "line 1 is not an answer of assay generate"),
        ]
        same = ["--temperature", 0.5, "--seed", 1]
        for flags, rows, said in cases:
            write_rows(target, rows)
            before = target.read_bytes()
            done = generate(server, *(flags or same))
            assert (done.exit_code, said in done.stderr) == (2, True), (said, done.stderr)
            assert target.read_bytes() == before
        target.write_bytes(content)
        assert "model m, not n." in generate(server, *same, model="n").stderr
        target.write_bytes(b'{"reference": "x"}')
        assert "its last line has no end" in generate(server).stderr
        assert target.read_bytes() == b'{"reference": "x"}'
    assert len(server.bodies) == 2


def test_faults_that_pass_are_tried_again(generate: Callable[..., Result]) -> None:
    lone = b'{"choices": [{"message": {"content": "\\ud800"}}]}'  # no Unicode text
    faults = [(429, {"Retry-After": "0.3"}, b""), (503, {}, b""), (200, {}, b"{}"), (200, {}, lone)]
    with standing_in(lambda body, n: faults[n] if n < len(faults) else right(body, n)) as server:
        started = time.monotonic()
        assert generate(server, "--retries", 4, "--limit", 1).exit_code == 0
        assert time.monotonic() - started > 0.3
    assert len(server.bodies) == 5


@pytest.mark.parametrize(
    ("status", "count", "said"),
    [
        (401, 1, "HTTP status 401; its key is"),
        (404, 1, "HTTP status 404; --endpoint is"),
        (400, 3, "HTTP status 400\n"),
    ],
)
def test_a_server_that_refuses_all_is_asked_no_more(
    folder: Path, generate: Callable[..., Result], status: int, count: int, said: str
) -> None:
    with standing_in(lambda *_: (status, {}, b"the key k-1 is wrong")) as server:
        done = generate(server)
    assert (done.exit_code, len(server.bodies)) == (2, count)
    assert said in done.stderr
    assert "k-1" not in done.output
    assert not (folder.parent / "answers.jsonl").exists()
    done = generate(server, "--retries", 0)  # it is there no more
    assert (done.exit_code, "does not answer: ConnectionRefusedError" in done.stderr) == (2, True)


def test_prompts_that_the_server_refuses_do_not_end_the_others(generate: Callable[..., Result]) -> None:
    """The first ones, now and when the command is repeated, as if they were too long."""
    with standing_in(failing("alpha", "beta", status=400)) as server:
        assert generate(server, "--limit", 3).exit_code == 1
    with standing_in(failing("alpha", "beta", "delta", "epsilon", status=400)) as server:
        done = generate(server)
    assert (done.exit_code, done.stderr.count("HTTP status 400\n")) == (1, 4)
    assert len(server.bodies) == 5


def test_a_server_that_is_lost_ends_the_command(folder: Path, generate: Callable[..., Result]) -> None:
    def dying(body: dict[str, Any], number: int) -> tuple[int, dict[str, str], Any]:
        return right(body, number) if number < 2 else (500, {}, b"")

    with standing_in(dying) as server:
        done = generate(server, "--samples", 9, "--concurrency", 1, "--retries", 0)
    assert (done.exit_code, "no longer answers: HTTP status 500, 1 try, 3 times in a row" in done.stderr) == (2, True)
    assert len(server.bodies) < 9
    assert len(read_rows(folder.parent / "answers.jsonl")) == 2


def test_the_key_is_sent_and_goes_nowhere_else(
    folder: Path, generate: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_GENERATE_KEY", "secret-1")
    with standing_in(right) as other:
        target = f"{other.base_url}/chat/completions"
        with standing_in(lambda *_: (307, {"Location": target}, b"")) as server:
            done = generate(server)
            assert (done.exit_code, "HTTP status 307" in done.stderr) == (2, True)
            assert not other.bodies
        said = done.output + generate(other).output
    assert set(server.keys) | set(other.keys) == {"Bearer secret-1"}
    assert "secret-1" not in said
    assert all(b"secret-1" not in file.read_bytes() for file in folder.parent.rglob("*") if file.is_file())


def test_answers_without_text_or_cut_are_counted_and_reasoning_apart_is_put_in_front(
    folder: Path, generate: Callable[..., Result]
) -> None:
    def odd(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], Any]:
        name = named_in(body)
        reply = completion(None if name == "alpha" else "5")
        reply["choices"][0]["finish_reason"] = "length" if name == "alpha" else "stop"
        reply["choices"][0]["message"] |= {"reasoning_content": "Hm."} if name == "beta" else {}
        return 200, {}, reply | {"usage": {"completion_tokens": 3}}

    with standing_in(odd) as server:
        done = generate(server)
    assert done.exit_code == 0
    assert "finished  stop 5, length 1\n" in done.stdout
    for what in ("ended at the limit of tokens", "without text"):
        assert f"warning: 1 answer {what}" in done.stderr
    rows = {row["id"]: row for row in read_rows(folder.parent / "answers.jsonl")}
    assert (rows["alpha"]["response"], rows["beta"]["response"]) == ("", "<think>Hm.</think>5")
    assert all(row["usage"] == {"completion_tokens": 3} for row in rows.values())


def test_one_command_at_a_time_writes_a_file(folder: Path, generate: Callable[..., Result], run) -> None:
    target = folder.parent / "answers.jsonl"
    with appended_file(str(target)), standing_in(right) as server:
        done = run("generate", folder, "--endpoint", server.base_url, "--model", "m", "-o", target)
    assert (done.returncode, server.bodies) == (2, [])
    assert b"another command is adding to this file" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_goes_on_where_it_stopped(
    folder: Path, generate: Callable[..., Result], start, number: signal.Signals
) -> None:
    """It does not wait for the server."""
    target = folder.parent / "answers.jsonl"

    def stuck(body: dict[str, Any], number: int) -> tuple[int, dict[str, str], Any]:
        if number >= 2:
            time.sleep(20)
        return right(body, number)

    with standing_in(stuck) as server:
        flags = ("--endpoint", server.base_url, "--model", "m", "-o", target, "--split", "all")
        process = start("generate", folder, *flags, stderr=-1)
        until = time.monotonic() + 60
        while not target.exists() or len(target.read_bytes().splitlines()) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate(timeout=10)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert said.decode() == "\nInterrupted.\n"
    with standing_in(right) as server:
        assert generate(server).exit_code == 0
    assert len(server.bodies) == COUNT - 2
    assert len({row["id"] for row in read_rows(target)}) == COUNT
    assert not list(folder.parent.glob(".*partial"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--endpoint", "http://user:secret@x/v1"], "not of the form http://HOST:PORT/v1"),
        (["--endpoint", "file:///etc/passwd"], "not of the form"),
        (["--temperature", "nan"], "not a finite number"),
        (["-o", "/dev/null"], "answers are added to a regular file"),
        (["--split", "train"], "has no rows of the split train"),
    ],
)
def test_mistakes_are_named_before_anything_is_asked(
    call: Callable[..., Result], tmp_path: Path, flags: list[str], said: str
) -> None:
    source = write_rows(tmp_path / "records.jsonl", RECORDS[:1])
    call("prepare", source, "-o", tmp_path / "rows", "--similarity", 1, "--hold-out", source, "-q")
    usual = {"--endpoint": "http://127.0.0.1:9/v1", "--model": "m", "-o": str(tmp_path / "answers.jsonl")}
    settings = usual | dict([flags])
    done = call("generate", tmp_path / "rows", *(part for pair in settings.items() for part in pair))
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "answers.jsonl").exists()
    assert "no manifest" in call("generate", tmp_path, *(part for pair in usual.items() for part in pair)).stderr
