"""Words, BLEU, ROUGE, METEOR, keywords and steps: against textbook twins and against the field's own libraries."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.text import meteor, text_pairs
from assay.service.tasks.text.tokens import (
    METHOD_1,
    NO_SMOOTHING,
    ngrams,
    porter_stemmer,
    rouge_l,
    rouge_n,
    rouge_words,
    sentence_bleu,
    treebank_words,
    word_tokenizer,
)
from tests.reference import word_overlap as twin
from tests.strategies import examples

WORDS = ["wash", "washes", "washed", "cell", "cells", "spin", "rotate", "the", "ml", "5"]


def word_lists(size: int = 8) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(WORDS), max_size=size)


@pytest.mark.filterwarnings("ignore")
@given(word_lists(), word_lists(), st.integers(1, 4), st.sampled_from([METHOD_1, NO_SMOOTHING]))
@examples(80)
def test_bleu_is_its_twin_and_that_of_nltk(reference, hypothesis, order, smoothing):
    value = sentence_bleu(reference, hypothesis, order, smoothing)
    assert value == pytest.approx(twin.bleu(reference, hypothesis, order, smoothing), rel=1e-9, abs=1e-300)
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    smoothed = bleu.sentence_bleu([reference], hypothesis, (0.5, 0.5), bleu.SmoothingFunction().method1)
    assert sentence_bleu(reference, hypothesis) == pytest.approx(smoothed, abs=1e-12)
    plain = bleu.sentence_bleu([reference], hypothesis, (0.5, 0.5))
    assert sentence_bleu(reference, hypothesis, 2, NO_SMOOTHING) == pytest.approx(plain, rel=1e-9, abs=1e-300)


@given(st.lists(st.tuples(word_lists(), word_lists()), max_size=4))
@examples(60)
def test_rouge(pairs):
    assert rouge_l(pairs) == pytest.approx([twin.rouge_l(*pair) for pair in pairs], abs=1e-12)
    for reference, hypothesis in pairs:
        for n in (1, 2):
            assert rouge_n(ngrams(reference, n), ngrams(hypothesis, n)) == pytest.approx(
                twin.rouge_n(reference, hypothesis, n), abs=1e-12
            )


def of_the_system(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let only these folders of the system have a WordNet."""
    monkeypatch.setattr("nltk.data.path", [])
    monkeypatch.setattr(meteor, "FOLDERS", folders)


def names_of(synonyms: meteor.Synonyms, word: str) -> set[str]:
    return {lemma.name() for synset in synonyms.synsets(word) for lemma in synset.lemmas()}


@pytest.mark.parametrize("form", ["folder", "zip", "system"])
def test_a_dictionary_is_read_from_its_files(small_wordnet, monkeypatch, form):
    """Also without `lexnames`, which NLTK wants first: Debian's package leaves it out."""
    if form == "zip":
        shutil.make_archive(str(small_wordnet), "zip", small_wordnet.parent, small_wordnet.name)
        shutil.rmtree(small_wordnet)
    if form == "system":
        (small_wordnet / "lexnames").unlink()
        of_the_system(monkeypatch, small_wordnet / "missing", small_wordnet)
    dictionary = meteor.synonyms_by_wordnet()
    assert names_of(dictionary, "cells") == {"cell"}
    assert names_of(dictionary, "mice") == names_of(dictionary, "Mice") == {"Mouse", "Rodent"}
    assert names_of(dictionary, "taller") == {"big", "tall"}
    assert names_of(dictionary, "zzz") == set()
    if form == "system":
        assert [synset.lexname() for synset in dictionary._reader.synsets("mice")] == ["noun.animal"]
        assert [synset.lexname() for synset in dictionary._reader.synsets("tall")] == ["adj.all"]


def test_meteor(small_wordnet):
    """Words match exactly, then by stems, then by synonyms, each stage from the end of both texts."""
    score = meteor.meteor_scorer()
    words = st.lists(
        st.sampled_from(["wash", "washes", "washed", "cell", "cells", "big", "tall", "taller", "5"]), max_size=8
    )

    @given(words, words)
    @examples(80)
    def is_its_twin(reference, hypothesis):
        expected = twin.meteor(reference, hypothesis, porter_stemmer(), lambda word: {word, *names_of(known, word)})
        assert score(reference, hypothesis) == pytest.approx(expected, abs=1e-12)

    known = meteor.synonyms_by_wordnet()
    is_its_twin()
    assert score(["big"], ["tall"]) == 0.5
    assert score([], ["tall"]) == score(["big"], []) == 0.0


def test_nltk_still_has_the_private_names(small_wordnet):
    """`_synset_offset_cache` of WordNetCorpusReader: without it the service would keep every meaning ever read."""
    reader = meteor.synonyms_by_wordnet()._reader
    library = pytest.importorskip("nltk.corpus.reader.wordnet")
    own = library.WordNetCorpusReader.__init__.__code__.co_names
    assert "_synset_offset_cache" in own
    assert len(reader.synsets("mice")) == 1
    assert not any(reader._synset_offset_cache.values())
    # `_re_non_word_chars` of PunktLanguageVars: without it both rules would split sentences as the installed NLTK.
    variables = pytest.importorskip("nltk.tokenize.punkt").PunktLanguageVars
    assert isinstance(variables._re_non_word_chars, str | property)
    for method in (variables.period_context_re, variables._word_tokenizer_re):
        assert "_re_non_word_chars" in method.__code__.co_names


CONTRACTIONS = "can't cannot d'ye gimme gonna gotta lemme more'n n't 'em 'S they'll I'VE e.g. U.S. Dr. 'a it's."
CONTRACTED = [*CONTRACTIONS.split(), "wanna go", " 'tis", " 'twas"]
MARKS = ["...", "--", "''", "``", "«", "”", "‘", "–", "é", "12.5", *"'\"`.?!,:;-()[]{}<>*&%$#@\n\t "]
TEXT = st.lists(st.sampled_from([*WORDS, *MARKS]), max_size=14).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda glue: glue.join(parts))
)


@given(st.lists(st.one_of(TEXT, st.sampled_from(CONTRACTED)), max_size=4).map(" ".join))
@examples(150)
def test_words_of_a_sentence_are_those_of_the_installed_nltk(sentence):
    """NLTK 3.10 is what the extra installs; the older rules differ in dashes and apostrophes alone (below)."""
    nltk = pytest.importorskip("nltk.tokenize.destructive")
    assert treebank_words(sentence, "3.10") == nltk.NLTKWordTokenizer().tokenize(sentence)


@pytest.mark.word_lists
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
    ours = *(rouge_n(*(ngrams(words, n) for words in pair)) for n in (1, 2)), rouge_l([pair])[0]
    assert ours == pytest.approx([score.fmeasure for score in theirs.values()], abs=1e-12)


def test_keywords():
    assert text_pairs.candidates("The 5 mL of DMEM, the Σs and a_b!") == ["a_b", "dmem", "ml", "σs"]
    precision, recall, f1 = text_pairs.overlap({"a", "b"}, {"a"})
    assert (precision, recall) == (1.0, 0.5)
    assert f1 == pytest.approx(2 / 3, abs=1e-7)
    assert text_pairs.overlap(set(), {"a"}) == (0.0, 0.0, 0.0)

    def by_length(texts):
        return [[1.0, len(text)] for text in texts]

    def many_words(count):
        return " ".join(f"word{k}" for k in range(count))

    assert len(text_pairs.keywords(many_words(64), None)) == 64
    assert text_pairs.keywords(many_words(65), None) is None
    chosen = text_pairs.keywords(many_words(100), by_length)
    assert len(chosen) == 64
    assert {f"word{k}" for k in range(10)}.isdisjoint(chosen), "the shortest are the farthest from the text"
    record = {"output": many_words(65), "generated_response": many_words(10)}
    evaluation = evaluate("bioprobench.gen", [record], metrics=["keyword_f1"])
    assert [failure.reason for failure in evaluation.failed] == ["keywords_need_model"]
    assert len(evaluation.warnings) == 1
    assert evaluation.aggregate["keyword_f1"] is None
    ranked = evaluate("bioprobench.gen", [record], metrics=["keyword_f1"], keyword_embedder=by_length)
    assert ranked.aggregate["keyword_f1"] > 0


def test_lexical_is_sacrebleu_s():
    bleu = pytest.importorskip("sacrebleu.metrics").BLEU
    dice = random.Random(5)
    texts = [" ".join(dice.choices(WORDS, k=dice.randrange(1, 30))) for _ in range(40)]
    records = [{"response": a, "reference": b} for a, b in pairwise(texts)]
    wanted = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "bleu_avg", "corpus_bleu", "rouge_l"]
    evaluation = evaluate("lexical", [*records, {"response": None, "reference": "x"}], metrics=wanted)
    for n in range(1, 5):
        metric = bleu(effective_order=True, max_ngram_order=n)
        theirs = [metric.sentence_score(r["response"], [r["reference"]]).score / 100 for r in records]
        assert evaluation.per_record[f"bleu_{n}"][:-1].tolist() == pytest.approx(theirs, abs=1e-9)
    together = bleu().corpus_score([r["response"] for r in records], [[r["reference"] for r in records]]).score
    assert evaluation.aggregate["corpus_bleu"] == pytest.approx(together / 100, abs=1e-9)
    mean = np.mean([evaluation.per_record[f"bleu_{n}"][:-1] for n in range(1, 5)], axis=0)
    assert evaluation.per_record["bleu_avg"][:-1].tolist() == pytest.approx(mean.tolist())
    assert [(failure.record, failure.reason) for failure in evaluation.failed] == [(39, "no_response")]


def test_vanilla_is_the_mean_of_three_and_a_section_may_be_compared():
    records = [{"response": "wash the cells", "reference": "wash the cells twice"}]

    def bertscore(responses, references):
        assert (responses, references) == (["wash the cells"], ["wash the cells twice"])
        return [0.9]

    evaluation = evaluate(
        "lexical", records, bertscore=bertscore, metrics=["vanilla", "bleu_avg", "rouge_l", "bertscore"]
    )
    parts = [evaluation.aggregate[name] for name in ("bleu_avg", "rouge_l", "bertscore")]
    assert evaluation.aggregate["vanilla"] == pytest.approx(sum(parts) / 3)
    assert evaluation.aggregate["bertscore"] == 0.9
    answer = "<think>x</think><key>Step 1: {}</key> <ORC>Step 1: Wash the cells</orc><note>n</note>"
    records = [{"response": answer, "reference": "Step 1: Wash the cells"}]
    whole, section = (
        evaluate("lexical", records, metrics=["rouge_l"], **options) for options in ({}, {"section": "orc"})
    )
    assert whole.aggregate["rouge_l"] < section.aggregate["rouge_l"] == 1.0
