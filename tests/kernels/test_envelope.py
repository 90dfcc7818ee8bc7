"""The JSON body of a request: the kernel accepts and refuses what orjson does, and finds the same texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from assay.kernels.json_columns import BODY_DEPTH, FIELDS, FIT, FROM_STEPS, MAX_STEPS_BYTES, NO_STEP_GIVEN, NOT_STEPS
from assay.kernels.warmup import warmup
from assay.service.wire.json_codec import NotJsonError, TooManyError, open_envelope
from tests.kernels.reading import texts_of
from tests.strategies import examples, json_strings, json_values

MAX_ELEMENTS, MAX_BYTES = 1000, 262_144
NOT_JSON = object()


def by_kernel(body: bytes) -> Any:
    """Return the texts of the valid rows, the faults and the other values as the kernel reads them."""
    try:
        envelope = open_envelope(body, MAX_ELEMENTS, MAX_BYTES)
    except NotJsonError:
        return NOT_JSON
    if not envelope.is_object:
        return "no object"
    document: dict[str, Any] = {"unknown": sorted(envelope.unknown), **envelope.values}
    for name in ("references", "responses"):
        column = envelope.responses if name == "responses" else envelope.references and envelope.references.texts
        rows, faulty = texts_of(column), dict(envelope.invalid_rows.get(name, ()))
        if rows is not None:
            document[name] = [faulty.get(k, row) for k, row in enumerate(rows)]
        elif name in envelope.not_arrays:
            document[name] = "no array"
    return document


def check(body: bytes) -> Any:
    """Return what the kernel reads, after comparing it with orjson; steps are tested elsewhere."""
    warmup()
    by_kernels = by_kernel(body)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = NOT_JSON
        if "infinity" in error.msg:  # a number that no double holds
            return NOT_JSON
    if value is NOT_JSON:
        assert by_kernels is NOT_JSON, body[:200]
        return NOT_JSON
    if not isinstance(value, dict):
        assert by_kernels == "no object"
        return by_kernels
    expected = {"unknown": sorted(value.keys() - set(FIELDS)), **{k: v for k, v in value.items() if k in FIELDS}}
    for name in {"references", "responses"} & value.keys():
        expected[name] = "no array"
        if isinstance(value[name], list):
            expected[name] = [row.encode() if isinstance(row, str) else "wrong_type" for row in value[name]]
            steps = {k for k, row in enumerate(value[name]) if isinstance(row, dict) and name == "references"}
            for columns in (by_kernels, expected):
                columns[name] = [row for k, row in enumerate(columns[name]) if k not in steps]
    assert by_kernels == expected, body[:200]
    return by_kernels


def all_bodies(parts: list[str], longest: int) -> Iterable[bytes]:
    return ("".join(chosen).encode() for size in range(longest + 1) for chosen in product(parts, repeat=size))


def test_every_short_document():
    tokens = ["{", "}", "[", "]", ",", ":", '"a"', '"responses"', "1", " "]
    read = [check(body) for body in all_bodies(tokens, 4 if JIT else 2)]
    assert sum(document is not NOT_JSON for document in read) > (30 if JIT else 2)
    inside = all_bodies(["[", "]", ",", '"x"', "null", "{}"], 5 if JIT else 2)
    assert sum(check(b'{"responses":' + body + b"}") is not NOT_JSON for body in inside) > (15 if JIT else 2)
    for body in (
        b'{"responses": ["a", "b"], "responses": ["c"]}',
        b'{"responses": ["a"], "responses": null}',
        b'{"responses": 5, "responses": []}',
        b'{"\\u0072esponses": ["x"], "Responses": 1, "": 2}',
        b' \t\r\n{ "task" : "score" , "config" : {} } \n',
    ):
        assert check(body) is not NOT_JSON


UTF8_EDGES = """
    c280 dfbf c1bf c080 e0a080 e09fbf ed9fbf eda080 edbfbf ee8080 efbfbf f0908080 f08fbfbf f48fbfbf f4908080 f5808080
    f8888080 ff fe 80 bf c2 e1 e180 f1 f180 f18080 c2c2 e1c280 efbbbf c28080 e28080 f0808080 f7bfbfbf
"""


def test_edges_of_utf8():
    """At every offset of eight, and at the end of the body."""
    for raw in map(bytes.fromhex, UTF8_EDGES.split()):
        for filler in range(9):
            for tail in (b'"]}', b'\\n"]}', b'aaaaaaaaaaaa"]}', b""):
                check(b'{"responses": ["' + b"a" * filler + raw + tail)
            check(b'{"responses": []}' + b" " * filler + raw)
            check(raw + b" " * filler + b'{"responses": []}')


@pytest.mark.parametrize("place", ['{{"responses": ["{}"]}}', '{{"references": ["a{}b"]}}', '{{"x{}": 1}}'])
def test_every_byte_inside_a_string(place):
    """Also bytes that are not UTF-8, alone and in pairs."""
    before, after = (part.encode() for part in place.replace("{{", "{").replace("}}", "}").split("{}", 1))
    for byte in range(256):
        check(before + b"\\" + bytes([byte]) + after)
        for second in (b"", b"\x22", b"\x7f", b"\x80", b"\x9f", b"\xa0", b"\xbf", b"\xc0"):
            check(before + bytes([byte]) + second + after)


@pytest.mark.parametrize("depth", [1, 2, 1020, 1021, 1022, 1023, 1024, 1025, 20_000])
def test_depth(depth):
    for around in (b"%b", b'{"responses": %b}', b'{"references": [%b]}', b'{"references": [{"steps": [%b]}]}'):
        body = around % (b"[" * depth + b"]" * depth)
        deepest = depth + around.count(b"[") + around.count(b"{")
        assert (by_kernel(body) is not NOT_JSON) == (deepest <= BODY_DEPTH == 1024)


WHOLE = (
    b'{"references": ["a\\n", {"steps": [{"action": "\\u00b5"} , {}], "steps" : [{}]}, {"x": 1}, {"steps": 5}],'
    b' "responses": ["\\ud83d\\ude00", -1.5e3], "config": {"order": null}, "include": [true, false]}'
)


def test_every_truncation():
    """Also every byte left out, or replaced by a special one."""
    assert check(WHOLE) is not NOT_JSON
    for pos in range(len(WHOLE)):
        check(WHOLE[:pos])
        check(WHOLE[pos:])
        check(WHOLE[:pos] + WHOLE[pos + 1 :])
        for put in (b'"', b"\\", b"]", b"}", b",", b"\x80", b" "):
            check(WHOLE[:pos] + put + WHOLE[pos + 1 :])


def test_too_many_elements():
    body = b'{"references": ["a"], "responses": [' + b",".join([b'""'] * 9) + b"]}"
    with pytest.raises(TooManyError, match="responses"):
        open_envelope(body, 8, MAX_BYTES)
    assert len(texts_of(open_envelope(body, 9, MAX_BYTES).responses)) == 9


def test_short_steps_with_long_numbers_stay_in_their_room():
    """After a million steps, `{},` would become more than five times as long and overwrite the responses."""
    steps = b",".join([b"{}"] * (3_000_000 if JIT else 30))
    body = b'{"responses": ["%b"], "references": [{"steps": [%b]}, "x"]}' % (b"y" * 9_000, steps)
    envelope = open_envelope(body, MAX_ELEMENTS, 2**62)
    assert texts_of(envelope.responses) == [b"y" * 9_000]
    lengths = envelope.references.texts.lengths.tolist()
    assert lengths[1] == 1
    assert envelope.invalid_rows == ({"references": [(0, "too_long")]} if JIT else {})
    assert (lengths[0] > MAX_STEPS_BYTES) == JIT  # its JSON, of the length of the body


documents = st.fixed_dictionaries(
    {},
    optional={
        "responses": st.lists(json_strings, max_size=5).map(lambda parts: f"[{', '.join(parts)}]"),
        "references": st.lists(st.one_of(json_strings, json_values), max_size=4).map(
            lambda parts: f"[{','.join(parts)}]"
        ),
        "reference_index": st.lists(st.integers(-5, 2**70)).map(json.dumps),
        "config": json_values,
        "include": json_values,
        "task": json_strings,
        "other": json_values,
    },
).map(lambda fields: "{" + " , ".join(f'"{name}":\t{value}' for name, value in fields.items()) + "}")


@given(documents, st.data())
@examples(500)
def test_documents_whole_and_damaged(document, data):
    body = bytearray(document.encode())
    check(bytes(body))
    for _ in range(data.draw(st.integers(1, 2))):
        pos = data.draw(st.integers(0, len(body)))
        kind = data.draw(st.sampled_from(["cut", "put", "put", "replace", "head"]))
        pieces = st.sampled_from([b'"', b"\\", b"{", b"]", b",", b":", b"\x80", b"\xc3", b"0"])
        put = data.draw(st.one_of(pieces, st.binary(max_size=3)))
        if kind == "cut":
            del body[pos:]
        elif kind == "head":
            del body[:pos]
        else:
            body[pos : pos + (kind == "replace")] = put
    check(bytes(body))
    check(b'{"responses": ["' + data.draw(st.binary(max_size=60)) + b'"]}')


# References given as steps


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ('{"steps": []}', "no_steps"),
        ('{"steps": [{}, []]}', "bad_step_schema"),
        ('{"steps": {}}', "bad_step_schema"),
        ('{"steps": [{}], "steps": "x"}', "bad_step_schema"),
        ('{"Steps": [{}]}', "bad_step_schema"),
        ('{"stepz": [{}]}', "bad_step_schema"),
        ('{"steps": [{}], "more": 1}', "bad_step_schema"),
        ("{}", "bad_step_schema"),
        ("7", "wrong_type"),
        ("[{}]", "wrong_type"),
        ('{"steps": [{"a": "' + "x" * 400 + '"}, {}]}', "too_long"),
    ],
)
def test_elements_that_are_no_reference(reference, reason):
    envelope = open_envelope(f'{{"references": ["a", {reference}, "b"]}}'.encode(), MAX_ELEMENTS, 400)
    assert envelope.invalid_rows == {"references": [(1, reason)]}
    assert texts_of(envelope.references.texts)[::2] == [b"a", b"b"]


@pytest.mark.parametrize("space", ["", "\n", "\r", "\r\n"])
def test_a_thousand_steps(space):
    """A step is one line of `<key>` however its JSON is laid out; numbers have one digit, two, three and four."""
    steps = ",".join([space + "{" + space + "}"] * 1001)
    (text,) = texts_of(
        open_envelope(f'{{"references": [{{"steps": [{steps}]}}]}}'.encode(), 1, MAX_BYTES).references.texts
    )
    lines = ["".join(line.split()) for line in text.decode().splitlines()]
    assert lines == [f"Step{k}:{{}}" for k in range(1, 1002)]


STEP = '{"action": "add", "objects": [], "parameters": []}'


@given(values=st.lists(json_values, max_size=5), spaces=st.text(" \n", max_size=2))
@examples(200)
def test_a_reference_that_is_neither_text_nor_steps_is_kept_as_its_json(values, spaces):
    """References of other tasks are records, numbers and booleans."""
    warmup()
    values = [*values, '"text"', f'{{"steps": [{STEP}]}}', '{"steps": []}', f'{{"answer": "A", "steps": [{STEP}]}}']
    joined = ",".join(spaces + value + spaces for value in values)
    body = f'{{"references": [{joined}]}}'
    assume(check(body.encode()) is not NOT_JSON)
    envelope = open_envelope(body.encode(), MAX_ELEMENTS, MAX_BYTES)
    kinds, texts = envelope.references.kinds.tolist(), texts_of(envelope.references.texts)
    assert kinds[-4:] == [FIT, FROM_STEPS, NO_STEP_GIVEN, NOT_STEPS]
    for value, kind, text in zip(values, kinds, texts, strict=True):
        assert (kind == FIT) == value.startswith('"')
        if kind == FIT:
            assert text.decode() == json.loads(value)
        elif kind != FROM_STEPS:
            assert text.decode() == value
