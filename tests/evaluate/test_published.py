"""Printed tables: their data, against the papers' own arithmetic, and their layouts with one's own results."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.research.reports.evaluated_file import EvaluatedFile
from assay.research.reports.published import PAPERS, SCALES, Model, layouts, needs, printed, tables_of
from assay.service.errors import UsageError
from assay.service.records.rows.answers import Answers
from assay.service.records.rows.rows import Location
from assay.service.tasks.evaluation import result_of, task_named
from assay.service.tasks.task import ignore_progress
from tests.evaluate.answer_files import GOOD

SHAPES = {
    "paper": {"1": (24, 10), "2": (7, 9), "3": (9, 10), **dict.fromkeys(map(str, range(9, 19)), (24, 10))}
    | {"19": (17, 5), "20": (7, 20), "21": (8, 20), "22": (4, 20)},
    "bioprobench": {"2": (10, 5), "3": (10, 6), "4": (2, 4), "5": (10, 3), "6": (10, 3), "7": (10, 2), "8": (9, 2)}
    | {
        "9": (10, 3),
        "10": (10, 3),
        "11": (1, 9),
        "12": (5, 4),
        "13": (10, 9),
        "14": (3, 10),
        "15": (3, 8),
        "16": (3, 5),
    },
    "protomed": {"2": (4, 6), "3": (12, 7), "4": (12, 5)},
}
"""Rows and columns of each table, and of each part of a table."""

BELOW_ZERO = {("15", "Claude Opus 4.1", "Step-M"), ("15", "OpenAI o3", "Order-S")}
NOT_THE_MEAN = {("13", "GPT-OSS-120B"), ("13", "OpenAI o1"), ("15", "GPT-5"), ("15", "Grok 3")}


def values(number, file="thoth"):
    """Return the values of a table by model and heading; the papers spell some models in two ways."""
    (table,) = (table for table in printed(file) if table.number == number)
    headings = [column.heading for column in table.columns]
    names = [row.model.replace("OpenAI ", "OpenAI-").removesuffix("-2507") for row in table.rows]
    rows = [dict(zip(headings, (value and value[0] for value in row.values), strict=True)) for row in table.rows]
    return dict(zip([(name, row.group) for name, row in zip(names, table.rows, strict=True)], rows, strict=True))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_is_complete_and_its_values_are_possible(paper):
    tables = layouts(paper)
    assert {table.number: (len(table.rows), len(table.columns)) for table in tables} == SHAPES[paper]
    for table in tables:
        assert len({(row.model, row.group) for row in table.rows}) == len(table.rows)
        for row in table.rows:
            for column, value in zip(table.columns, row.values, strict=True):
                if value is None or (table.number, row.model, column.heading) in BELOW_ZERO:
                    assert value is None or value[0] < 0
                    continue
                assert (value[1] is None) is (not column.spread)
                assert value[1] is None or 0 <= value[1] < math.inf
                if column.unit == "number" or column.metric == "count" or column.of:
                    assert value[0] >= 0
                    continue
                (metric, *_) = column.metrics or [None]
                low, high = (metric.low, metric.high or math.inf) if metric else (-1, 1)
                assert low <= value[0] / SCALES[column.unit] <= high or column.heading == "AVG"


def test_averages_of_the_score_paper_are_the_means_of_their_rows_but_for_four():
    wrong = set()
    for table in layouts("paper"):
        if table.columns[-1].heading == "AVG":
            for row in table.rows:
                *columns, average = [value[0] for value in row.values if value is not None]
                if abs(np.mean(columns) - average) > 0.0051:
                    wrong.add((table.number, row.model))
    assert wrong == NOT_THE_MEAN


def test_levels_of_the_score_paper_add_up_to_its_main_table():
    whole, first, second = map(values, ("1", "9", "10"))
    assert whole.keys() == first.keys() == second.keys()
    for model, row in whole.items():
        for heading, value in row.items():
            assert value == pytest.approx(0.49 * first[model][heading] + 0.51 * second[model][heading], abs=0.02)


def test_bioprobench_adds_up():
    for number, precision, recall in (("2", "Prec", "Recall"), ("3", "Prec", "Recall"), ("14", "Prec", "Recall")):
        for row in values(number, "bioprobench").values():
            mean = 2 * row[precision] * row[recall] / (row[precision] + row[recall])
            assert row["F1"] == pytest.approx(mean, abs=0.0006)
    *groups, whole = values("12", "bioprobench").values()
    assert sum(row["N"] for row in groups) == whole["N"] == 1161
    read = [row["N"] * (1 - row["Failed %"] / 100) for row in groups]
    exact = sum(n * row["EM"] for n, row in zip(read, groups, strict=True)) / sum(read)
    assert exact == pytest.approx(whole["EM"], abs=0.0001)
    (reasons,) = values("11", "bioprobench").values()
    named = ("Missing", "Extra", "Invalid", "Repeated")
    assert sum(reasons[name] for name in named) == reasons["All"] == round(0.2343 * 1161)
    assert all(reasons[f"{name} %"] == pytest.approx(100 * reasons[name] / 272, abs=0.006) for name in named)


def test_averages_of_llam_eval_are_the_means_of_six_criteria():
    for table in layouts("protomed.3"):
        for row in table.rows:
            *criteria, average = [value[0] for value in row.values]
            assert average == pytest.approx(np.mean(criteria), abs=0.0101)


def test_a_table_that_does_not_exist():
    with pytest.raises(UsageError, match=r"paper\.19.*bioprobench\.12.*did you mean paper.1"):
        layouts("papper.1")


STEPS = [f"step {k}" for k in range(20)]
RIGHT = {
    "score": [{"response": GOOD, "reference": GOOD, "type": kind} for kind in ("safety", "overview_qa")],
    "bioprobench.pqa": [{"answer": "x", "generated_response": "[ANSWER_START]x & 100[ANSWER_END]"}] * 3,
    "bioprobench.err": [
        {"is_correct": right, "generated_response": f"[ANSWER_START]{right}[ANSWER_END]"} for right in (True, False)
    ],
    "bioprobench.ord": [
        {
            "wrong_steps": STEPS[:n],
            "correct_steps": STEPS[:n],
            "generated_response": f"[ANSWER_START]{list(range(n))}[ANSWER_END]",
        }
        for n in (2, 3, 5, 6, 11, 12)
    ],
}


def evaluated(need, records, **options):
    task = task_named(need.task)
    checked = task.checked({**need.options, "by": list(need.by), **options})
    evaluation = task.evaluate(records, checked, ignore_progress)
    locations = [Location("line", k) for k in range(len(records))]
    return EvaluatedFile(
        source="answers.jsonl",
        task=task,
        options=checked.model_dump(exclude={"by", "metrics"}),
        answers=Answers(list(records), locations, [], {}),
        evaluation=evaluation,
        result=result_of(task, records, checked, evaluation),
    )


def filled(name, records=RIGHT, *, beside=False, **options):
    tables = layouts(name)
    results = {need.key: evaluated(need, records[need.task], **options) for need in needs(tables, records.keys())}
    return tables_of(tables, [Model("mine", results)], beside)


def test_needs_are_the_evaluations_of_the_tasks_at_hand():
    assert [need.options for need in needs(layouts("paper.1"), ["scirecipe"])] == [
        {"profile": "thoth"},
        {"profile": "paper"},
    ]
    assert [need.task for need in needs(layouts("paper"), ["score", "bioprobench.ord"])] == [
        *["score"] * 2,
        *["bioprobench.ord"] * 2,
    ]
    (sweep,) = needs(layouts("bioprobench.5"), ["bioprobench.gen"])
    assert sweep.options == {"profile": "bioprobench", "delta_sweep": [0.6, 0.8]}
    (reasons,) = needs([*layouts("bioprobench.12"), *layouts("bioprobench.11")], ["bioprobench.ord"])
    assert reasons.by == ("steps",)
    assert {"usual", "failed_extra"} <= set(reasons.options["metrics"])
    assert needs(layouts("bioprobench.4"), RIGHT) == []


def test_right_answers_have_the_highest_value_of_every_column():
    for name in ("bioprobench.2", "bioprobench.9", "bioprobench.10", "bioprobench.12"):
        (table,), left_out = filled(name)
        assert left_out == []
        (printed_table,) = layouts(name)
        first = len(table.heads) - len(printed_table.columns)
        for row in table.cells:
            for column, cell in zip(printed_table.columns, row[first:], strict=True):
                if column.metric != "count":
                    least = column.metrics[0].less_is_better
                    assert float(cell.value) == (0.0 if least else SCALES[column.unit]), (name, column)
    (table,), _ = filled("paper.1")
    plan = {"Semantic-A": "150.00", **dict.fromkeys(("Order-LCS", "Order-S", "Step-M"), "100.00")}
    for row in table.cells:
        shown = dict(zip(table.heads, (cell.value for cell in row), strict=True))
        assert shown | plan == shown
        assert shown["BLEU-AVG"] == "–"
    assert "– BLEU-AVG, – ROUGE-L, – METEOR, – KW-F1, – AVG: There are no answers of its task." in table.notes
    assert "Semantic-A is out of 150." in table.notes


def test_profiles_stand_side_by_side_and_printed_rows_are_marked():
    (table,), _ = filled("paper.1", beside=True)
    kinds = [[cell.value for cell in row[:4]] for row in table.cells]
    assert kinds[:3] == [
        ["evaluated", "mine", "thoth", "2"],
        ["evaluated", "mine", "paper", "2"],
        ["printed", "ChatGPT-4o", "thoth", "–"],
    ]
    assert {kind for kind, *_ in kinds[3:]} == {"printed"}
    assert kinds[-1][1] == "Thoth"
    assert [cell.value for cell in table.cells[-1][4:6]] == ["46.60", "75.34"]
    assert any("arXiv 2510.15600, comparable with profile thoth. A difference" in note for note in table.notes)
    assert any(note.startswith("Order-S, Order-Tau, Step-M: In some rows") for note in table.notes)


def test_tables_are_of_the_records_that_they_are_about():
    tables, left_out = filled("paper")
    assert [table.title.partition(",")[2].partition(":")[0].strip() for table in tables] == [
        f"Table {number}" for number in (1, 2, 3, 9, 11, 18, 19, 20, 21, 22)
    ]
    assert "SCORE paper, Table 10: left out, because no record has level=2." in left_out
    assert [table.cells[0][2].value for table in tables if "type overview" in table.title] == ["1"]
    assert filled("bioprobench.4") == (
        [],
        ["BioProBench, Table 4: left out, because Assay has no metric for its columns."],
    )
    assert filled("protomed.2") == ([], ["ProtoMed-LLM, Table 2: left out, because there are no answers of llam_eval."])


def test_a_printed_group_has_a_row_of_its_own():
    (table,), _ = filled("bioprobench.12", beside=True)
    rows = [[cell.value for cell in row] for row in table.cells]
    assert [(row[2], row[-1]) for row in rows[:6]] == [
        *[("2", "1"), ("3-5", "2"), ("6-8", "1"), ("9-11", "1"), ("12+", "1"), ("all", "6")]
    ]
    assert rows[6] == ["printed", "Gemini-2.5-pro-exp", "3-5", "0.6583", "0.7729", "1.54", "648"]


def test_failures_are_counted_and_shared_out():
    wrong = [
        dict(RIGHT["bioprobench.ord"][2], generated_response=text) for text in ("none", "[ANSWER_START][0][ANSWER_END]")
    ]
    (table,), _ = filled("bioprobench.11", {"bioprobench.ord": [*RIGHT["bioprobench.ord"], *wrong]})
    shown = dict(zip(table.heads, (cell.value for cell in table.cells[0]), strict=True))
    assert (shown["Missing"], shown["Invalid"], shown["Extra"], shown["All"]) == ("1", "1", "0", "2")
    assert (shown["Missing %"], shown["Extra %"]) == ("50.00", "0.00")


def test_deviations_are_those_that_the_paper_prints():
    judged = [
        {"criterion": "Coherence", "responses": [f"{score}"], "generated_response": "p", "reference": "q"}
        for score in (2, 4, 5)
    ]
    (table,), _ = filled("protomed.2", {"llam_eval": judged}, beside=True)
    first = dict(zip(table.heads, table.cells[0], strict=True))["Coherence"]
    assert (first.value, first.error) == (f"{11 / 3:.2f}", f"{np.std([2, 4, 5], ddof=1):.2f}")
    assert str(table.cells[1][3]) == "4.95 ± 0.26"
    assert "±: standard deviation of single scores, as printed." in table.notes


def test_other_weights_than_the_paper_s_are_named():
    record = {"output": ["add pbs", "mix"], "generated_response": "[ANSWER_START]add pbs\nmix[ANSWER_END]"}
    (table,), _ = filled("bioprobench.7", {"bioprobench.gen": [record]}, beside=True, embedder="hashed_words")
    assert [cell.value for cell in table.cells[0][3:]] == ["1.0000", "1.0000"]
    note = "SR, SP: printed with embedding_model=BAAI/bge-m3, but mine has hashed_words: not comparable."
    assert note in table.notes


@pytest.mark.parametrize("name", ["paper.1", "bioprobench.12", "bioprobench.14"])
def test_every_format_has_every_row(name):
    (table,), _ = filled(name, beside=True)
    printed_rows = len(layouts(name)[0].rows)
    assert table.markdown().count("| printed |") == printed_rows
    assert table.latex().count("\nprinted & ") == printed_rows
    assert table.csv().count("\nprinted,") == printed_rows
    assert table.drawn(200)[0].row_count >= len(table.rows)


def test_plans_are_grouped_by_the_number_of_their_steps():
    step = {"action": "add", "objects": ["pbs"], "parameters": []}
    records = [{"response": GOOD, "reference": {"steps": [step] * n}} for n in (1, 2, 4, 5, 8, 12, 30)]
    task = task_named("score")
    checked = task.checked({"by": ["steps"]})
    result = result_of(task, records, checked, task.evaluate(records, checked, ignore_progress))
    assert {value: part["count"] for value, part in result.by["steps"].items()} == {
        "1": 1,
        "2": 1,
        "3-5": 2,
        "6-8": 1,
        "12+": 2,
    }
    assert list(result.by["steps"]) == ["1", "2", "3-5", "6-8", "12+"]
