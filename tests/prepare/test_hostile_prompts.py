"""Files of prompts that somebody may offer for download: what they amount to is bounded, and errors name the limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.research.prepare.templates import MAX_FILLED, MAX_SIZE, BadTemplate, in_texts, join_templates, parse
from assay.service.errors import UsageError
from tests.command_line import write_rows

HALF = "x" * (MAX_SIZE // 2)
TASKS = '    if task == "T{}":\n        return "{{question}} {}"\n'


def doubled(first: str, line: str, times: int) -> str:
    return "\n".join([first, *[line] * times])


CONSTANTS = 'A0 = "' + "x" * 1000 + '"\n' + "\n".join(f"A{k + 1} = A{k} + A{k}" for k in range(40))
NOTHING = 'A0 = ""\n' + "\n".join(f"A{k + 1} = A{k} + A{k}" for k in range(60))
FUNCTION = "\ndef ask(question, task):\n{}\n    return x + question\n"
IN_BENCHMARK = "\ndef ask(sample, task):\n    if task == 'PQA':\n        return {} + sample['choices']\n"
PYTHON: dict[str, tuple[str, str]] = {
    "sums": (CONSTANTS + IN_BENCHMARK.format("A40"), f"line 10: the text has more than {MAX_SIZE:,} characters"),
    "nothing": (NOTHING + IN_BENCHMARK.format("A60"), ""),
    "circle": ("A = B + B\nB = A + A" + IN_BENCHMARK.format("A"), "it is nested too deeply"),
    "f-strings": (
        f'A0 = "{"x" * 999}"\n'
        + "\n".join(f'A{k + 1} = f"{{A{k}}}{{A{k}}}{{A{k}}}{{A{k}}}"' for k in range(40))
        + IN_BENCHMARK.format("A40"),
        "line 6: the text has more than ",
    ),
    "many": (
        f'A = "{HALF}"\n'
        + "\n".join(f'B{k} = A + "{k}"' for k in range(9_000))
        + "\ndef ask(sample, task):\n    if task == 'PQA':\n"
        + "\n".join(f"        x = B{k}" for k in range(9_000))
        + "\n        return x + sample['choices']",
        "the texts have more than 4,194,304 characters",
    ),
    "names": ("\n".join(f'A{k} = ""' for k in range(80_000)), "no function has branches"),
    "functions": (
        "\n".join(f'A{k} = ""\ndef f{k}(a):\n    return A{k}' for k in range(20_000)),
        "no function has branches",
    ),
    "tasks": (
        "def ask(task, question):\n" + "".join(TASKS.format(k, k) for k in range(9_000)),
        "no function has branches",
    ),
    "task twice": (
        "\n".join(f"def f{k}(a, question):\n    if a == 'PQA':\n        return question" for k in range(9_000)),
        "the prompt of bioprobench.pqa: f1(PQA) is another one",
    ),
    "conditions": (
        FUNCTION.format(
            "    if task == 'PQA':\n        pass\n" + doubled('    x = ""', '    if a:\n        x = x + "a"', 9_000)
        ),
        "unknown places {x}",
    ),
    "sum of parts": (
        FUNCTION.format(
            "    if task == 'PQA':\n        pass\n" + doubled('    x = ""', "    x = x + question", 40_000)
        ),
        "the texts have more than 4,194,304 characters",
    ),
    "brackets": ("A = " + "(" * 5_000 + ")" * 5_000, "it is not valid Python"),
    "sum": ('A = "" + ' + " + ".join(['"a"'] * 50_000), ""),
    "digits": (f"A = 0x{'f' * 9_000}" + IN_BENCHMARK.format("A"), "the text cannot be read without executing it"),
    "large": ("#" * (2 << 20), "it has more than 1 MiB"),
}


def prompt(user: str, **fields: Any) -> dict[str, Any]:
    return {"prompts": {"score": {"user": user, **fields}}}


JSON: dict[str, tuple[dict[str, Any], str]] = {
    "places": (prompt("{a}" * 9_000 + "{question}", places={"a": "x" * 9_000}), "places: the text has more than "),
    "texts": (prompt("x" * 200_000 + "{question}", places={"x": "y" * 200_000}), "places: the text has more than "),
    "many places": (prompt("{question}", places={str(k): "x" for k in range(20_000)}), "more than 100 names"),
    "problems": (prompt("{question}", **{f"field {k}\n": 1 for k in range(20_000)}), "must be one of"),
    "long": (prompt("x" * 900_000), "user: the text has more than "),
}

CHILD = """
import json, resource, sys
from assay.research.prepare.prompt_files import read_prompts
from assay.service.errors import UsageError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

start, results = peak(), {}
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    try:
        read_prompts([path])
        error = ""
    except (UsageError, OSError) as fault:
        error = str(fault)
    results[path] = error[:9_000], resource.getrusage(resource.RUSAGE_SELF).ru_utime - before, peak() - start
print(json.dumps(results))
"""


@pytest.mark.attack
def test_files_that_grow_are_refused_before_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte of doubled constants took 2.7 GB: all files together take less than 300 MiB and a minute."""
    monkeypatch.chdir(tmp_path)
    expected = {}
    for name, (source, error) in PYTHON.items():
        Path(f"{name}.py").write_text(source)
        expected[f"{name}.py"] = error
    for name, (document, error) in JSON.items():
        Path(f"{name}.json").write_text(json.dumps(document))
        expected[f"{name}.json"] = error
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *expected], capture_output=True, timeout=240, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for name, error in expected.items():
        said, seconds, kibibytes = results[name]
        assert error in said, (name, said)
        assert name in said or not said, (name, said)
        assert seconds < 20, (name, seconds)
        assert kibibytes < 300 * 1024, (name, kibibytes)


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
@pytest.mark.parametrize("form", [".py", ".json", ""])
def test_prompts_are_of_regular_files(call, tmp_path: Path, kind: str, form: str) -> None:
    """/dev/zero took 3.8 GB, and a pipe was waited for; a JSON file may name them too."""
    source = write_rows(tmp_path / "records.jsonl", [{"question": "How?", "reference": "Step 1: {}"}])
    strange = tmp_path / f"prompts{form or '.py'}"
    {"device": lambda: strange.symlink_to("/dev/zero"), "pipe": lambda: os.mkfifo(strange), "folder": strange.mkdir}[
        kind
    ]()
    named = strange
    if not form:
        named = tmp_path / "names.json"
        named.write_text(json.dumps(prompt("ask", python=strange.name)))
    done = call("prepare", source, "-o", tmp_path / "rows", "--prompts", named)
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(named) in done.stderr
    assert "directory" in done.stderr if kind == "folder" else "it is not a regular file" in done.stderr


@pytest.mark.attack
def test_a_prompt_that_repeats_a_long_question_is_a_fault_of_its_record(call, tmp_path: Path) -> None:
    (tmp_path / "prompts.json").write_text(json.dumps(prompt("{question}" * 20_000)))
    step = 'Step 1: {"action": "mix", "objects": ["water"], "parameters": []}'
    records = [{"question": "How?", "reference": step}, {"question": "How? " * 2_000, "reference": step}]
    source = write_rows(tmp_path / "records.jsonl", records)
    flags = ("--similarity", 1, "--test", 0)
    done = call("prepare", source, "-o", tmp_path / "rows", "--prompts", tmp_path / "prompts.json", *flags)
    assert done.exit_code == 1, done.output
    assert f"the prompt of score would have more than {MAX_FILLED:,} characters (too_long)" in done.stderr


def test_templates_up_to_the_limit() -> None:
    assert len(parse("x" * MAX_SIZE)[0]) == MAX_SIZE
    assert in_texts(("ab",), "b", ("x" * (MAX_SIZE - 1),)) == ("a" + "x" * (MAX_SIZE - 1),)
    for refused in (
        lambda: parse("x" * (MAX_SIZE + 1)),
        lambda: in_texts(("abb",), "b", (HALF,)),
        lambda: join_templates((HALF,), (HALF + "x",)),
    ):
        with pytest.raises(BadTemplate, match=f"more than {MAX_SIZE:,} characters"):
            refused()


def test_the_error_names_the_file_the_line_and_the_limit(tmp_path: Path) -> None:
    from assay.research.prepare.prompt_files import read_prompts

    (tmp_path / "script.py").write_text(CONSTANTS + IN_BENCHMARK.format("A40"))
    (tmp_path / "mine.json").write_text(json.dumps(prompt("A40", python="script.py")))
    for name in ("script.py", "mine.json"):
        with pytest.raises(UsageError) as raised:
            read_prompts([str(tmp_path / name)])
        assert str(raised.value).startswith(str(tmp_path / name))
        assert f"line 10: the text has more than {MAX_SIZE:,} characters" in str(raised.value)
        assert "script.py" in str(raised.value)
