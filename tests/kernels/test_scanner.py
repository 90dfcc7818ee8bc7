"""The JSON of a key step, read by `read_references`: exactly RFC 8259, as strict as the twin."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from tests.kernels.reading import step_with, twin_verdict, verdicts_of
from tests.strategies import broken_objects, examples, json_values, step_objects, steps

STEP = 'Step 1: {"action": "add µ\\u00b5\\ud83d\\ude00", "objects": ["a", "b\\n"], "parameters": []}'


def assert_agree(lines: Iterable[str]) -> set[str]:
    """Compare all lines in one batch with the twin; returns the reasons that occurred."""
    lines = list(lines)
    verdicts = verdicts_of(lines)
    off = [(line, verdict) for line, verdict in zip(lines, verdicts, strict=True) if verdict != twin_verdict(line)]
    assert not off, f"{len(off)} lines differ"
    return {verdict.reason for verdict in verdicts}


def all_strings(parts: list[str], longest: int) -> Iterable[str]:
    return ("".join(chosen) for size in range(longest + 1) for chosen in product(parts, repeat=size))


def test_every_short_number():
    numbers = all_strings(["0", "1", "-", "+", ".", "e", "E"], 5 if JIT else 3)
    assert assert_agree(map(step_with, numbers)) == {"ok", "bad_step_json"}


def test_every_short_structure():
    structures = all_strings(["[", "]", "{", "}", ",", ":", '"a"', "1"], 5 if JIT else 3)
    assert assert_agree(map(step_with, structures)) >= {"ok", "bad_step_json"}


def test_every_short_step():
    """Names, values and punctuation of the step itself in every order."""
    tokens = ['"action"', '"a"', '"objects"', '"parameters"', "[]", ":", ","]
    assert_agree(f"Step 1: {{{inside}}}" for inside in all_strings(tokens, 4 if JIT else 2))
    pairs = ['"action":"a"', '"objects":[]', '"parameters":[]', '"parameters":["p"]', '"x":1', '"action":1']
    fields = (",".join(chosen) for size in range(5 if JIT else 4) for chosen in product(pairs, repeat=size))
    assert assert_agree(f"Step 1: {{{inside}}}" for inside in fields) == {"ok", "bad_step_schema"}


@pytest.mark.parametrize("around", ['"{}"', '"abcdefg{}"', '["x{}yz"]', '{{"{}": 1}}', "{}1", "1{}", "[{}]"])
def test_every_byte_inside_a_value(around):
    characters = [chr(code) for code in range(0x100)] + ["\u2028", "\ufeff", "１", "\U0001f600"]
    assert_agree(step_with(around.format(c)) for c in characters)
    assert_agree(step_with(around.format("\\" + c)) for c in characters)
    assert_agree(step_with(around.format("\\u00" + c + "0")) for c in characters)


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_every_escaped_unit(step):
    """Around the surrogates all of them."""
    edges = {k + offset for k in (0, 0xD800, 0xDC00, 0xE000) for offset in range(-99, 99)}
    units = sorted({*range(0, 0x10000, step if JIT else 257), *(edges & {*range(0x10000)} if JIT else ())})
    assert assert_agree(step_with(f'"\\u{unit:04x}"') for unit in units) == {"ok", "bad_step_json"}
    assert_agree(step_with(f'"\\uD83D\\u{unit:04X}"') for unit in units)
    assert_agree(step_with(f'"\\u{unit:04x}\\uDE00"') for unit in units)


def test_every_truncation():
    """Also every character left out, and others put in."""
    assert_agree(STEP[:stop] + end for stop in range(len(STEP)) for end in ("", "}", STEP[stop + 1 :]))
    assert_agree(STEP[:pos] + c + STEP[pos:] for pos in range(len(STEP)) for c in ' "\\,:{}[]0\x00\x0b\xa0')


@pytest.mark.parametrize("depth", [1, 97, 98, 99, 100, 101, 102, 5000])
def test_depth(depth):
    opened, closed = "[" * depth, "]" * depth
    values = [opened + closed, '{"a":' * depth + "1" + "}" * depth, '{"a":[' * depth + "]}" * depth]
    values += [opened, opened + closed[1:] + "}", opened + "1,2" + closed, f'"{opened}"']
    values.append(opened + closed[1:] + ",[]" * 200 + "]")
    assert_agree(map(step_with, values))
    assert_agree(step_with("[]").replace('"parameters": []', f'"parameters": [{value}]') for value in values)


@pytest.mark.parametrize("size", [0, 1, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 4097])
def test_long_strings(size):
    """Strings are read in blocks of 64 bytes."""
    for end in ['"', "", '\\"', '\\""', "\n", "\x1f", '\x7f"', 'é"', '\\u00e9"', "\\", '\\ud83d"', '\\ud83d\\ude00"']:
        assert_agree([step_with('"' + "a" * size + end), step_with('["' + "é" * size + end + "]")])


@given(json_values, st.integers(0, 60), st.text('"\\{}[],:u0 eE.-\x1f', max_size=2), st.data(), steps)
@examples(300)
def test_any_values_and_steps(value, pos, put, data, fields):
    assert assert_agree([step_with(value), step_with(f"[{value}, {value}]")]) == {"ok"}
    assert_agree([step_with(value[:pos] + put + value[pos + 1 :]), step_with(value[:pos] + put + value[pos:])])
    assert_agree([f"Step 1: {data.draw(step_objects(fields))}", f"Step 1: {data.draw(broken_objects(fields))}"])
