"""Columns of string views, as Polars writes them: the same numbers, and no view that is not what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import Scorer
from tests.command_line import RUNNER
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.wire.test_arrow import post, stream_of, table_of

pa = pytest.importorskip("pyarrow")

from assay.service.cli.main import main  # noqa: E402
from assay.service.wire.arrow_codec import read_stream  # noqa: E402
from assay.service.wire.json_codec import RequestLimits  # noqa: E402
from assay.service.wire.problems import Problem  # noqa: E402
from assay.service.wire.string_views import without_views  # noqa: E402

VIEW = pa.string_view()
LIMITS = RequestLimits(max_body_bytes=1 << 20, max_responses=1000, max_reference_bytes=262_144)
TASKS = ["score", "score", "bioprobench.err"]
RESPONSES = [PERFECT, SWAPPED, "[ANSWER_START]False[ANSWER_END]"]
REFERENCES = [REFERENCE, json.dumps(STEPS), "false"]


def views(texts: Any) -> Any:
    return pa.array(texts, VIEW)


def dictionary(texts: list[str]) -> Any:
    entries = sorted(set(texts))
    return pa.DictionaryArray.from_arrays(
        pa.array([entries.index(text) for text in texts], pa.uint32()), views(entries)
    )


@pytest.mark.parametrize("column", [views, dictionary])
@pytest.mark.parametrize("rows_a_batch", [None, 1])
def test_every_column_may_be_of_views(client, column, rows_a_batch):
    columns = {"response": views(RESPONSES), "reference": column(REFERENCES)}
    more = {"task": column(TASKS), "group": column(["a", "a", "b"])}
    table = table_of(post(client, stream_of({**columns, **more}, rows_a_batch), "?include=advantages"))
    expected = Scorer().score(RESPONSES, REFERENCES, task=TASKS, groups=["a", "a", "b"])
    assert table["reward"].to_pylist() == expected.rewards.tolist() == [1.0, expected.rewards[1], 1.0]
    assert table["advantage"].to_pylist() == expected.advantages().tolist()


LAYOUTS = [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2), pa.list_view, pa.large_list_view]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_alternatives_of_views(client, layout):
    lists = pa.array([["Step 1: {}", "none"], ["prose", REFERENCE], [REFERENCE, SWAPPED]], layout(VIEW)).slice(1)
    columns = {"response": views([SWAPPED, SWAPPED]), "reference": lists}
    assert errors_of(problem_of(post(client, stream_of(columns)), 422)) == [
        ("references[0].any_of[0]", "bad_step_line")
    ]
    good = pa.array([[REFERENCE, SWAPPED], [PERFECT, REFERENCE]], layout(VIEW))
    table = table_of(post(client, stream_of({"response": views([SWAPPED, PERFECT]), "reference": good})))
    assert table["reward"].to_pylist() == [1.0, 1.0]


def test_nulls_are_named(client):
    columns = {"response": views([PERFECT, None]), "reference": views([None, REFERENCE])}
    errors = [("reference[0]", "wrong_type"), ("response[1]", "wrong_type")]
    assert errors_of(problem_of(post(client, stream_of(columns)), 422)) == errors


def test_no_rows(client):
    empty = stream_of({"response": views([]), "reference": pa.array([], pa.list_(VIEW))})
    assert table_of(post(client, empty)).num_rows == 0


def spoiled(place: int, value: int) -> bytes:
    """Return a stream in which one int32 of a view of its responses is another: length, prefix, buffer or offset."""
    texts = views([PERFECT, SWAPPED])
    numbers = np.frombuffer(texts.buffers()[1], np.int32).copy()
    numbers[place] = value
    buffers = [None, pa.py_buffer(numbers.tobytes()), *texts.buffers()[2:]]
    return unchecked(pa.Array.from_buffers(VIEW, 2, buffers))


def unchecked(responses: Any) -> bytes:
    return stream_of({"response": responses, "reference": [REFERENCE] * len(responses)})


def builds_views() -> bool:
    try:
        sharing(1, 20)
    except ValueError:  # as in pyarrow 18
        return False
    return True


def sharing(rows: int, nbytes: int) -> Any:
    """Return views that all show one text."""
    text = pa.py_buffer(b"a" * nbytes)
    view = np.array([nbytes, 0x61616161, 0, 0], np.int32)
    return pa.Array.from_buffers(VIEW, rows, [None, pa.py_buffer(np.tile(view, rows).tobytes()), text])


made_by_hand = pytest.mark.skipif(not builds_views(), reason="this pyarrow makes no views of given buffers")

LIES = {
    "a length beyond the buffer": (0, 100_000),
    "a negative length": (0, -5),
    "another prefix": (1, 0x41414141),
    "a buffer that there is not": (2, 7),
    "a negative buffer": (2, -1),
    "an offset beyond the buffer": (3, 2**31 - 1),
    "a negative offset": (3, -9),
}


@made_by_hand
@pytest.mark.attack
@pytest.mark.parametrize(("place", "value"), LIES.values(), ids=LIES)
def test_a_view_of_what_is_not_there(client, place, value):
    assert errors_of(problem_of(post(client, spoiled(place, value)), 400)) == [("body", "not_arrow")]


@made_by_hand
@pytest.mark.attack
def test_a_view_of_what_is_no_utf8(client):
    for text in (b"\xff\xfe", b"x" * 40 + b"\xff", b"x" * 40 + "µ".encode()[:1]):
        column = pa.array([text], pa.binary_view())
        buffers = column.buffers()
        responses = pa.Array.from_buffers(VIEW, 1, buffers)
        assert errors_of(problem_of(post(client, unchecked(responses)), 400)) == [("body", "not_arrow")]


@made_by_hand
@pytest.mark.attack
def test_views_of_one_long_text_are_charged_before_they_are_read():
    """They are validated and copied text by text: a body of 100 KiB would cost 100 MiB."""
    held = pa.total_allocated_bytes()
    shared = sharing(1000, 100_000)
    lists = pa.ListArray.from_arrays(pa.array([0, 1000], pa.int32()), shared)
    entries = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), shared)
    view_of_lists = pa.ListViewArray.from_arrays(
        pa.array([0] * 60, pa.int32()), pa.array([1] * 60, pa.int32()), sharing(1, 100_000)
    )
    for columns in (
        {"response": shared, "reference": [REFERENCE] * 1000},
        {"response": [PERFECT] * 1000, "reference": shared},
        {"response": [PERFECT], "reference": lists},
        {"response": [PERFECT], "reference": entries},
        {"response": [PERFECT] * 60, "reference": view_of_lists},
    ):
        body = stream_of(columns)
        assert len(body) < 1 << 20
        with pytest.raises(Problem) as caught:
            read_stream(body, LIMITS)
        assert caught.value.kind == "too-large"
        assert [issue.reason for issue in caught.value.issues] == ["too_large"]
    del columns, body, caught
    assert pa.total_allocated_bytes() - held < 1 << 20
    batch = read_stream(stream_of({"response": sharing(3, 1000), "reference": [REFERENCE] * 3}), LIMITS)
    assert batch.size == 3


def test_what_no_view_is_in_stays_as_it_is():
    table = pa.table({"a": ["x"], "b": [1], "c": [["y"]]})
    for column in table.columns:
        chunk = column.chunk(0)
        assert without_views(chunk, print) is chunk


STEP_KIND = pa.struct([("action", VIEW), ("objects", pa.list_(VIEW)), ("parameters", pa.list_(VIEW))])
NESTED = {
    "texts": (VIEW, REFERENCE),
    "alternatives": (pa.list_(VIEW), ["prose" * 5, REFERENCE][1:]),
    "steps": (pa.struct([("steps", pa.list_(STEP_KIND))]), STEPS),
    "alternatives of steps": (pa.list_(pa.struct([("steps", pa.large_list(STEP_KIND))])), [STEPS, None][:1]),
    "texts of objects": (VIEW, json.dumps(STEPS)),
}


@pytest.mark.parametrize("kind", ["arrow", "arrows"])
@pytest.mark.parametrize(("reference_kind", "reference"), NESTED.values(), ids=NESTED)
def test_files_read_views_alike(tmp_path: Path, kind: str, reference_kind: Any, reference: Any) -> None:
    rows = {
        "response": views([PERFECT, None, SWAPPED]),
        "reference": pa.array([reference, reference, reference], reference_kind),
        "group": dictionary(["a", "a", "b"]),
    }
    table, path = pa.table(rows), tmp_path / f"in.{kind}"
    with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as writer:
        writer.write_table(table)
    out = tmp_path / "out.arrow"
    done = RUNNER.invoke(main, ["score", str(path), "-o", str(out), "--group-field", "group", "-q"])
    assert done.exit_code == 1, done.output  # the null
    scored = pa.ipc.open_file(out).read_all()
    expected = Scorer().score([PERFECT, SWAPPED], [STEPS]).rewards.tolist()
    assert scored["reward"].to_pylist() == [expected[0], None, expected[1]]
    assert scored.schema.field("response").type == VIEW
