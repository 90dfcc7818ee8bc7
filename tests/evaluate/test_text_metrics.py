"""Words, BLEU, ROUGE, METEOR, keywords and steps: against textbook twins and against the field's own libraries."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.evaluate.bioprobench.steps import generated_steps, matched
from assay.service.evaluate.evaluation import evaluate
from assay.service.evaluate.text import keywords as keyword_metrics
from assay.service.evaluate.text.bleu import METHOD_1, NO_SMOOTHING, sentence_bleu
from assay.service.evaluate.text.embedders import embedded, hashed_words
from assay.service.evaluate.text.meteor import meteor
from assay.service.evaluate.text.rouge import rouge_l, rouge_n, rouge_words
from assay.service.evaluate.text.stems import porter_stemmer
from assay.service.evaluate.text.word_tokens import treebank_words, word_tokenizer
from assay.service.evaluate.text.wordnet import WordNet, synonyms_by_wordnet
from tests.evaluate.word_lists import needs_sentences, needs_wordnet
from tests.reference import bioprobench as twin_steps
from tests.reference import word_overlap as twin
from tests.strategies import examples

WORDS = ["wash", "washes", "washed", "cell", "cells", "spin", "rotate", "the", "ml", "5"]
MEANINGS = [{"spin", "rotat", "rotate"}, {"cell", "chamber"}]


def word_lists(size: int = 8) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(WORDS), max_size=size)


def synonyms(word: str) -> frozenset[str]:
    return frozenset([word]).union(*(meaning for meaning in MEANINGS if word in meaning))


@given(word_lists(), word_lists(), st.integers(1, 4), st.sampled_from([METHOD_1, NO_SMOOTHING]))
@examples(80)
def test_bleu(reference, hypothesis, order, smoothing):
    value = sentence_bleu(reference, hypothesis, order, smoothing)
    assert value == pytest.approx(twin.bleu(reference, hypothesis, order, smoothing), rel=1e-9, abs=1e-300)


@pytest.mark.filterwarnings("ignore")
@given(word_lists(), word_lists())
@examples(60)
def test_bleu_is_that_of_nltk(reference, hypothesis):
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    smoothed = bleu.sentence_bleu([reference], hypothesis, (0.5, 0.5), bleu.SmoothingFunction().method1)
    assert sentence_bleu(reference, hypothesis) == pytest.approx(smoothed, abs=1e-12)
    plain = bleu.sentence_bleu([reference], hypothesis, (0.5, 0.5))
    assert sentence_bleu(reference, hypothesis, 2, NO_SMOOTHING) == pytest.approx(plain, rel=1e-9, abs=1e-300)


@given(st.lists(st.tuples(word_lists(), word_lists()), max_size=4))
@examples(60)
def test_rouge(pairs):
    assert rouge_l(pairs).tolist() == pytest.approx([twin.rouge_l(*pair) for pair in pairs], abs=1e-12)
    for reference, hypothesis in pairs:
        for n in (1, 2):
            assert rouge_n(reference, hypothesis, n) == pytest.approx(twin.rouge_n(reference, hypothesis, n), abs=1e-12)


@given(word_lists(), word_lists())
@examples(80)
def test_meteor(reference, hypothesis):
    stem = porter_stemmer()
    expected = twin.meteor(reference, hypothesis, stem, synonyms)
    assert meteor(reference, hypothesis, stem, synonyms) == pytest.approx(expected, abs=1e-12)


class Meanings:
    """`synonyms` with the interface of NLTK's WordNet reader."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def synsets(self, word: str) -> list[Meanings]:
        return [Meanings(*synonyms(word))]

    def lemmas(self) -> list[Meanings]:
        return [Meanings(name) for name in self.names]

    def name(self) -> str:
        return self.names[0]


@given(word_lists(), word_lists())
@examples(60)
def test_meteor_is_that_of_nltk(reference, hypothesis):
    theirs = pytest.importorskip("nltk.translate.meteor_score").single_meteor_score
    expected = theirs(reference, hypothesis, wordnet=Meanings())
    assert meteor(reference, hypothesis, porter_stemmer(), synonyms) == pytest.approx(expected, abs=1e-12)


TEXT = st.lists(
    st.sampled_from(
        [*WORDS, *"'\"`.?!,:;-()[]{}<>*&%$#@\n\t ", "...", "--", "''", "``", "«", "”", "‘", "–", "é", "12.5"]
    ),
    max_size=14,
).flatmap(lambda parts: st.sampled_from(["", " "]).map(lambda glue: glue.join(parts)))
CONTRACTED = [
    "can't",
    "cannot",
    "d'ye",
    "gimme",
    "gonna",
    "gotta",
    "lemme",
    "more'n",
    "wanna go",
    " 'tis",
    " 'twas",
    "n't",
]
CONTRACTED += ["'em", "'S", "they'll", "I'VE", "e.g.", "U.S.", "Dr.", "'a", "it's."]


@given(st.lists(st.one_of(TEXT, st.sampled_from(CONTRACTED)), max_size=4).map(" ".join))
@examples(150)
def test_words_of_a_sentence_are_those_of_the_installed_nltk(sentence):
    """NLTK 3.10 is what the extra installs; the older rules differ in dashes and apostrophes alone (below)."""
    nltk = pytest.importorskip("nltk.tokenize.destructive")
    assert treebank_words(sentence, "3.10") == nltk.NLTKWordTokenizer().tokenize(sentence)


@needs_sentences
@given(st.lists(st.one_of(TEXT, st.sampled_from(CONTRACTED)), max_size=6).map(" ".join))
@examples(60)
def test_words_of_a_text_are_those_of_the_installed_nltk(text):
    nltk = pytest.importorskip("nltk")
    assert word_tokenizer("3.10")(text) == nltk.word_tokenize(text)


@pytest.mark.parametrize(
    ("sentence", "older", "newer"),
    [
        ("20–30 ml", ["20–30", "ml"], ["20", "–", "30", "ml"]),
        ("a 'b' c", ["a", "'", "b", "'", "c"], ["a", "'", "b", "'", "c"]),
        ("the 'cells", ["the", "'cells"], ["the", "'", "cells"]),
        ("Spin 'them.", ["Spin", "'them", "."], ["Spin", "'", "them", "."]),
        ("wash.", ["wash", "."], ["wash", "."]),
    ],
)
def test_what_changed_in_nltk(sentence, older, newer):
    assert treebank_words(sentence, "3.9") == older
    assert treebank_words(sentence, "3.10") == newer


@given(st.lists(st.one_of(st.sampled_from([*WORDS, "µL", "x-y", "CO₂", "İ", "3.5"]), st.text(max_size=3)), max_size=8))
@examples(60)
def test_rouge_is_that_of_its_package(words):
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    reference, hypothesis = " ".join(words), " ".join(words[::-1][1:])
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score(reference, hypothesis)
    pair = rouge_words(reference, porter_stemmer()), rouge_words(hypothesis, porter_stemmer())
    ours = rouge_n(*pair, 1), rouge_n(*pair, 2), rouge_l([pair])[0]
    assert ours == pytest.approx([score.fmeasure for score in theirs.values()], abs=1e-12)


@needs_wordnet
def test_synonyms():
    look_up = synonyms_by_wordnet()
    assert {"spin", "whirl", "twirl"} <= look_up("spin")
    assert {"mice", "mouse"} <= look_up("mice")
    assert "mouse" in look_up("Mice")
    assert {"large", "big"} <= look_up("larger")
    assert look_up("zzzz") == {"zzzz"}
    assert not any("_" in name for name in look_up("cell"))


def test_a_dictionary_is_read_from_its_files(tmp_path):
    """A WordNet of two meanings, with an exception, an ending and a marked adjective."""
    nouns = ["00000000 05 n 02 cell 0 prison_cell 0 000 | a room\n", "{} 05 n 02 Mouse 0 Rodent 0 000 | an animal\n"]
    second = len(nouns[0])
    adjective = "00000000 00 s 02 big(a) 0 large 0 000 | great\n"
    files = {
        "data.noun": nouns[0] + nouns[1].format(f"{second:08}"),
        "index.noun": f"  1 licence\ncell n 1 0 1 0 00000000  \nmouse n 1 0 1 0 {second:08}  \n",
        "noun.exc": "mice mouse\n",
        "data.adj": adjective,
        "index.adj": "big a 1 0 1 0 00000000  \nlarge a 1 0 1 0 00000000  \n",
    }
    for part in ("noun", "verb", "adj", "adv"):
        for name in (f"data.{part}", f"index.{part}", f"{part}.exc"):
            (tmp_path / name).write_text(files.get(name, ""), encoding="utf-8")
    dictionary = WordNet(tmp_path)
    assert dictionary.synonyms("cells") == {"cells", "cell"}
    assert dictionary.synonyms("mice") == {"mice", "Mouse", "Rodent"}
    assert dictionary.synonyms("larger") == {"larger", "big", "large"}


@given(word_lists(5), word_lists(5))
@examples(40)
def test_steps(reference, generated):
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    near = matched(reference, generated, vectors)
    if not reference or not generated:
        assert near == (0, 0)
        return
    cosine = [[float(vectors[a] @ vectors[b]) for b in generated] for a in reference]
    shares = near[0] / len(reference), near[1] / len(generated)
    assert shares == pytest.approx(twin_steps.step_shares(cosine), abs=1e-12)


def test_steps_in_blocks(monkeypatch):
    from assay.service.evaluate.bioprobench import steps

    reference, generated = ["a", "b", "c", "a b", "d"], ["b", "e", "a b", "x"]
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    whole = matched(reference, generated, vectors)
    monkeypatch.setattr(steps, "CELLS", 6)
    assert matched(reference, generated, vectors) == whole == (3, 2)


def test_lines_are_steps():
    assert generated_steps(" 1. Wash. \n\n \t\n- Spin.\r\n") == ["1. Wash.", "- Spin."]


def test_empty_generations():
    record = {"output": ["Wash."], "generated_response": "<think>no</think>"}
    script = evaluate("bioprobench.gen", [record], embedder="hashed_words").aggregate
    strict = evaluate("bioprobench.gen", [record], embedder="hashed_words", empty_step_precision="zero").aggregate
    assert (script["step_precision"], strict["step_precision"]) == (1.0, 0.0)
    assert script["step_recall"] == strict["step_recall"] == 0.0
    assert script["rouge_l"] == script["keyword_f1"] == 0.0


def many_words(count: int) -> str:
    return " ".join(f"word{k}" for k in range(count))


def test_keywords_beyond_the_limit_need_an_embedder():
    def by_length(texts):
        return [[1.0, len(text)] for text in texts]

    assert len(keyword_metrics.keywords(many_words(64), None)) == 64
    assert keyword_metrics.keywords(many_words(65), None) is None
    chosen = keyword_metrics.keywords(many_words(100), by_length)
    assert len(chosen) == 64
    assert {f"word{k}" for k in range(10)}.isdisjoint(chosen), "the shortest are the farthest from the text"
    record = {"output": many_words(65), "generated_response": many_words(10)}
    found = evaluate("bioprobench.gen", [record], metrics=["keyword_f1"])
    assert [failure.reason for failure in found.failed] == ["keywords_need_model"]
    assert found.aggregate["keyword_f1"] is None
    ranked = evaluate("bioprobench.gen", [record], metrics=["keyword_f1"], keyword_embedder=by_length)
    assert ranked.aggregate["keyword_f1"] > 0
    assert not ranked.failed


def test_keywords_are_words_of_two_characters_that_mean_something():
    assert keyword_metrics.candidates("The 5 mL of DMEM, the Σs and a_b!") == ["a_b", "dmem", "ml", "σs"]
    precision, recall, f1 = keyword_metrics.overlap({"a", "b"}, {"a"})
    assert (precision, recall) == (1.0, 0.5)
    assert f1 == pytest.approx(2 / 3, abs=1e-7)
    assert keyword_metrics.overlap(set(), {"a"}) == (0.0, 0.0, 0.0)


def test_lexical_is_sacrebleu_s():
    bleu = pytest.importorskip("sacrebleu.metrics").BLEU
    dice = random.Random(5)
    texts = [" ".join(dice.choices(WORDS, k=dice.randrange(1, 30))) for _ in range(40)]
    records = [{"response": a, "reference": b} for a, b in pairwise(texts)]
    wanted = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "bleu_avg", "corpus_bleu", "rouge_l"]
    found = evaluate("lexical", [*records, {"response": None, "reference": "x"}], metrics=wanted)
    for n in range(1, 5):
        metric = bleu(effective_order=True, max_ngram_order=n)
        theirs = [metric.sentence_score(r["response"], [r["reference"]]).score / 100 for r in records]
        assert found.per_record[f"bleu_{n}"][:-1].tolist() == pytest.approx(theirs, abs=1e-9)
    together = bleu().corpus_score([r["response"] for r in records], [[r["reference"] for r in records]]).score
    assert found.aggregate["corpus_bleu"] == pytest.approx(together / 100, abs=1e-9)
    mean = np.mean([found.per_record[f"bleu_{n}"][:-1] for n in range(1, 5)], axis=0)
    assert found.per_record["bleu_avg"][:-1].tolist() == pytest.approx(mean.tolist())
    assert [(failure.record, failure.reason) for failure in found.failed] == [(39, "no_response")]


def test_lexical_compares_a_section():
    answer = "<think>x</think><key>Step 1: {}</key> <ORC>Step 1: Wash the cells</orc><note>n</note>"
    records = [{"response": answer, "reference": "Step 1: Wash the cells"}]
    assert evaluate("lexical", records, section="orc", metrics=["rouge_l"]).aggregate["rouge_l"] == 1.0
    assert evaluate("lexical", records, metrics=["rouge_l"]).aggregate["rouge_l"] < 1.0


def test_vanilla_is_the_mean_of_three():
    records = [{"response": "wash the cells", "reference": "wash the cells twice"}]

    def bertscore(responses, references):
        assert (responses, references) == (["wash the cells"], ["wash the cells twice"])
        return [0.9]

    found = evaluate("lexical", records, bertscore=bertscore, metrics=["vanilla", "bleu_avg", "rouge_l", "bertscore"])
    parts = [found.aggregate[name] for name in ("bleu_avg", "rouge_l", "bertscore")]
    assert found.aggregate["vanilla"] == pytest.approx(sum(parts) / 3)
    assert found.aggregate["bertscore"] == 0.9
    alone = evaluate("lexical", records, bertscore=bertscore, metrics=["vanilla"])
    assert alone.aggregate["vanilla"] == pytest.approx(found.aggregate["vanilla"])
