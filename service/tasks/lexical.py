"""The lexical metrics of the paper's tables, and the "Vanilla" reward that it compares SCORE with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ..errors import InvalidRequest, Issue
from .task import (
    COMMON_REASONS,
    OK,
    Advance,
    Evaluation,
    Metric,
    Notice,
    OptionalDependencies,
    Records,
    Task,
    TaskRecord,
    TaskRewards,
    ignore_progress,
    import_optional,
    not_installed,
)
from .text.text_pairs import FAILURES as PAIR_FAILURES
from .text.text_pairs import (
    LIBRARIES,
    MAX_CACHED_REFERENCES,
    MAX_LENGTH,
    METEOR_METRIC,
    ROUGE_METRICS,
    TOO_LONG,
    BertScoreOptions,
    KeywordOptions,
    TextPair,
    TextPairs,
    bertscore_model,
    comparable,
    keyword_warnings,
    scores_of,
)
from .text.tokens import NltkRules

BertScore = Callable[[list[str], list[str]], Any]

ORDERS = 4
BLEU = tuple(f"bleu_{n}" for n in range(1, ORDERS + 1))
VANILLA = ("bleu_avg", "rouge_l", "bertscore")
NO_RESPONSE = "no_response"
FAILURES = {NO_RESPONSE: "The record has no response.", **PAIR_FAILURES}
REASONS = {OK: "The response was compared.", **COMMON_REASONS, TOO_LONG: FAILURES[TOO_LONG]}


class LexicalRecord(TaskRecord):
    """A response beside its reference, both as texts."""

    reference: str = Field(description="The text to compare with.")
    response: str | None = Field(description="The model's answer; null counts as failed.")


class LexicalOptions(KeywordOptions, BertScoreOptions):
    """Options of the lexical metrics."""

    section: Literal["key", "orc", "note"] | None = Field(
        None, description="Compare only this section of Sketch-and-Fill answers; the whole text if there is none."
    )
    bleu_tokens: Literal["13a", "intl", "char", "none"] = Field("13a", description="sacreBLEU's tokenizer.")
    nltk: NltkRules = Field("3.9", description="Rules for splitting words for METEOR: NLTK 3.9 or 3.10.")
    bertscore: SkipJsonSchema[BertScore | None] = Field(None, description="In Python only: computes BERTScore.")
    reward: Literal["vanilla", "bleu_avg", "rouge_l", "meteor", "bertscore"] = Field(
        "vanilla", description="Rewards: this metric of the response."
    )


class Lexical(Task):
    name = "lexical"
    description = "BLEU, ROUGE, METEOR, keywords and BERTScore of a response against its reference, each from 0 to 1."
    record = LexicalRecord
    options = LexicalOptions
    metrics = (
        *(
            Metric(name, f"BLEU-{n}", f"sacreBLEU's sentence BLEU with orders up to {n}.", percent=True)
            for n, name in enumerate(BLEU, start=1)
        ),
        Metric("bleu_avg", "BLEU-AVG", "Mean of BLEU-1 to BLEU-4.", percent=True),
        Metric("corpus_bleu", "BLEU", "sacreBLEU's BLEU-4 of all responses together.", per_record=False, percent=True),
        *ROUGE_METRICS,
        METEOR_METRIC,
        Metric(
            "keyword_precision",
            "KW P",
            "Share of the response's 64 best keywords that are among the reference's.",
            percent=True,
        ),
        Metric(
            "keyword_recall",
            "KW R",
            "Share of the reference's 64 best keywords that are among the response's.",
            percent=True,
        ),
        Metric("keyword_f1", "KW-F1", "Harmonic mean of keyword precision and recall.", percent=True),
        Metric("bertscore", "BERTScore", "BERTScore's F1 (needs weights).", low=-1.0, percent=True),
        Metric(
            "vanilla",
            "Vanilla",
            "Mean of BLEU-AVG, ROUGE-L and BERTScore: the reward that the paper compares with.",
            low=-1.0,
            percent=True,
        ),
        Metric("failed", "Failed", "Share of records without a response.", percent=True, less_is_better=True),
    )
    failures = FAILURES
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = LIBRARIES | {
        **dict.fromkeys((*BLEU, "bleu_avg", "corpus_bleu"), ("sacrebleu",)),
        "vanilla": ("sacrebleu", "nltk"),
        "bertscore_model": ("bert-score",),
    }
    response = "response"
    reward = "The mean of BLEU-AVG, ROUGE-L and BERTScore (`reward` chooses one metric), at most 1."
    reasons = REASONS
    compares = True
    text_reference = "reference"
    components = ("text_similarity",)
    passed_if = ("text_similarity",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        columns = {metric.name: np.full(len(records), np.nan) for metric in self.metrics if metric.per_record}
        pairs, failed = comparable(((record["reference"], record["response"]) for record in records), NO_RESPONSE)
        columns["failed"] = np.zeros(len(records))
        columns["failed"][[failure.record for failure in failed if failure.reason == NO_RESPONSE]] = 1.0
        pairs = [TextPair(row, *(section_of(text, options.section) for text in texts)) for row, *texts in pairs]
        dependencies = OptionalDependencies(self, options, "vanilla", VANILLA)
        texts = TextPairs(pairs, columns, dependencies, advance)
        bleu = dependencies.load(partial(bleu_metric, options.bleu_tokens), *BLEU, "bleu_avg", "corpus_bleu")
        counts = fill_bleu(texts, bleu) if bleu is not None else np.zeros(0)
        texts.fill_rouge()
        texts.fill_nltk(options.nltk)
        failed += texts.fill_keywords(options)
        bertscore = dependencies.load(lambda: bertscore_of(options), "bertscore")
        if bertscore is not None and pairs:
            columns["bertscore"][[pair.row for pair in pairs]] = bertscore(pairs)
        unavailable = dependencies.unavailable
        columns["vanilla"] = np.mean([columns[name] for name in VANILLA], axis=0)
        missing = [metric.title for metric in self.metrics if metric.name in VANILLA and metric.name in unavailable]
        if missing and dependencies.wants("vanilla"):
            unavailable["vanilla"] = Notice(
                f"It is a mean of three metrics, and there is no {' and no '.join(missing)}."
            )
        advance(len(records))

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            read = rows[~np.isnan(columns["bleu_avg"][rows])]
            return {"corpus_bleu": bleu_of(bleu, counts[read].sum(axis=0)) if len(read) else None}

        over = {"corpus_bleu": [columns["bleu_avg"]]}
        warnings = keyword_warnings(failed, len(records))
        return Evaluation(columns, sorted(failed), corpus, over, unavailable, warnings=warnings)

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        chosen = options.model_copy(update={"metrics": [options.reward]})
        if options.bertscore_model is None:  # what is missing is known before rows are computed; weights load slowly
            check_available(self.evaluate((), chosen, ignore_progress), options.reward)
        evaluation = self.evaluate(records, chosen, advance)
        check_available(evaluation, options.reward)
        rewards = np.nan_to_num(evaluation.columns[options.reward], nan=0.0)
        return TaskRewards(rewards, evaluation.failed, {"text_similarity": rewards})

    def record_in(self, text: str) -> dict[str, Any] | None:
        """Return a record that a text is as JSON; any other JSON is a text to compare with."""
        record = super().record_in(text)
        return record if record is not None and "reference" in record else None

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        if record is not None and len(record["reference"]) > MAX_LENGTH:
            return None, f"it has more than {MAX_LENGTH:,} characters"
        return record, wrong


def check_available(evaluation: Evaluation, metric: str) -> None:
    """Raise NotInstalled if the metric of the reward cannot be computed."""
    if metric in evaluation.unavailable:
        text, remedy = next(iter(evaluation.unavailable.values()))
        detail = f"choose another `reward`, such as rouge_l: {metric} cannot be computed, since {text}"
        raise not_installed("config.reward", detail, remedy)


def section_of(text: str, section: str | None) -> str:
    """Return the text between the section's tags; the whole text without them."""
    if section is None:
        return text
    opening = re.search(f"<{section}>", text, re.IGNORECASE)
    closing = re.compile(f"</{section}>", re.IGNORECASE).search(text, opening.end()) if opening else None
    return text[opening.end() : closing.start()].strip() if opening and closing else text


def bleu_metric(tokens: str = "13a") -> Any:
    library = import_optional("sacrebleu.metrics", "lexical", "BLEU")
    metric = library.BLEU(tokenize=tokens, effective_order=True, max_ngram_order=ORDERS)
    extract = getattr(metric, "_extract_reference_info", None)
    if extract is not None:  # sacreBLEU counts the n-grams of a reference again for each response
        counted = lru_cache(MAX_CACHED_REFERENCES)(lambda *texts: extract(texts))
        metric._extract_reference_info = lambda texts: counted(*texts)
    return metric


def fill_bleu(texts: TextPairs, metric: Any) -> np.ndarray:
    """Fill `bleu_1` to `bleu_4` and their mean; return the counts, int64 (n, 10): lengths, matches and n-grams."""
    columns = texts.columns
    counts = np.zeros((len(columns["bleu_avg"]), 2 + 2 * ORDERS), np.int64)
    for row, reference, generated in texts:
        score = metric.sentence_score(generated, [reference])
        counts[row] = score.sys_len, score.ref_len, *score.counts, *score.totals
        for order, name in enumerate(BLEU, start=1):
            columns[name][row] = bleu_of(metric, counts[row], order, of_sentence=True)
    columns["bleu_avg"][:] = np.mean([columns[name] for name in BLEU], axis=0)
    return counts


def bleu_of(metric: Any, counts: np.ndarray, order: int = ORDERS, of_sentence: bool = False) -> float:
    ours, theirs, *by_order = counts.tolist()
    score = metric.compute_bleu(
        correct=by_order[:order],
        total=by_order[ORDERS : ORDERS + order],
        sys_len=ours,
        ref_len=theirs,
        smooth_method="exp",
        effective_order=of_sentence,
        max_ngram_order=order,
    )
    return float(score.score) / 100


def bertscore_of(options: LexicalOptions) -> Callable[[Sequence[TextPair]], np.ndarray]:
    if options.bertscore is not None:
        return partial(values_of, options.bertscore)
    model = bertscore_model(options)
    return lambda pairs: scores_of(model, pairs)[2]


def values_of(bertscore: BertScore, pairs: Sequence[TextPair]) -> np.ndarray:
    values = np.asarray(bertscore([pair.generated for pair in pairs], [pair.reference for pair in pairs]), np.float64)
    if values.shape != (len(pairs),) or not np.isfinite(values).all():
        raise InvalidRequest([Issue("options.bertscore", "bad_values", "must give one finite value for each text")])
    return values


TASK = Lexical()
