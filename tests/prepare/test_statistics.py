"""Figures of rows, beside those counted by hand."""

from __future__ import annotations

from assay.research.prepare.summary import Statistics
from assay.service.explain.reading import Step
from assay.service.tables.table import Table
from tests.prepare.by_hand import DRY, RINSE, choice, protocol

ROWS = [
    (protocol([RINSE, DRY], "How is it cleaned?", type="planning", level="1", answer="one two three"), "train"),
    (protocol([RINSE, DRY, RINSE, DRY], "How?", type="planning", level="2"), "train"),
    (protocol([Step(" Dry ", (), ())], "How is it dried?", type="planning", level="1"), "test"),
    (choice(), "train"),
]


def test_the_figures_of_rows() -> None:
    found = Statistics(ROWS).document()
    keys = ("split", "task", "type", "level", "rows")
    assert [tuple(row[key] for key in keys) for row in found["rows"]] == [
        ("train", "bioprobench.pqa", None, None, 1),
        ("train", "score", "planning", "1", 1),
        ("train", "score", "planning", "2", 1),
        ("test", "score", "planning", "1", 1),
    ]
    assert found["steps"] == {
        "rows": 3,
        "mean": 7 / 3,
        "median": 2.0,
        "smallest": 1,
        "largest": 4,
        "histogram": {"1": 1, "2": 1, "4": 1},
    }
    assert found["words"]["question"] == {"rows": 4, "mean": 3.25, "median": 4.0, "smallest": 1, "largest": 4}
    # rinse beaker ethanol 70% 10 s; dry beaker 60 °c 1 h
    reference = {"rows": 4, "mean": (12 + 24 + 1 + 2) / 4, "median": 7.0, "smallest": 1, "largest": 24}
    assert found["words"]["reference"] == reference
    assert found["words"]["answer"] == {"rows": 1, "mean": 3.0, "median": 3.0, "smallest": 3, "largest": 3}
    assert found["words"]["text"] == {"rows": 0}
    assert found["actions"] == {
        "steps": 7,
        "distinct": 2,
        "most_frequent": [{"action": "dry", "steps": 4}, {"action": "rinse", "steps": 3}],
    }


def test_long_protocols_share_a_row_in_the_terminal() -> None:
    rows = [(protocol([DRY] * count), "train") for count in (12, 30, 2)]
    table = list(Statistics(rows).parts())[3]
    assert isinstance(table, Table)
    shown = [[str(cell) for cell in row] for row in table.cells]
    assert shown == [["2", "1", "33.3%"], ["12 or more", "2", "66.7%"]]
    assert Statistics(rows).document()["steps"]["histogram"] == {"2": 1, "12": 1, "30": 1}
    assert len(list(Statistics([(choice(), "train")]).parts())) == 2
    assert Statistics([]).document()["steps"] == {"rows": 0, "histogram": {}}
