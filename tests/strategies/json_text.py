"""JSON as text: valid in every spelling, and invalid in every way that a strict parser must detect."""

from __future__ import annotations

import json
from itertools import cycle, permutations
from typing import Any

from hypothesis import strategies as st

from .texts import texts

STYLES = [["raw"], ["raw"], ["short"], ["hex"], ["raw", "HEX", "short", "raw", "hex"]]
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def json_string(text: str, styles: list[str]) -> str:
    """Write a JSON string whose characters take the styles in turn: raw, or one of their escapes."""
    pieces = []
    for c, style in zip(text, cycle(styles), strict=False):
        if style == "short" and c in SHORT:
            pieces.append(SHORT[c])
        elif style in ("hex", "HEX") or c in '"\\' or c < " ":
            escaped = "".join(f"\\u{unit:04x}" for unit in utf16_units(c))
            pieces.append(escaped.upper().replace("\\U", "\\u") if style == "HEX" else escaped)
        else:
            pieces.append(c)
    return '"' + "".join(pieces) + '"'


def utf16_units(c: str) -> list[int]:
    code = ord(c)
    return [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]


json_strings = st.builds(json_string, texts, st.sampled_from(STYLES))
blanks = st.sampled_from(["", "", "", " ", "\t", "  "])
json_numbers = st.sampled_from(["0", "-0", "12", "-1.5", "1e5", "1E+5", "2.0e-3", "1e999", "-1e-999", "9" * 5000])
json_values = st.recursive(
    st.one_of(json_strings, json_numbers, st.sampled_from(["null", "true", "false", "[]", "{}"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(st.builds("{}:{}".format, json_strings, inner), max_size=3).map(
            lambda pairs: "{" + " , ".join(pairs) + "}"
        ),
    ),
    max_leaves=6,
)
"""Valid JSON of any kind, as text."""

# fmt: off
BAD_JSON = [
    "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "1e", "-", "0x1", "tru", "nul", "None", "'a'", '"a', "[1,]",
    r'"\ud83d"', r'"\ude00\ud83d"', r'"\ud83d\ud83d\ude00"', r'"\ud83dx"', r'"\ud83d\u0041"', r'"\u12"', r'"\x41"',
    '"\x00"', '"\x1f"', '"\t"', "\ufeff1", "\xa01", "\x0b1", "\x0c1", "\u20281", "\u0661", "１",
    r'"\u00g0"', "[,]", '{"a" 1}', '{"a":1,}', "{1:2}",
]
# fmt: on
nested = st.integers(95, 104).map(lambda depth: "[" * depth + "]" * depth)


NAMES = ("action", "objects", "parameters")
ORDERS = [None, None, None, None, *permutations(NAMES), ("action", *NAMES), (*NAMES, "objects"), NAMES[::-1] * 2]


@st.composite
def step_objects(draw: st.DrawFn, fields: dict[str, Any]) -> str:
    """Draw a valid JSON object of one step in any spelling: orders, white space, escapes, doubled names."""
    order = draw(st.sampled_from(ORDERS))
    if order is None:
        return json.dumps(fields, ensure_ascii=draw(st.booleans()))
    styles, blank = draw(st.sampled_from(STYLES)), draw(blanks)
    pairs = []
    for k, name in enumerate(order):
        value = fields[name]
        if name in order[k + 1 :]:
            spelled = draw(json_values)
        elif isinstance(value, str):
            spelled = json_string(value, styles)
        else:
            spelled = f"[{blank}{(blank + ',').join(json_string(text, styles) for text in value)}]"
        pairs.append(f"{blank}{json_string(name, styles)}{blank}:{blank}{spelled}")
    return "{" + ",".join(pairs) + blank + "}"


@st.composite
def broken_objects(draw: st.DrawFn, fields: dict[str, Any]) -> str:
    """Draw other content in braces: damaged JSON, another schema, or depth around the limit."""
    valid = draw(step_objects(fields))
    kind = draw(st.sampled_from(["value", "value", "cut", "typed", "nested"]))
    if kind == "cut":
        i, put = draw(st.integers(0, len(valid))), draw(st.sampled_from(["", '"', "\\", ",", "}", "]", "\x0b", "\\u"]))
        return valid[:i] + put + valid[i + 1 :]
    if kind == "typed":
        return json.dumps(fields).replace("[]", "[5]").replace('["', '[null, "', 1)
    value = draw(nested if kind == "nested" else st.one_of(st.sampled_from(BAD_JSON), json_values))
    name = draw(st.sampled_from([*NAMES, "Action", "note", "", r"\ud800"]))
    return valid[:-1] + f', "{name}": {value}' + "}"
