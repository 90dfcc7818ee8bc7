"""`assay evaluate --labels`: agreement of judges with people, of several people, and every fault of the file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from assay.research.reports.agreement import agreement_of
from assay.research.reports.labels import LabelFile, Labelled, LabelRow, join_labels
from assay.service.tasks import evaluate
from tests.evaluate.answer_files import written
from tests.reference import agreement as twin

REA_ERR = ("--task", "bioprobench.rea_err")
JUDGE = [k % 3 != 0 for k in range(24)]
FIRST = [verdict != (k % 7 == 0) for k, verdict in enumerate(JUDGE)]
SECOND = [verdict != (k % 5 == 0) for k, verdict in enumerate(JUDGE)]


def marked(text: object) -> str:
    return f"[ANSWER_START]{text}[ANSWER_END]"


def judged(verdicts, **fields) -> list[dict]:
    record = {"is_correct": False, "generated_response": marked(False)}
    return [
        {**record, "id": f"e{k}", "LLM_judge": marked(verdict), "type": "ab"[k % 2]}
        | {name: values[k] for name, values in fields.items()}
        for k, verdict in enumerate(verdicts)
    ]


@pytest.fixture
def agreement(call, tmp_path):
    """Return a function that evaluates with labels and gives what is printed and the statistics of the document."""

    def agreement(answers, labels, *arguments, task=REA_ERR):
        paths = written(tmp_path, answers), written(tmp_path, labels, "labels.jsonl"), tmp_path / "all.json"
        result = call("evaluate", paths[0], *task, "--labels", paths[1], *arguments, "--json", paths[2], "-q")
        assert result.exit_code == 0, result.output
        return result.stdout, json.loads(paths[2].read_text())["agreement"]

    return agreement


def statistics(document, *raters, value=None) -> dict[str, dict]:
    return {
        entry["statistic"]: entry
        for entry in document["raters"]
        if entry["raters"] == list(raters) and entry["value"] == value
    }


def test_a_judge_and_two_people(agreement):
    rows = [
        {"id": f"e{k}", "rater": rater, "label": label}
        for rater, labels in (("first", FIRST), ("second", SECOND))
        for k, label in enumerate(labels)
    ]
    printed, document = agreement(judged(JUDGE), rows, "--seed", 3, "--resamples", 199)
    columns = {"LLM judge": JUDGE, "first": FIRST, "second": SECOND}
    for pair in (("LLM judge", "first"), ("LLM judge", "second"), ("first", "second")):
        for value, some in ((None, slice(None)), ("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
            estimates = statistics(document, *pair, value=value)
            x, y = (columns[name][some] for name in pair)
            assert {entry["n"] for entry in estimates.values()} == {len(x)}
            assert estimates["agreement_rate"]["estimate"] == pytest.approx(float(twin.agreement_rate(x, y)))
            assert estimates["cohen_kappa"]["estimate"] == pytest.approx(float(twin.cohen_kappa(x, y)))
            assert 0 < estimates["spearman"]["p"] <= 1
    (fleiss,) = statistics(document, *columns).values()
    units = list(zip(*columns.values(), strict=True))
    assert fleiss["estimate"] == pytest.approx(float(twin.fleiss_kappa(units)))
    generator = np.random.default_rng(3)
    drawn = [[units[k] for k in generator.integers(0, 24, 24)] for _ in range(199)]
    ends = np.percentile([float(twin.fleiss_kappa(some)) for some in drawn], [2.5, 97.5])
    assert [fleiss["low"], fleiss["high"]] == pytest.approx(ends)
    kappas = [twin.cohen_kappa(*list(zip(*some, strict=True))[:2]) for some in drawn]
    kappa = statistics(document, "LLM judge", "first")["cohen_kappa"]
    assert [kappa["low"], kappa["high"]] == pytest.approx(np.percentile(np.array(kappas, float), [2.5, 97.5]))
    line = next(line for line in printed.splitlines() if line.startswith("LLM judge, first "))
    rate = 100 * float(twin.agreement_rate(JUDGE, FIRST))
    assert line.split()[3:8] == ["all", "Agreement", "rate", "24", f"{rate:.2f}"]


def test_fields_are_raters_and_missing_labels_are_counted(agreement):
    rows = [{"id": f"e{k}", "first": FIRST[k], "second": SECOND[k] if k < 20 else None} for k in range(22)]
    answers = judged(["no verdict", *JUDGE[1:]], other_judge=[int(verdict) for verdict in JUDGE])
    printed, document = agreement(answers, rows, "--label-field", "first,second,other_judge")
    assert document["without_label"] == {"other_judge": 0, "first": 2, "second": 4}
    assert statistics(document, "LLM judge", "first")["cohen_kappa"]["n"] == 21
    assert statistics(document, "other_judge", "second")["cohen_kappa"]["n"] == 20
    (fleiss,) = statistics(document, "LLM judge", "other_judge", "first", "second").values()
    assert fleiss["n"] == 19  # the records that all have labelled
    assert "LLM judge: no verdict for 1 label." in printed
    assert "second: 4 records without a label." in printed


def test_values_that_are_not_defined_are_none(agreement):
    rows = [{"id": f"e{k}", "first": True, "second": SECOND[k], "third": k / 3} for k in range(4)]
    _, document = agreement(judged(JUDGE[:4]), rows, "--label-field", "first,second,third")
    estimates = statistics(document, "LLM judge", "first")
    assert estimates["agreement_rate"]["estimate"] == 0.5
    for name in ("cohen_kappa", "spearman"):
        assert [estimates[name][key] for key in ("estimate", "low", "high", "p")] == [None] * 4
    assert set(statistics(document, "LLM judge", "third")) == {"spearman"}  # thirds are not categories
    _, document = agreement(judged(JUDGE[:1]), [{"id": "e0", "label": JUDGE[0]}])
    (estimates, kappa, _) = statistics(document, "LLM judge", "label").values()
    assert (estimates["n"], estimates["estimate"], estimates["low"], kappa["estimate"]) == (1, 1.0, None, None)


def test_criteria_of_llam_eval(agreement):
    scores = {"Coherence": [1, 2, 3, 4, 5, 5], "fluency": [3, 3, 2, 1, 2, 3]}
    answers = [
        {"id": k, "criterion": criterion, "responses": [str(score)]}
        for criterion, column in scores.items()
        for k, score in enumerate(column)
    ]
    rows = [{**record, "label": int(record["responses"][0]) - (record["id"] == 2)} for record in answers]
    _, document = agreement(answers, rows, task=("--task", "llam_eval"))
    for value, n in ((None, 12), ("coherence", 6), ("fluency", 6)):
        estimates = statistics(document, "LLM judge", "label", value=value)
        assert estimates["agreement_rate"]["estimate"] == pytest.approx(1 - (2 if value is None else 1) / n)
        assert (estimates["spearman"]["p"] is None) == (value is None)  # labels of one record are not independent
    x, y = scores["Coherence"], [label - (k == 2) for k, label in enumerate(scores["Coherence"])]
    exact = statistics(document, "LLM judge", "label", value="coherence")["spearman"]["p"]
    assert exact == pytest.approx(float(twin.permutation_p(x, y)))


def test_criteria_of_records_that_are_judged_on_all():
    result = evaluate("llam_eval", [{"id": k, "responses": ["3"]} for k in "abc"])
    columns = {"coherence": [1, 2, 3], "fluency": [3, 2, 1], "score": [2, 2, 2]}
    result = replace(result, per_record={name: np.array(column, float) for name, column in columns.items()})
    models = [Labelled("m", [{"id": k} for k in "abc"], result)]
    labels = zip("abc" * 2, ["fluency"] * 3 + ["coherence"] * 3, (3, 2, 2, 1, 2, 3), strict=True)
    rows = [LabelRow("", name, criterion, None, "first", {"label": value}) for name, criterion, value in labels]
    (raters,) = join_labels(LabelFile(rows, ["label"]), [models])
    document = agreement_of(models, [], raters).document()
    rates = [statistics(document, "LLM judge", "first", value=name) for name in (None, "coherence", "fluency")]
    assert [rate["agreement_rate"]["estimate"] for rate in rates] == pytest.approx([5 / 6, 1, 2 / 3])
    assert document["correlations"] == []  # no label is of a record as a whole


def test_labels_of_several_models(call, tmp_path):
    paths = [written(tmp_path, judged(verdicts), name) for verdicts, name in ((JUDGE, "a.jsonl"), (SECOND, "b.jsonl"))]
    rows = [
        {"id": f"e{k}", "model": model, "label": FIRST[k]}
        for model in ("a", "b")
        for k in range(24 if model == "a" else 9)
    ]
    labels, target = written(tmp_path, rows, "labels.jsonl"), tmp_path / "all.json"
    result = call("evaluate", *paths, *REA_ERR, "--labels", labels, "--json", target, "--html", tmp_path / "all.html")
    assert result.exit_code == 0, result.output
    document = json.loads(target.read_text())["agreement"]
    rates = {
        entry["model"]: (entry["n"], entry["estimate"])
        for entry in document["raters"]
        if entry["statistic"] == "agreement_rate" and entry["field"] is None
    }
    assert rates["a"] == (24, pytest.approx(float(twin.agreement_rate(JUDGE, FIRST))))
    assert rates["b"] == (9, pytest.approx(float(twin.agreement_rate(SECOND[:9], FIRST[:9]))))
    assert rates[None][0] == 33
    assert "Agreement of raters" in (tmp_path / "all.html").read_text()
    without = written(tmp_path, [{"id": "e0", "label": 1}, {"id": "e1", "model": "c", "label": 1}], "labels.jsonl")
    result = call("evaluate", *paths, *REA_ERR, "--labels", without)
    assert result.exit_code == 2
    assert f"{without}:1: 2 records have the id 'e0'; name its model" in result.stderr
    assert f"{without}:2: model must be one of: a, b" in result.stderr


def test_a_record_that_counts_once_is_labelled_once(agreement):
    answers = judged(JUDGE)
    unjudged = [{name: value for name, value in record.items() if name != "LLM_judge"} for record in answers]
    rows = [{"id": f"e{k}", "label": label} for k, label in enumerate(FIRST)]
    _, document = agreement(unjudged + answers, rows, "--option", "deduplicate=true")
    assert statistics(document, "LLM judge", "label")["agreement_rate"]["n"] == 24


@pytest.mark.parametrize(
    ("rows", "messages"),
    [
        (
            [{"id": "e0", "label": "yes"}, {"label": 1}, {"id": "e1"}, 7, {"id": "e2", "label": 1, "criterion": 3}],
            [
                ":1: label is neither a number nor true, false or null",
                ":2: no id, which is text or a whole number",
                ":3: no label: none of the fields label",
                ":4: the row is not a JSON object",
                ":5: criterion is not text",
            ],
        ),
        (
            [{"id": name, "label": 1, "rater": "first"} for name in ("e0", "e7", "e0")]
            + [{"id": "e0", "label": 1, "criterion": "fluency"}],
            [
                ":2: no evaluated record has the id 'e7'",
                ":3: id 'e0' has this label already: ",
                ":4: criterion of id 'e0' is for tasks with criteria",
            ],
        ),
        (["not JSON", {"id": "e0"}], [":1: ", ":2: no label: none of the fields label"]),
        ([{"id": "e0", "labels": 1}], [": no row has the field 'label'; fields: id, labels; did you mean labels?"]),
    ],
)
def test_faults_of_a_file_of_labels(call, tmp_path, rows, messages):
    paths = written(tmp_path, judged(JUDGE[:3])), written(tmp_path, rows, "labels.jsonl")
    result = call("evaluate", paths[0], *REA_ERR, "--labels", paths[1])
    assert result.exit_code == 2
    assert [message for message in messages if f"{paths[1]}{message}" not in result.stderr] == []
    assert result.stderr.count(f"{paths[1]}:") == len(messages) + sum("already" in message for message in messages)
