"""Without a library, weights or a word list, its metrics say what to do, and the others have values."""

from __future__ import annotations

import sys
import types

import pytest

from assay import Scorer
from assay.service.errors import InvalidRequest, NotInstalled
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.text import tokens as word_tokens
from tests.evaluate.word_lists import forget_wordnet

GEN = [{"output": ["Wash the cells."], "generated_response": "Wash the cells."}]
LEXICAL = [{"reference": "Wash the cells.", "response": "Wash the cells."}]
CACHES = (word_tokens.porter_stemmer, word_tokens.word_tokenizer)


@pytest.fixture(autouse=True)
def nothing_kept():
    """Clear what was loaded before, and afterwards what the test loaded."""
    forget_wordnet()
    for loaded in CACHES:
        loaded.cache_clear()
    yield
    forget_wordnet()
    for loaded in CACHES:
        loaded.cache_clear()


def without(monkeypatch, *packages: str) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] in packages:
            monkeypatch.setitem(sys.modules, name, None)
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)


def test_without_nltk(monkeypatch):
    without(monkeypatch, "nltk")
    evaluation = evaluate("bioprobench.gen", GEN)
    assert {"bleu", "meteor", "rouge_1", "rouge_2", "rouge_l"} <= evaluation.unavailable.keys()
    assert "-m pip install 'nltk<" in evaluation.unavailable["bleu"]
    assert evaluation.aggregate["bleu"] is None
    assert evaluation.aggregate["keyword_recall"] == 1.0
    named = evaluate("bioprobench.gen", GEN, metrics=["rouge_l", "keyword_f1"])
    assert named.aggregate == {"count": 1, "rouge_l": None, "keyword_f1": pytest.approx(1.0)}
    assert named.unavailable == {"rouge_l": evaluation.unavailable["rouge_l"]}
    without(monkeypatch, "nltk", "sacrebleu")
    with pytest.raises(NotInstalled) as caught:
        evaluate("lexical", LEXICAL, metrics=["rouge_l", "bleu_1", "bleu_2", "bertscore"])
    packages = ("sacrebleu, which", "nltk, which", "pip install 'bert-score")
    assert len(caught.value.issues) == len(packages)
    for issue, package in zip(caught.value.advice, packages, strict=True):
        assert (issue.path, issue.reason) == ("options.metrics", "not_installed")
        assert package in issue.detail


def test_a_mean_of_metrics_is_never_made_of_fewer(monkeypatch):
    """A reward that cannot be computed is an error, not 0."""
    options = {"bertscore": lambda responses, references: [1.0 for _ in responses]}
    pytest.importorskip("sacrebleu")
    assert evaluate("lexical", LEXICAL, **options).aggregate["vanilla"] == pytest.approx(1.0)
    with pytest.raises(InvalidRequest, match="one finite value"):
        evaluate("lexical", LEXICAL, bertscore=lambda a, b: [0.5, 0.5])
    without(monkeypatch, "sacrebleu")
    evaluation = evaluate("lexical", LEXICAL)
    assert {"bleu_1", "bleu_4", "bleu_avg", "corpus_bleu", "vanilla"} <= evaluation.unavailable.keys()
    assert evaluation.aggregate["rouge_l"] == evaluation.aggregate["keyword_recall"] == 1.0
    assert evaluation.aggregate["corpus_bleu"] is None
    with pytest.raises(NotInstalled, match=r"config\.reward: .*sacrebleu"):
        Scorer().score(["Wash the cells."], ["Wash the cells."], task="lexical", task_options=options)
    with pytest.raises(NotInstalled, match="sacrebleu"):
        evaluate("lexical", LEXICAL, metrics=["vanilla"], **options)
    evaluation = evaluate("lexical", LEXICAL, metrics=["vanilla", "rouge_l"], **options)
    assert evaluation.aggregate == {"count": 1, "vanilla": None, "rouge_l": 1.0}
    assert "BLEU-AVG" in evaluation.unavailable["vanilla"]
    assert "sacrebleu" in evaluation.unavailable["bleu_avg"], (
        "what is missing is named though the part is not asked for"
    )


def test_models_of_sentence_transformers(monkeypatch):
    """How the package is called, without its weights; a name may be a secret, and is in no message."""
    without(monkeypatch, "sentence_transformers")
    with pytest.raises(NotInstalled, match=r"pip install 'sentence-transformers"):
        evaluate("bioprobench.gen", GEN, embedding_model="all-mpnet-base-v2", metrics=["step_recall"])
    ranked = evaluate("bioprobench.gen", GEN, keyword_model="all-MiniLM-L6-v2")
    assert "pip install 'sentence-transformers" in ranked.unavailable["keyword_f1"]

    class Model:
        def __init__(self, name: str) -> None:
            if name != "folder":
                raise OSError(f"no route to the hub for {name}")

        def encode(self, texts, show_progress_bar):
            assert show_progress_bar is False
            return [[1.0, float("Wash" in text)] for text in texts]

    module = types.ModuleType("sentence_transformers")
    vars(module).update(SentenceTransformer=Model)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    for options in ({"embedding_model": "secret/name"}, {"keyword_model": "secret/name"}):
        with pytest.raises(InvalidRequest, match="could not be loaded") as caught:
            evaluate("bioprobench.gen", GEN, **options)
        assert "secret" not in str(caught.value)
    records = [{"output": ["Wash.", "Spin."], "generated_response": "Wash twice."}]
    evaluation = evaluate(
        "bioprobench.gen", records, embedding_model="folder", metrics=["step_recall", "step_precision"]
    )
    assert (evaluation.aggregate["step_recall"], evaluation.aggregate["step_precision"]) == (1.0, 1.0)


@pytest.mark.parametrize("vectors", [[[1.0]], [[1.0], [float("nan")]], [1.0, 2.0]])
def test_embedders_that_give_other_shapes(vectors):
    records = [{"output": ["Wash.", "Spin."], "generated_response": "Wash."}]
    with pytest.raises(InvalidRequest, match="one finite vector for each text"):
        evaluate("bioprobench.gen", records, embedder=lambda texts: vectors, metrics=["step_recall"])
