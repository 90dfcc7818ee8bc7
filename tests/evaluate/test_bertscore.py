"""BERTScore: how the package is called by each task, which needs no weights; what it computes is the package's own."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from assay.service.errors import InvalidRequest
from assay.service.tasks import evaluate
from assay.service.tasks.scirecipe import without_headers

KEY = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": []}'
ANSWER = "<think>t</think><key>{key}</key><orc>{orc}</orc><note>n</note>"
ORC = "Step 1: Add pbs.\n  Step 2: Mix it.\nstep 3 :Spin."
COLUMNS = ["bertscore_precision", "bertscore_recall", "bertscore_f1"]


def record(response_orc: str, reference_orc: str = ORC) -> dict[str, str]:
    response, reference = (ANSWER.format(key=KEY, orc=orc) for orc in (response_orc, reference_orc))
    return {"response": response, "reference": reference}


@pytest.fixture
def package(monkeypatch):
    """Put a stand-in for the package in its place; return how it was called."""
    calls = SimpleNamespace(loaded=[], scored=[])

    class BERTScorer:
        def __init__(self, model_type: str, num_layers: int | None) -> None:
            if model_type == "nowhere":
                raise OSError("no route to the hub")
            calls.loaded.append((model_type, num_layers))

        def score(self, responses, references):
            calls.scored.append((responses, references))
            lengths = np.array([len(response) for response in responses], np.float32)
            return lengths / 100, lengths / 200, lengths / 400

    module = ModuleType("bert_score")
    vars(module).update(BERTScorer=BERTScorer, utils=SimpleNamespace(model2layers={"roberta-large": 17}))
    monkeypatch.setitem(sys.modules, "bert_score", module)
    return calls


def test_as_the_authors_script_computes_it(package):
    """Precision, recall and F1 of layer 24, without the headers of steps."""
    records = [record("Step 1: Add cold pbs."), record("Step 1: "), record("")]
    found = evaluate("scirecipe", records, bertscore_model="roberta-large", metrics=COLUMNS)
    assert package.loaded == [("roberta-large", 24)]
    assert package.scored == [(["Add cold pbs."], ["Add pbs.\n  Step 2: Mix it.\nSpin."])]
    assert [column.tolist() for column in found.per_record.values()] == [
        pytest.approx([13 / divisor, 0, 0]) for divisor in (100, 200, 400)
    ]
    assert "bertscore_model:roberta-large" in found.signature
    assert without_headers("STEP 12 : a\nStep1:b\n\nstep 2:\n\nc step 3: d") == "a\nb\n\nc step 3: d"


def test_by_the_definitions_it_is_that_of_the_package(package):
    options = {"bertscore_model": "roberta-large", "profile": "paper", "metrics": COLUMNS}
    evaluate("scirecipe", [record("Step 1: Add.")], **options)
    evaluate("scirecipe", [record("Step 1: Add.")], bertscore_layer=3, **options)
    evaluate("lexical", [{"response": "x", "reference": "y"}], bertscore_model="roberta-large", metrics=["bertscore"])
    assert package.loaded == [("roberta-large", None), ("roberta-large", 3), ("roberta-large", None)]
    assert package.scored[0] == (["Step 1: Add."], [ORC])
    options = {"bertscore_model": "roberta-large"}  # it is computed beside the usual metrics if its model is named
    assert set(COLUMNS) <= evaluate("scirecipe", [record(ORC)], **options).aggregate.keys()
    assert not set(COLUMNS) & evaluate("scirecipe", [record(ORC)]).aggregate.keys()
    assert set(evaluate("scirecipe", [record(ORC)], metrics=["step_m"], **options).aggregate) == {"count", "step_m"}


@pytest.mark.usefixtures("package")
def test_models_that_cannot_be_used():
    texts = [{"response": "x", "reference": "y"}]
    with pytest.raises(InvalidRequest, match=r"bertscore_layer.*needed for a model"):
        evaluate("lexical", texts, bertscore_model="a folder", metrics=["bertscore"])
    with pytest.raises(InvalidRequest, match=r"could not be loaded \(OSError\)"):
        evaluate("lexical", texts, bertscore_model="nowhere", bertscore_layer=1, metrics=["bertscore"])


def test_empty_texts_have_nothing_in_common(package):
    records = [{"response": text, "reference": "y"} for text in (" ", "x")] + [{"response": "x", "reference": ""}]
    found = evaluate("lexical", records, bertscore_model="roberta-large", metrics=["bertscore"])
    assert found.per_record["bertscore"].tolist() == pytest.approx([0.0, 1 / 400, 0.0])
    assert package.scored == [(["x"], ["y"])]
    assert evaluate("lexical", records[:1], bertscore_model="roberta-large").aggregate["bertscore"] == 0.0
    assert len(package.scored) == 1
