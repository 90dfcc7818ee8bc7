"""`assay conformance`: right and wrong engines, its output and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assay.research.conformance import MAX_PROBLEMS, Vector, run_engine
from tests.conftest import ROOT

READ = "import json, os, signal, sys, time\nrows = [json.loads(line) for line in sys.stdin]\n"
RIGHT = "print(json.dumps({'id': row['id'], 'words': [row['text']]}), flush=True)\n"
EACH = f"for row in rows:\n    {RIGHT}"

CASES = [
    Vector(f"words/t/{k}", {"id": f"words/t/{k}", "kind": "words", "text": "a"}, {"words": ["a"]}) for k in range(5)
]

STOPPED = ["it was stopped after {} s with 5 answers"]
FAULTY = {
    "exits at once": ("import sys; sys.exit(3)", 0, ["it exited with code 3 after 0 answers"]),
    "crashes in between": (
        f"{READ}for row in rows[:2]:\n    {RIGHT}os.kill(os.getpid(), signal.SIGSEGV)",
        2,
        ["it was killed by SIGSEGV after 2 answers"],
    ),
    "a signal without a name": (
        "import os; os.kill(os.getpid(), 40)",
        0,
        ["it was killed by signal 40 after 0 answers"],
    ),
    "hangs": (f"{READ}{EACH}time.sleep(600)", 5, STOPPED),
    "hangs with its output closed": (f"{READ}{EACH}os.close(1)\ntime.sleep(600)", 5, STOPPED),
    "leaves a process": (f"import subprocess\n{READ}{EACH}subprocess.Popen(['sleep', '600'])", 5, STOPPED),
    "nonsense": (
        f"{READ}print()\nprint('[1]')\nprint('{{}}')\nprint('[' * 100_000, flush=True)\n"
        f"sys.stdout.buffer.write(b'\\xff\\n')\n{EACH}",
        5,
        [
            "line 2 of its output is not an object with the id of a row",
            "line 3 of its output is not an object with the id of a row",
            "line 4 of its output is not JSON",
            "line 5 of its output is not JSON",
        ],
    ),
    "wrong ids": (
        f"{READ}rows[0]['id'] = 'mine'\nrows.append(rows[1])\n{EACH}",
        4,
        ["line 1 of its output has an unknown id: 'mine'", "line 6 of its output answers words/t/1 a second time"],
    ),
    "an endless line": (
        "while True:\n    print('x' * 4096, end='')",
        0,
        [f"line {k:,} of its output is too long" for k in range(1, MAX_PROBLEMS + 1)]
        + [f"it was stopped after {MAX_PROBLEMS} faulty lines"],
    ),
}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(("code", "answers", "problems"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_engine(code: str, answers: int, problems: list[str]) -> None:
    for timeout in (3, 30) if problems == STOPPED else (60,):
        began = time.monotonic()
        read, faults = run_engine(python(code), CASES, timeout)
        seconds = time.monotonic() - began
        if len(read) == answers:  # else a busy machine has not started it within the first time
            break
    assert (len(read), faults) == (answers, [problem.format(timeout) for problem in problems])
    assert seconds < (timeout + 27 if problems == STOPPED else 30)


def test_answers_in_any_order_and_while_rows_are_read() -> None:
    answers, _ = run_engine(python(f"{READ}rows.reverse()\n{EACH}"), CASES, 60)
    assert list(answers) == [case.id for case in CASES[::-1]]
    many = [Vector(str(k), {"id": str(k), "kind": "words", "text": "x" * 1_000}, {}) for k in range(2_000)]
    at_once = f"import json, sys\nfor line in sys.stdin:\n    row = json.loads(line)\n    {RIGHT}"
    answers, problems = run_engine(python(at_once), many, 60)
    assert (len(answers), problems) == (2_000, [])


def test_assay_itself(call: Any) -> None:
    result = call("conformance", "--vectors", "words,advantages", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["passed"] == document["cases"] == sum(group["cases"] for group in document["groups"].values()) > 600
    assert (document["problems"], document["differences"], document["tolerance"]) == ([], [], 1e-9)
    assert document["engine"].startswith("assay ")


def test_the_twin_as_an_engine(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/conformance.md."""
    monkeypatch.chdir(ROOT)
    engine = shlex.join([sys.executable, "-m", "tests.reference.engine"])
    result = call("conformance", "--engine", engine, "--exact", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["passed"] == document["cases"] > 1_500
    assert document["left_out"] == {}


def test_the_smallest_engine_of_the_documentation(call: Any, tmp_path: Path) -> None:
    """Its rewards are right, but it has no components and tells no errors."""
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "conformance.md").read_text(), re.DOTALL)
    script = tmp_path / "an engine.py"
    script.write_text(snippet + "sys.exit(1)\n")
    (tmp_path / "my_package.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.reference.scorer import UnreadableReferenceError, parse_reference, score_one\n"
        "def my_reward(response, reference, **config):\n"
        "    try:\n"
        "        found = score_one(response, parse_reference(reference, config), config)\n"
        "    except UnreadableReferenceError:\n"
        "        return 0.0, 'an error'\n"
        "    return found['reward'], found['reason']\n"
    )
    command = shlex.join([sys.executable, str(script)])
    result = call("conformance", "--vectors", "score", "--engine", command, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [problem.partition(" after ")[0] for problem in document["problems"]] == ["it exited with code 1"]
    error = {"id": "score/reference/nothing", "field": "error", "expected": "no_steps", "got": "nothing"}
    assert error in document["differences"]
    assert {difference["field"] for difference in document["differences"]} == {"error"}
    assert 700 < document["passed"] < document["cases"]
    assert document["left_out"]["components.coverage"] > 700
    text = call("conformance", "--vectors", "score", "--engine", command).stdout
    assert "score/reference/nothing: error: expected 'no_steps', got 'nothing'" in text.splitlines()
    assert "components.anchors, components.consistency" in text


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_values_that_json_cannot_hold(call: Any, flags: list[str]) -> None:
    code = f"{READ}for k, row in enumerate(rows):\n    words = [['\\ud800'], 10 ** 400, float('nan')][k % 3]\n"
    code += "    print(json.dumps({'id': row['id'], 'words': words}))\n"
    result = call("conformance", "--engine", shlex.join(python(code)), "--vectors", "words", *flags)
    assert result.exit_code == 1
    assert "\\ud800" in result.stdout
    assert "1000000" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "no-such-program --fast"], "no-such-program"),
        (["--engine", "'open"], "--engine: No closing quotation"),
        (["--engine", " "], "--engine: it is empty"),
        (["--vectors", "scores"], "did you mean score?"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_usage_errors(call: Any, arguments: list[str], message: str) -> None:
    result = call("conformance", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
