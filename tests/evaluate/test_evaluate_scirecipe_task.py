"""The paper's tables: nine columns and their mean, under both profiles, and how the package of BERTScore is called."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from assay.service.tasks import evaluate
from assay.service.tasks import scirecipe as scirecipe_task
from assay.service.tasks.scirecipe import NINE, without_headers
from assay.service.tasks.task import not_installed

pytestmark = pytest.mark.skipif(find_spec("nltk") is None, reason="NLTK is not installed")

STEP = '{"action": "add", "objects": ["pbs"], "parameters": ["5 ml"]}'
ORC = "Step 1: Add 5 ml of cold pbs, and mix.\nStep 2: Spin the tubes."
ANSWER = "<think>t</think><key>Step 1: {step}</key><orc>\n{orc}\n</orc><note>n</note>"
SAME = ANSWER.format(step=STEP, orc=ORC)
OTHER = ANSWER.format(step=STEP, orc="Step 1: Add 5 ml of PBS.\nStep 2: Now spin a tube for long.")


def one(response, reference=SAME, **options):
    return evaluate("scirecipe", [{"response": response, "reference": reference}], **options)


@pytest.mark.parametrize(
    ("profile", "words"), [("thoth", len(ORC.split())), pytest.param("paper", 20, marks=pytest.mark.word_lists)]
)
def test_equal_answers(small_wordnet, profile, words):
    result = one(SAME, profile=profile)
    assert tuple(result.per_record) == NINE
    assert not result.unavailable
    assert result.aggregate["bleu_avg"] == pytest.approx(1.0)
    assert result.aggregate["rouge_l"] == 1.0
    assert result.aggregate["meteor"] == pytest.approx(1 - 0.5 / words**3, abs=1e-6)
    assert result.aggregate["avg"] == pytest.approx(np.mean([result.aggregate[name] for name in NINE]), abs=1e-12)


def test_the_script_takes_precisions_for_bleu():
    """The script has no brevity penalty; BLEU's definition has one."""
    short = ANSWER.format(step=STEP, orc="Step 1: Add 5 ml of cold pbs, and")
    names = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "bleu_avg"]
    script = one(short, metrics=names)
    assert [column[0] for column in script.per_record.values()] == pytest.approx([1.0] * 5)
    defined = one(short, metrics=names, profile="paper")
    assert all(column[0] < 0.6 for column in defined.per_record.values())
    script, defined = one(OTHER), one(OTHER, profile="paper")
    if not (script.unavailable or defined.unavailable):  # it splits at white space for METEOR: `pbs,` is not `pbs`
        assert script.aggregate["meteor"] < defined.aggregate["meteor"]
    sacrebleu = pytest.importorskip("sacrebleu")
    expected = sacrebleu.metrics.BLEU(effective_order=True).sentence_score(
        OTHER.split("<orc>\n")[1].split("\n</orc>")[0], [ORC]
    )
    evaluation = one(OTHER, metrics=names)
    assert [100 * float(evaluation.per_record[name][0]) for name in names[:4]] == pytest.approx(expected.precisions)
    assert float(evaluation.per_record["bleu_avg"][0]) == pytest.approx(sum(expected.precisions) / 400)


def published(tmp_path, *rows):
    """Write a file of records as the published ones are, each with the library of its actions."""
    fields = {"question": "How?", "think": "t", "key": f"Step 1: {STEP}", "orc": ORC, "note": "n"}
    fields |= {"action": ["add"], "action_new": ["add", "spin"], "type": "scaling", "level": "level-1"}
    path = tmp_path / "published.jsonl"
    path.write_text("".join(json.dumps(fields | row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def without_wordnet(monkeypatch):
    """Hide the word lists of NLTK and of the system."""

    def nothing():
        raise not_installed("task", "METEOR needs WordNet 3.0")

    monkeypatch.setattr(scirecipe_task, "meteor_scorer", nothing)


@pytest.mark.usefixtures("without_wordnet")
def test_a_usual_metric_that_lacks_something_has_a_dash_and_a_footnote(call, tmp_path):
    """Also if the records have the fields of further metrics, which are then computed."""
    path = published(tmp_path, {"response": SAME}, {"response": OTHER})
    page = tmp_path / "page.html"
    result = call("evaluate", path, "--task", "scirecipe", "--html", page)
    assert result.exit_code == 1
    heads, _, everything, *rest = result.stdout.splitlines()
    titles = "n Semantic-A Order-LCS Order-S Order-Tau Step-M BLEU-AVG ROUGE-L METEOR KW-F1 AVG"
    assert heads.split()[:11] == titles.split()
    cells = dict(zip(heads.split(), everything.split()[1:], strict=True))
    assert (cells["METEOR"], cells["AVG"], cells["Outside"]) == ("–", "–", "0.00")
    assert "–" not in (cells["BLEU-AVG"], cells["KW-F1"], cells["Semantic-A"])
    notes = ["– METEOR: not computed. METEOR needs WordNet 3.0", "– AVG: not computed. It needs all nine columns"]
    for note in notes:
        assert any(line.startswith(note) for line in rest)
        assert note in page.read_text(encoding="utf-8")


def test_counts_of_records(monkeypatch):
    """AVG has that of its shortest column. A value without any record says so, too: precision is 0 by definition."""
    monkeypatch.setattr(scirecipe_task, "meteor_scorer", lambda: lambda reference, hypothesis: 0.5)
    records = [{"response": SAME, "reference": reference} for reference in (SAME, SAME, f"Step 1: {STEP}")]
    result = evaluate("scirecipe", records)
    assert result.aggregate["avg"] is not None
    assert result.counts == dict.fromkeys(["bleu_avg", "rouge_l", "meteor", "keyword_f1", "avg"], 2)
    assert evaluate("scirecipe", records[:2]).counts == {}
    right, wrong = ({"is_correct": True, "generated_response": text} for text in ("[ANSWER_START]True[ANSWER_END]", 1))
    odd = right | {"is_correct": "yes"}
    records = [right | {"type": "a"}, odd | {"type": "a"}, wrong | {"type": "b"}]
    result = evaluate("bioprobench.err", records, by=["type"])
    of_booleans = dict.fromkeys(("accuracy_bool_gold", "precision", "recall", "f1"), 1)
    assert result.counts == {"accuracy": 2, **of_booleans}
    assert result.counts_by["type"]["a"] == of_booleans
    assert result.counts_by["type"]["b"] == dict.fromkeys(("accuracy", "precision", "recall", "f1"), 0)
    assert result.by["type"]["b"]["precision"] == 0.0


THREE = "Step 1: Add pbs.\n  Step 2: Mix it.\nstep 3 :Spin."
COLUMNS = ["bertscore_precision", "bertscore_recall", "bertscore_f1"]


def record(response_orc: str, reference_orc: str = THREE) -> dict[str, str]:
    response, reference = (ANSWER.replace("\n", "").format(step=STEP, orc=orc) for orc in (response_orc, reference_orc))
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
    evaluation = evaluate("scirecipe", records, bertscore_model="roberta-large", metrics=COLUMNS)
    assert package.loaded == [("roberta-large", 24)]
    assert package.scored == [(["Add cold pbs."], ["Add pbs.\n  Step 2: Mix it.\nSpin."])]
    assert [column.tolist() for column in evaluation.per_record.values()] == [
        pytest.approx([13 / divisor, 0, 0]) for divisor in (100, 200, 400)
    ]
    assert "bertscore_model:roberta-large" in evaluation.signature
    assert without_headers("STEP 12 : a\nStep1:b\n\nstep 2:\n\nc step 3: d") == "a\nb\n\nc step 3: d"
