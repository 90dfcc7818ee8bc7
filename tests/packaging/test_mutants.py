"""The script that changes the code to see what notices: its changes, its samples, and what becomes of a mutant."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import Copy, Mutant, Unchanged, mutants_of, sample

ROOT = Path(__file__).resolve().parents[2]
SUBSEQUENCE = "kernels/sequences.py"

SOURCE = '''"""Return 1 + 2."""
from typing import Literal

__all__ = ["scale"]
JIT = True

@kernel("f8(f8[::1], i8)", limit=1 << 3)
def scale(µ: Literal[1], values: list[int | None] = ()) -> Literal[2]:
    """Add 1."""
    if JIT:
        return 3 * µ
    while values and not (µ) in values:
        µ += 0x7F if values else 1.5  # µ and 2
        if 0 <= µ < 9:
            continue
        break
    raise ValueError(f"{µ + 1} of {len(values)}" + "s")
'''
CHANGES = [
    ("True", "False"),
    ("and", "or"),
    ("not ", ""),
    ("in", "not in"),
    ("+=", "-="),
    ("0x7F", "0x80"),
    ("values", "not values"),
    ("1.5", "2.5"),
    ("0", "1"),
    ("<=", "<"),
    ("<", "<="),
    ("9", "10"),
    ("continue", "break"),
    ("break", "continue"),
]


def all_mutants() -> list[Mutant]:
    paths = ("kernels/semantics.py", "kernels/sequences.py")
    return [mutant for path in paths for mutant in mutants_of(path, (ROOT / path).read_bytes())]


def test_operators_and_constants_change_but_no_types_texts_or_code_for_the_compiler():
    assert [(mutant.before, mutant.after) for mutant in mutants_of("scale.py", SOURCE.encode())] == CHANGES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a is b", "a is not b"),
        ("a is not b", "a is b"),
        ("a not in (b)", "a in (b)"),
        ("(a) == (b)", "(a) != (b)"),
        ("a << (b)", "a >> (b)"),
        ("a\\\n  % b", "a\\\n  + b"),
        ("not(a)", "(a)"),
        ("a if b.c else d", "a if not b.c else d"),
        ("[a for a in b if a[0:c]]", "[a for a in b if not a[0:c]]"),
        ("-a", None),
        ("[a] * b", None),
        ("'%s' % a", None),
    ],
)
def test_a_change(before, after):
    codes = [mutant.applied(before.encode()).decode() for mutant in mutants_of("a.py", before.encode())]
    assert [code for code in codes if "[1:" not in code] == ([] if after is None else [after])


def test_every_mutant_is_the_file_with_one_other_place():
    for mutant in all_mutants():
        content = (ROOT / mutant.path).read_bytes()
        changed = mutant.applied(content)
        assert content[mutant.start : mutant.stop].decode() == mutant.before != mutant.after
        assert changed.startswith(content[: mutant.start])
        assert changed[mutant.start :].removeprefix(mutant.after.encode()) == content[mutant.stop :]
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(content))


def test_a_sample_depends_on_its_seed_and_not_on_the_numbers_of_lines():
    whole = all_mutants()
    moved = [mutant._replace(line=mutant.line + 9, start=mutant.start + 99) for mutant in whole]
    assert list(map(str, sample(whole, 40, 0))) == list(map(str, sample(whole[::-1], 40, 0)))
    assert [mutant.rank(0) for mutant in sample(moved, 40, 0)] == [mutant.rank(0) for mutant in sample(whole, 40, 0)]
    assert sample(whole, 40, 0) != sample(whole, 40, 1)
    assert sorted(sample(whole, len(whole) + 1, 0)) == sorted(whole)
    assert len({mutant.rank(0) for mutant in whole}) == len(whole)


def test_a_sample_has_mutants_of_every_file_in_proportion():
    whole, drawn = (Counter(mutant.path for mutant in group) for group in (all_mutants(), sample(all_mutants(), 90, 3)))
    assert drawn.total() == 90
    for path, count in whole.items():
        assert abs(drawn[path] - 90 * count / whole.total()) < 1


@pytest.mark.parametrize(
    ("path", "test", "is_near"),
    [
        ("kernels/sequences.py", "tests/kernels/test_prompt_overlap.py", True),
        ("kernels/sequences.py", "tests/scoring/test_scorer_twin.py", False),
        ("research/select/rows.py", "tests/select/test_select.py", False),
        ("service/http/wire/headers.py", "tests/http/wire/test_frames.py", False),
        ("service/errors.py", "tests/evaluate/test_judges.py", True),
    ],
)
def test_the_tests_of_a_file(path, test, is_near):
    assert mutants.tests_of(path, ROOT)[test] is is_near


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def judge(copy: Copy) -> Callable[..., tuple[str, str]]:
    """Return a function that judges the only mutant of a line of SUBSEQUENCE with this change."""

    def judged(line: str, after: str, *tests: str, vectors: bool = False) -> tuple[str, str]:
        content = (ROOT / SUBSEQUENCE).read_bytes()
        (mutant,) = [each for each in mutants_of(SUBSEQUENCE, content) if (each.source, each.after) == (line, after)]
        unchanged = Unchanged({}, {}, frozenset([SUBSEQUENCE] if vectors else []), {SUBSEQUENCE: list(tests)})
        result = copy.judge(mutant, unchanged)
        assert (ROOT / SUBSEQUENCE).read_bytes() == (copy.root / SUBSEQUENCE).read_bytes() == content
        return result.outcome, result.noticed_by

    return judged


def test_what_becomes_of_a_mutant(judge):
    assert judge("if i < n and a[i] == b[j]:", "!=", vectors=True)[0] == "vectors"
    outcome, noticed_by = judge("if i < n and a[i] == b[j]:", "!=", "tests/kernels/test_sequences.py")
    assert outcome == "tests"
    assert noticed_by.startswith("tests/kernels/test_sequences.py::")
    assert judge("if i < n and a[i] == b[j]:", "!=") == ("survived", "")


def test_a_wrong_command_line():
    for arguments in (["nowhere"], ["/tmp"], ["kernels/__init__.py"], ["kernels", "--jobs", "0"], ["--sample", "0"]):
        command = [sys.executable, "-m", "tests.mutants", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert "error: " in done.stderr
