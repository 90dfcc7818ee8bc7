"""Metrics of pairs of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from ...errors import InvalidRequest, Issue
from ...wording import install_command
from ..task import (
    LOCAL,
    Advance,
    Metric,
    Notice,
    OptionalDependencies,
    RecordFailure,
    TaskOptions,
    import_optional,
    not_installed,
)
from .embedders import Embedder, EmbedderOption, chosen_embedder, embedded, loading_weights
from .meteor import meteor_scorer
from .tokens import (
    STOP_WORDS,
    NltkRules,
    ngrams,
    pieces,
    porter_stemmer,
    precision_and_recall,
    rouge_l,
    rouge_n,
    rouge_words,
    sentence_bleu,
    word_tokenizer,
)

MAX_LENGTH = 262_144
TOO_LONG = "too_long"
KEYWORDS_NEED_MODEL = "keywords_need_model"
ROUGE = ("rouge_1", "rouge_2", "rouge_l")
KEYWORD = ("keyword_precision", "keyword_recall", "keyword_f1")
ADVANCE_EVERY = 64
MAX_CACHED_REFERENCES = 32
"""Responses to one reference are mostly adjacent; words take ten times the memory of their text."""
MAX_CHARACTERS = 1 << 20  # of the pairs in one call of the kernel: words take ten times as much memory
MAX_KEYWORDS = 64
WORD = re.compile(r"\b\w\w+\b")
EPSILON = 1e-8
"""A term of the public script's denominator of F1: equal sets have 0.999999995."""

FAILURES = {
    TOO_LONG: f"A text has more than {MAX_LENGTH:,} characters.",
    KEYWORDS_NEED_MODEL: "A text has more than 64 candidates for keywords, and no model was named that ranks them "
    "(option keyword_model).",
}
METEOR_METRIC = Metric("meteor", "METEOR", "METEOR with Porter's stems and WordNet's synonyms.", percent=True)
ROUGE_METRICS = (
    Metric("rouge_1", "R-1", "F-measure of stemmed words.", percent=True),
    Metric("rouge_2", "R-2", "F-measure of pairs of stemmed words.", percent=True),
    Metric("rouge_l", "R-L", "F-measure of the longest common subsequence of stemmed words.", percent=True),
)


LIBRARIES = {
    **dict.fromkeys((*ROUGE, "meteor"), ("nltk",)),
    **dict.fromkeys(("keyword_model", "embedding_model"), ("sentence-transformers",)),
}


class KeywordOptions(TaskOptions):
    """Options of the embedder that ranks keywords."""

    keyword_embedder: EmbedderOption = Field(
        None,
        description="For keywords of texts with more than 64 candidates: `hashed_words`, or in Python any function of "
        "texts to vectors.",
    )
    keyword_model: str | None = Field(
        None,
        description="For the same: a model of Sentence Transformers by name or folder; the public scripts': "
        "all-MiniLM-L6-v2.",
        json_schema_extra=LOCAL,
    )


class TextPair(NamedTuple):
    row: int
    reference: str
    generated: str


def comparable(
    texts: Iterable[tuple[str | None, str | None]], reason_of_none: str
) -> tuple[list[TextPair], list[RecordFailure]]:
    pairs, failed = [], []
    for row, (reference, response) in enumerate(texts):
        if reference is None or response is None:
            failed.append(RecordFailure(row, reason_of_none, of_response=response is None))
        elif max(len(response), len(reference)) > MAX_LENGTH:
            failed.append(RecordFailure(row, TOO_LONG, of_response=len(response) > MAX_LENGTH))
        else:
            pairs.append(TextPair(row, reference, response))
    return pairs, failed


@dataclass
class TextPairs:
    pairs: Sequence[TextPair]
    columns: Mapping[str, np.ndarray]
    dependencies: OptionalDependencies
    advance: Advance

    def __iter__(self) -> Iterator[TextPair]:
        for done, pair in enumerate(self.pairs, start=1):
            yield pair
            if done % ADVANCE_EVERY == 0:
                self.advance(pair.row)

    def fill_nltk(self, rules: NltkRules) -> None:
        """Fill `bleu` (BLEU-2, smoothing method 1) and `meteor`, over lower-case words by NLTK's rules."""
        split = self.dependencies.load(partial(word_tokenizer, rules), "bleu", "meteor")
        meteor = self.dependencies.load(meteor_scorer, "meteor")
        if split is None:
            return
        words = lru_cache(MAX_CACHED_REFERENCES)(lambda text: split(text.lower()))
        for row, reference, generated in self:
            theirs, ours = words(reference), split(generated.lower())
            if self.dependencies.wants("bleu"):
                self.columns["bleu"][row] = sentence_bleu(theirs, ours)
            if meteor is not None and self.dependencies.wants("meteor"):
                self.columns["meteor"][row] = meteor(theirs, ours)

    def fill_rouge(self) -> None:
        stem = self.dependencies.load(porter_stemmer, *ROUGE)
        if stem is None:
            return
        words = lru_cache(MAX_CACHED_REFERENCES)(lambda text: rouge_words(text, stem))
        counted = lru_cache(2 * MAX_CACHED_REFERENCES)(lambda text, n: ngrams(words(text), n))
        for piece in pieces([len(pair.reference) + len(pair.generated) for pair in self.pairs], MAX_CHARACTERS):
            some = self.pairs[piece]
            rows = [pair.row for pair in some]
            split = [(words(pair.reference), rouge_words(pair.generated, stem)) for pair in some]
            for n in (1, 2):
                self.columns[f"rouge_{n}"][rows] = [
                    rouge_n(counted(pair.reference, n), ngrams(ours, n))
                    for pair, (_, ours) in zip(some, split, strict=True)
                ]
            self.columns["rouge_l"][rows] = rouge_l(split)
            self.advance(piece.stop)

    def fill_keywords(self, options: KeywordOptions, epsilon: float = EPSILON) -> list[RecordFailure]:
        if not self.dependencies.wants(*KEYWORD):
            return []
        load = partial(chosen_embedder, options.keyword_model, options.keyword_embedder, "options.keyword_model")
        embedder = self.dependencies.load(load, *KEYWORD)
        if not self.dependencies.wants(*KEYWORD):
            return []
        keywords_of = lru_cache(MAX_CACHED_REFERENCES)(lambda text: keywords(text, embedder))
        failed = []
        for row, reference, generated in self:
            theirs, ours = keywords_of(reference), keywords(generated, embedder)
            if theirs is None or ours is None:
                failed.append(RecordFailure(row, KEYWORDS_NEED_MODEL))
                continue
            for name, value in zip(KEYWORD, overlap(theirs, ours, epsilon), strict=True):
                self.columns[name][row] = value
        return failed


def keyword_warnings(failed: Sequence[RecordFailure], count: int) -> list[Notice]:
    lacking = sum(failure.reason == KEYWORDS_NEED_MODEL for failure in failed)
    if not lacking:
        return []
    need = f"have no metrics of keywords, since a text has more than {MAX_KEYWORDS} different words"
    what = f"{install_command('embeddings')}, then pass --option keyword_model=all-MiniLM-L6-v2"
    return [Notice(f"{lacking:,} of {count:,} records {need}, which a model must rank", what)]


def candidates(text: str) -> list[str]:
    return sorted(set(WORD.findall(text.lower())) - STOP_WORDS)


def keywords(text: str, embedder: Embedder | None) -> set[str] | None:
    """Return the words of a text that KeyBERT ranks highest; None if it has more than 64 candidates and no embedder."""
    words = candidates(text)
    if len(words) <= MAX_KEYWORDS:
        return set(words)
    if embedder is None:
        return None
    vectors = embedded(embedder, [text, *words], "options.keyword_embedder")
    ranks = np.array([vectors[word] for word in words]) @ vectors[text]
    return {words[k] for k in ranks.argsort()[-MAX_KEYWORDS:]}


def overlap(reference: set[str], generated: set[str], epsilon: float = EPSILON) -> tuple[float, float, float]:
    return precision_and_recall(len(reference & generated), len(generated), len(reference), epsilon)


BertScoreModel = Callable[[list[str], list[str]], Sequence[Any]]
"""Takes n responses and n references, and returns precision, recall and F1 of each, three times n values."""

PATH = "options.bertscore_model"


class BertScoreOptions(TaskOptions):
    """Options of BERTScore's model."""

    bertscore_model: str | None = Field(
        None, description="The model for BERTScore by name (roberta-large) or folder.", json_schema_extra=LOCAL
    )
    bertscore_layer: int | None = Field(
        None,
        ge=0,
        description="The layer whose vectors BERTScore compares; if null, the package's choice for a model that it "
        "knows by name, or 24 in task scirecipe with profile thoth.",
    )


def bertscore_model(options: Any, default_layer: int | None = None) -> BertScoreModel:
    """Load the model that the options name.

    Raises NotInstalled if none is named or the package is missing, and InvalidRequest without weights or a layer.
    """
    name, layer = options.bertscore_model, options.bertscore_layer
    if name is None:
        naming = "then pass --option bertscore_model=roberta-large, or the folder of its weights"
        raise not_installed(PATH, "BERTScore needs a model", f"{install_command('bertscore')}, {naming}")
    library = import_optional("bert_score", "bertscore", "BERTScore", PATH)
    layer = default_layer if layer is None else layer
    if layer is None and name not in library.utils.model2layers:
        detail = "is needed for a model that bert-score does not know by name; for roberta-large the package uses 17"
        raise InvalidRequest([Issue("options.bertscore_layer", "missing_option", detail)])
    with loading_weights(PATH):
        model = library.BERTScorer(model_type=name, num_layers=layer)
    score: BertScoreModel = model.score
    return score


def scores_of(model: BertScoreModel, pairs: Sequence[TextPair]) -> np.ndarray:
    """Return precision, recall and F1 of each pair, float64 (3, n); 0 if one of its texts is empty."""
    scores = np.zeros((3, len(pairs)))
    present = [row for row, pair in enumerate(pairs) if pair.reference.strip() and pair.generated.strip()]
    if present:
        columns = model([pairs[row].generated for row in present], [pairs[row].reference for row in present])
        scores[:, present] = [np.asarray(values, np.float64) for values in columns]
    return scores
