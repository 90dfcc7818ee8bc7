"""The script that changes the code to see what notices: its changes and its samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import mutants_of, sample

ROOT = Path(__file__).resolve().parents[2]
FILE = "kernels/sequences.py"

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
    *[("True", "False"), ("and", "or"), ("not ", ""), ("in", "not in"), ("+=", "-="), ("0x7F", "0x80")],
    *[("values", "not values"), ("1.5", "2.5"), ("0", "1"), ("<=", "<"), ("<", "<="), ("9", "10")],
    *[("continue", "break"), ("break", "continue")],
]


def test_operators_and_constants_change_but_no_types_texts_or_code_for_the_compiler():
    assert [(mutant.before, mutant.after) for mutant in mutants_of("scale.py", SOURCE.encode())] == CHANGES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a is not b", "a is b"),
        ("(a) == (b)", "(a) != (b)"),
        ("a\\\n  % b", "a\\\n  + b"),
        ("a if b.c else d", "a if not b.c else d"),
        ("[a] * b", None),
        ("'%s' % a", None),
    ],
)
def test_a_change(before, after):
    codes = [mutant.applied(before.encode()).decode() for mutant in mutants_of("a.py", before.encode())]
    assert codes == ([] if after is None else [after])


def test_a_sample_depends_on_its_seed_and_not_on_the_numbers_of_lines():
    whole = list(mutants_of(FILE, (ROOT / FILE).read_bytes()))
    moved = [mutant._replace(line=mutant.line + 9, start=mutant.start + 99) for mutant in reversed(whole)]
    ranks = [mutant.rank(0) for mutant in sample(whole, 40, 0)]
    assert [mutant.rank(0) for mutant in sample(moved, 40, 0)] == ranks
    assert [mutant.rank(0) for mutant in sample(whole, 40, 1)] != ranks
