"""The task `scirecipe`: one row of the paper's tables, SCORE's metrics and the lexical ones together, and their AVG.

The lexical half compares the `<orc>` sections. Its numbers in the paper come from the authors' public script, which
computes some of them differently; profile `thoth` follows it, profile `paper` follows the definitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from .lexical import BLEU, bleu_metric, fill_bleu
from .lexical import TASK as LEXICAL
from .scirecipe_records import orc_of
from .score import TASK as SCORE
from .score import ScoreOptions, ScoreRecord, ScoreTask
from .task import USUAL, Advance, Evaluation, Metric, Notice, OptionalDependencies, Records, mean_of
from .text.meteor import meteor_scorer
from .text.text_pairs import (
    KEYWORD,
    KEYWORDS_NEED_MODEL,
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
from .thoth import sections_in

NINE = ("semantic_a", "order_lcs", "order_s", "order_tau", "step_m", "bleu_avg", "rouge_l", "meteor", "keyword_f1")
"""The columns of the paper's tables; AVG is their mean."""

OF_SCORE = {metric.name: metric for metric in SCORE.metrics}
BERTSCORE_METRICS = tuple(
    Metric(f"bertscore_{part.lower()}", title, f"BERTScore's {part} (needs weights).", low=-1.0, percent=True)
    for part, title in (("precision", "BERT P"), ("recall", "BERT R"), ("F1", "BERT F1"))
)
BERTSCORE = tuple(metric.name for metric in BERTSCORE_METRICS)
WORDS = (*BLEU, "bleu_avg", "rouge_1", "rouge_2", "rouge_l", "meteor", *KEYWORD, *BERTSCORE)
TITLES = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}
DESCRIPTIONS = {
    name: f"sacreBLEU's precision of order {n} (profile paper: BLEU with orders up to {n})."
    for n, name in enumerate(BLEU, start=1)
}

SCRIPT_LAYER = 24  # of roberta-large, its last
STEP_HEADER = re.compile(r"^step\s*+\d++\s*+:\s*+", re.IGNORECASE | re.MULTILINE)
NO_ORC = "no_orc"
FAILURES = {
    **SCORE.failures,
    NO_ORC: "The reference has no <orc> section to compare the answer's with.",
    TOO_LONG: "A text has too many characters, or the reference too many bytes or steps.",
    KEYWORDS_NEED_MODEL: LEXICAL.failures[KEYWORDS_NEED_MODEL],
}


def metrics_of() -> tuple[Metric, ...]:
    average = Metric(
        "avg", "AVG", "Mean of the nine columns; none unless each has a value.", per_record=False, percent=True
    )
    words = {
        m.name: replace(m, title=TITLES.get(m.name, m.title), description=DESCRIPTIONS.get(m.name, m.description))
        for m in LEXICAL.metrics
        if m.name in WORDS
    }
    metrics = OF_SCORE | words | {metric.name: metric for metric in BERTSCORE_METRICS}
    optional = [replace(metric, default=False) for name, metric in metrics.items() if name not in NINE]
    return (*(metrics[name] for name in NINE), average, *optional)


class TableRecord(ScoreRecord):
    """One answer of a model with its reference, which has an `<orc>` section."""

    orc: str | None = Field(None, description="The reference's prose, of a record as SciRecipe publishes it.")


class TableOptions(ScoreOptions, KeywordOptions, BertScoreOptions):
    """Options of the paper's tables."""

    profile: Literal["paper", "thoth"] = Field(
        "thoth", description="Follow the authors' public script, which computed the tables, or the definitions."
    )
    nltk: NltkRules = Field("3.9", description="Profile paper: rules for splitting words for METEOR.")


class SciRecipeTask(ScoreTask):
    name = "scirecipe"
    description = "The paper's tables (arXiv 2510.15600): nine metrics of plan and prose, and AVG."
    record = TableRecord
    options = TableOptions
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {**LEXICAL.libraries, "avg": ("sacrebleu", "nltk")}
    metrics = metrics_of()
    failures = FAILURES

    def requested(self, options: Any) -> tuple[Metric, ...]:
        metrics = options.metrics or [USUAL]
        if options.bertscore_model is not None and USUAL in metrics:
            options = options.model_copy(update={"metrics": [*metrics, *BERTSCORE]})
        return super().requested(options)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        dependencies = OptionalDependencies(self, options, "avg", NINE)
        of_plan = [name for name in OF_SCORE if name in dependencies.requested]
        evaluation = Evaluation({})
        if of_plan:
            limited = ScoreOptions(profile=options.profile, think_prefilled=options.think_prefilled, metrics=of_plan)
            evaluation = SCORE.evaluate(records, limited, advance)
        prose = compare_prose(records, options, dependencies, advance)
        evaluation.failed = sorted([*evaluation.failed, *prose.failed])
        columns = evaluation.columns = evaluation.columns | prose.columns
        evaluation.unavailable = dependencies.unavailable
        evaluation.warnings = keyword_warnings(prose.failed, len(records))
        if dependencies.wants("avg"):
            evaluation.corpus = lambda rows: {"avg": average(columns, rows)}
            evaluation.over = {"avg": [columns[name] for name in NINE]}
            missing = [m.title for m in self.metrics if m.name in NINE and m.name in evaluation.unavailable]
            if missing:
                evaluation.unavailable["avg"] = Notice(
                    f"It needs all nine columns, and there is no {' and no '.join(missing)}."
                )
        return evaluation


def average(columns: Mapping[str, np.ndarray], rows: np.ndarray) -> float | None:
    means = [mean_of(columns[name][rows]) for name in NINE]
    present = [mean for mean in means if mean is not None]
    return sum(present) / len(present) if len(present) == len(means) else None


def compare_prose(records: Records, options: Any, dependencies: OptionalDependencies, advance: Advance) -> Evaluation:
    """Compute the wanted lexical metrics of the two `<orc>` sections; without one in the answer they are 0."""
    columns = {name: np.full(len(records), np.nan) for name in WORDS}
    if not dependencies.wants(*WORDS):
        return Evaluation(columns)
    opening = "<think>" if options.think_prefilled else ""
    pairs, failed = comparable(((orc_of(record), opening + record["response"]) for record in records), NO_ORC)
    present = []
    for row, reference, response in pairs:
        sections = sections_in(response)
        pair = TextPair(row, reference.strip(), sections.orc.strip() if sections else "")
        if pair.reference and pair.generated:
            present.append(pair)
    empty = sorted({pair.row for pair in pairs} - {pair.row for pair in present})
    for column in columns.values():
        column[empty] = 0.0
    texts = TextPairs(present, columns, dependencies, advance)
    texts.fill_rouge()
    if options.profile == "thoth":
        fill_as_the_script(texts)
    else:
        bleu = dependencies.load(bleu_metric, *BLEU, "bleu_avg")
        if bleu is not None:
            fill_bleu(texts, bleu)
        texts.fill_nltk(options.nltk)
    failed += texts.fill_keywords(options)
    fill_bertscore(texts, options)
    for name in dependencies.unavailable:
        columns[name][empty] = np.nan
    return Evaluation(columns, failed)


def fill_as_the_script(texts: TextPairs) -> None:
    """Fill BLEU-n with sacreBLEU's precision of order n, and METEOR over the pieces between whitespace."""
    columns = texts.columns
    bleu = texts.dependencies.load(bleu_metric, *BLEU, "bleu_avg")
    meteor = texts.dependencies.load(meteor_scorer, "meteor")
    for row, reference, generated in texts if bleu or meteor else ():
        if bleu is not None:
            precisions = bleu.sentence_score(generated, [reference]).precisions
            for name, precision in zip(BLEU, precisions, strict=True):
                columns[name][row] = precision / 100
            columns["bleu_avg"][row] = sum(columns[name][row] for name in BLEU) / len(BLEU)
        if meteor is not None:
            columns["meteor"][row] = meteor(reference.lower().split(), generated.lower().split())


def fill_bertscore(texts: TextPairs, options: Any) -> None:
    """Fill BERTScore: by profile thoth of layer 24 without the headers of steps, else as the task `lexical` does."""
    script = options.profile == "thoth"
    model = texts.dependencies.load(partial(bertscore_model, options, SCRIPT_LAYER if script else None), *BERTSCORE)
    if model is None:
        return
    pairs = [TextPair(row, *map(without_headers, both)) for row, *both in texts.pairs] if script else texts.pairs
    rows = [pair.row for pair in pairs]
    for name, values in zip(BERTSCORE, scores_of(model, pairs), strict=True):
        texts.columns[name][rows] = values


def without_headers(text: str) -> str:
    return STEP_HEADER.sub("", text)


TASK = SciRecipeTask()
