"""Near-duplicates across splits, beside every pair of texts compared by brute force."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from assay.research.check.near_duplicates import NearDuplicates
from assay.service.records.rows.rows import Location, RowPlace
from tests.check.data_sets import GOOD, checked
from tests.prepare.similar_texts import jaccard, texts

pytestmark = pytest.mark.skipif(find_spec("datasketch") is None, reason="datasketch is not installed")


def places(count: int) -> list[RowPlace]:
    return [RowPlace("in.jsonl", Location("line", n)) for n in range(count)]


def test_pairs_are_those_of_brute_force() -> None:
    prompts = texts(5)
    splits = ["train" if n < 30 or n % 3 == 0 else "test" for n in range(60)]
    duplicates = NearDuplicates(0.6)
    duplicates.add("prompt", prompts, splits, places(60))
    pairs = {
        (pair.first[0].location.number, pair.second[0].location.number): pair.similarity for pair in duplicates.pairs()
    }
    train, test = ([n for n in range(60) if splits[n] == split] for split in ("train", "test"))
    expected = {(a, b): jaccard(prompts[a], prompts[b]) for a, b in product(train, test)}
    expected = {pair: similarity for pair, similarity in expected.items() if similarity >= 0.6}
    assert pairs == pytest.approx(expected)
    assert 5 < len(expected) < 20
    assert duplicates.recall > 0.98


def test_every_text_of_a_large_cluster_is_named() -> None:
    """Two hundred texts of two words' difference: 10,000 pairs, of which not all are compared."""
    common = " ".join(f"word{n}" for n in range(60))
    cluster = [f"begin{n} {common} end{n}" for n in range(200)]
    others = [f"another text {n} about {n + 1}" for n in range(1_000, 1_300)]
    duplicates = NearDuplicates(0.8)
    duplicates.add("prompt", cluster + others, ["x", "y"] * 250, places(500))
    pairs = list(duplicates.pairs())
    assert {place.location.number for pair in pairs for place in (*pair.first, *pair.second)} == set(range(200))
    assert {pair.similarity for pair in pairs} == {58 / 62}
    assert len(pairs) < 3_000


def test_equal_texts_are_one_pair_with_all_their_rows() -> None:
    duplicates = NearDuplicates(0.8)
    duplicates.add("prompt", ["a b c d"] * 4 + ["", ""], ["x", "y", "x", "y", "x", "y"], places(6))
    (pair,) = duplicates.pairs()
    assert pair.similarity == 1.0
    assert [[place.location.number for place in rows] for rows in (pair.first, pair.second)] == [[0, 2], [1, 3]]
    duplicates = NearDuplicates(0.8)
    duplicates.add("prompt", ["a b c", "a b c"], ["x", "x"], places(2))  # within a split, texts may repeat
    duplicates.add("reference", ["a b c", "d e f"], ["x", "y"], places(2))
    assert list(duplicates.pairs()) == []


INSTRUCTIONS = " ".join(f"rule{n}" for n in range(200))
QUESTIONS = [
    "How do I isolate a plasmid from an overnight culture of bacteria?",
    "Which steps stain fixed tissue with hematoxylin and eosin?",
    "Plan the transfection of adherent cells in a plate with six wells.",
    "What is the way to calibrate a pH electrode before a titration?",
]
ALIKE = QUESTIONS[0].replace("bacteria", "yeast")


def as_system(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": question}]
    return {"prompt": messages, "reference": GOOD}


def in_turn(question: str) -> dict[str, Any]:
    return {"query": f"{INSTRUCTIONS}\n{question}", "reference": GOOD}


@pytest.mark.parametrize(("row", "fewest"), [(as_system, 2), (in_turn, 3)])
def test_what_rows_share_does_not_make_a_few_of_them_similar(tmp_path: Path, row: Any, fewest: int) -> None:
    """Ten prepared rows were all near-duplicates of each other, because of the instructions in their prompts."""
    for number in range(fewest, len(QUESTIONS) + 1):
        rows = [row(question) for question in QUESTIONS[:number]]
        data, _ = checked(tmp_path, rows[1:], rows[:1], similarity=0.8)
        assert [pair.of for pair in data.pairs] == ["reference"]
        data, _ = checked(tmp_path, rows, [row(ALIKE)], similarity=0.5)
        (pair,) = [pair for pair in data.pairs if pair.of == "prompt"]
        assert (pair.first[0].location.number, pair.second[0].location.number) == (1, 1)


def test_files_are_splits_and_a_row_is_named_once(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"How do I isolate the plasmid number {n} from an overnight culture?", "reference": GOOD}
        for n in (1, 2)
    ]
    data, findings = checked(tmp_path, rows, rows[:1], similarity=0.8)
    assert [(pair.of, pair.similarity, len(pair.first)) for pair in data.pairs] == [
        ("prompt", 1.0, 1),
        ("reference", 1.0, 2),
    ]
    assert [(finding.reason, finding.place.location.number) for finding in findings] == [("near_duplicate", 1)] * 2
    assert [Path(split).name for split in data.splits] == ["a.jsonl", "b.jsonl"]


def test_the_split_of_a_row(tmp_path: Path) -> None:
    rows = [
        {"prompt": "How do I do it?", "reference": GOOD, "split": split} for split in ("train", "train", None, "test")
    ]
    data, findings = checked(tmp_path, rows, similarity=0.8, split="split")
    assert [
        (finding.kind, finding.reason, finding.place.location.number) for finding in findings if finding.kind == "error"
    ] == [("error", "missing_field", 3)]
    assert data.splits == ["train", "test"]
    assert {pair.of for pair in data.pairs} == {"prompt", "reference"}


def test_without_datasketch_the_rest_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    data, _ = checked(tmp_path, [{"reference": GOOD}], [{"reference": GOOD}], similarity=0.8)
    assert "datasketch" in data.no_duplicates
    assert "pip install" in data.no_duplicates
    assert data.document([])["near_duplicates"] == {"unavailable": data.no_duplicates}
    assert data.gold.number == 2
