"""Any batch with alternatives gets the same bits and the same steps from every face, under any settings."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer, Scores
from assay.service.cli.main import main
from assay.service.ray.dataset import DatasetScorer
from tests.cases.mixed import ROWS
from tests.command_line import RUNNER
from tests.files.any_format import FORMATS, read, write
from tests.http.samples import with_places
from tests.rewards.faces import post_arrow, post_json, reply_of, table_of
from tests.strategies import batches, examples, settings

INCLUDE = ["components", "steps"]
COLUMNS = ("reward", "reason", "components", "steps", "alternative")
some_batches = batches(alternatives=True)


def rows_of(scores: Scores) -> list[dict[str, Any]]:
    """Return the result of each response, as the rows of a scored file have it."""
    components = {name: values.tolist() for name, values in scores.components.items()}
    assert scores.steps is not None
    assert scores.alternative is not None
    named = [{name: values[k] for name, values in components.items()} for k in range(len(scores))]
    rows = zip(
        *(scores.rewards.tolist(), scores.reasons.tolist(), named, scores.steps, scores.alternative.tolist()),
        strict=True,
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def rows_of_reply(reply: dict[str, Any]) -> list[dict[str, Any]]:
    components = reply["components"]
    named = [{name: values[k] for name, values in components.items()} for k in range(len(reply["rewards"]))]
    columns = reply["rewards"], reply["reasons"], named, reply["steps"], reply["alternative"]
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_of_columns(table: pa.Table, components: list[str]) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    return [
        {name: {c: row[c] for c in components} if name == "components" else row[name] for name in COLUMNS}
        for row in rows
    ]


def as_json(request: dict[str, Any]) -> dict[str, Any]:
    return reply_of(post_json(request | {"include": INCLUDE}))


def as_texts(reference: Any) -> list[str]:
    """Return the alternatives of a reference as a column has them."""
    entries = reference["any_of"] if isinstance(reference, dict) and "any_of" in reference else [reference]
    return [
        "\n".join(f"Step 1: {json.dumps(step)}" for step in entry["steps"]) if isinstance(entry, dict) else entry
        for entry in entries
    ]


def as_array(reference: Any) -> Any:
    """Return a reference as rows of files may have it: an array of alternatives."""
    return reference["any_of"] if isinstance(reference, dict) and "any_of" in reference else reference


def as_table(responses: list[str], references: list[Any], **further: list[str]) -> pa.Table:
    columns = {"response": responses, "reference": references} | further
    kinds = {"reference": pa.list_(pa.string())}
    return pa.table({name: pa.array(column, kinds.get(name, pa.string())) for name, column in columns.items()})


@given(some_batches, settings)
@examples(100)
def test_in_process_and_over_http(batch, overrides):
    responses, references, index = batch
    scores = Scorer(**overrides).score(*batch, steps=True)
    expected = rows_of(scores)
    request = {"responses": responses, "references": references, "reference_index": index}
    assert rows_of_reply(as_json(request | {"config": overrides})) == expected
    reply = as_json(request | {"configs": [{}, overrides]})
    assert rows_of_reply(with_places(reply["configs"][1], reply)) == expected
    first, second = Scorer().score_configs([{}, overrides], *batch, steps=True)
    assert rows_of(second) == expected
    assert rows_of(first) == rows_of_reply(reply)
    if responses:
        table = as_table(responses, [as_texts(references[k]) for k in index])
        components = list(scores.components)
        assert rows_of_columns(table_of(post_arrow(table, INCLUDE, overrides)), components) == expected
        tasks = (None, None)
        assert (
            rows_of_columns(DatasetScorer("response", "reference", tasks, True, 1, overrides, True)(table), components)
            == expected
        )


OTHERS = [row for row in ROWS if row.task not in ("score", "lexical")]


@given(some_batches, settings, st.lists(st.sampled_from(OTHERS), min_size=1, max_size=2), st.randoms())
@examples(60)
def test_beside_rows_of_other_tasks(batch, overrides, others, random):
    """Over HTTP, these are scored in another process."""
    responses, references, index = batch
    rows = [("score", response, references[k]) for response, k in zip(responses, index, strict=True)]
    rows += [(row.task, row.response, row.reference) for row in others]
    random.shuffle(rows)
    tasks, texts, wanted = map(list, zip(*rows, strict=True))
    scorer = Scorer(**overrides)
    expected = rows_of(scorer.score(texts, wanted, task=tasks, steps=True))
    request = {"responses": texts, "references": wanted, "task": tasks, "config": overrides}
    assert rows_of_reply(as_json(request)) == expected
    of_score = [k for k, task in enumerate(tasks) if task == "score"]
    alone = scorer.score([texts[k] for k in of_score], [wanted[k] for k in of_score], steps=True)
    for k, row in zip(of_score, rows_of(alone), strict=True):
        shared = {name: expected[k]["components"][name] for name in row["components"]}
        assert expected[k] | {"components": shared} == row
    others_found = [row for task, row in zip(tasks, expected, strict=True) if task != "score"]
    assert all((row["steps"], row["alternative"]) == ([], 0) for row in others_found)


@given(some_batches.filter(lambda batch: batch[0]), settings)
@examples(12)
def test_files_of_every_format(batch, overrides):
    responses, references, index = batch
    expected = rows_of(Scorer(**overrides).score(*batch, steps=True))
    lines = [f"{name} = {json.dumps('none' if value is None else value)}" for name, value in overrides.items()]
    with tempfile.TemporaryDirectory() as folder:
        settings_file = Path(folder) / "assay.toml"
        settings_file.write_text("\n".join(["[score]", *lines]))
        for source, target in zip(FORMATS, FORMATS[::-1], strict=True):
            reference = as_texts if source in ("parquet", "arrow") else as_array
            rows = [
                {"response": text, "reference": reference(references[k])}
                for text, k in zip(responses, index, strict=True)
            ]
            path, out = write(Path(folder) / f"in.{source}", rows), Path(folder) / f"out.{target}"
            flags = "--include", "components,steps", "--config", str(settings_file), "-q"
            result = RUNNER.invoke(main, ["score", str(path), "-o", str(out), *flags])
            assert result.exit_code == 0, result.output
            table = read(out, expected[0]["components"])
            assert [{name: row[name] for name in COLUMNS} for row in table] == expected
