"""The task `scirecipe`: one row of the paper's tables, SCORE's metrics and the lexical ones together, and their AVG.

The lexical half compares the `<orc>` sections. Its numbers in the paper come from the authors' public script, which
computes some of them differently; profile `thoth` follows it, profile `paper` follows the definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from .lexical import TASK as LEXICAL
from .optional_dependencies import OptionalDependencies, import_optional
from .scirecipe import orc_of
from .score import FAILURES as SCORE_FAILURES
from .score import TASK as SCORE
from .score import ScoreOptions, ScoreRecord
from .task import USUAL, Advance, Evaluation, Failure, Metric, Options, Record, Records, Task, mean_of
from .text.meteor import meteor_scorer
from .text.text_pairs import (
    KEYWORD,
    KEYWORDS_NEED_MODEL,
    MAX_LENGTH,
    TOO_LONG,
    KeywordOptions,
    Pair,
    fill_keywords,
    fill_rouge,
)
from .text.word_tokens import NltkRules
from .thoth import sections_in

__all__ = ["NINE", "TASK", "TableOptions"]

NINE = (
    "semantic_a",
    "order_lcs",
    "order_s",
    "order_tau",
    "step_m",
    "bleu_avg",
    "rouge_l",
    "meteor",
    "keyword_f1",
)
"""The columns of the paper's tables, of which AVG is the mean."""

OF_SCORE = {metric.name: metric for metric in SCORE.metrics}
OF_WORDS = {metric.name: metric for metric in LEXICAL.metrics}
BLEU = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
WORDS = (*BLEU, "bleu_avg", "rouge_1", "rouge_2", "rouge_l", "meteor", *KEYWORD)
TITLES = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}

NO_ORC = "no_orc"
ADVANCE_EVERY = 64


def metrics_of() -> tuple[Metric, ...]:
    """Return the nine columns and AVG, and then, by name only, what the script computes besides."""
    average = Metric("avg", "AVG", "Mean of the nine columns, where each has a value.", per_record=False, percent=True)
    known = OF_SCORE | {name: OF_WORDS[name]._replace(title=TITLES.get(name, OF_WORDS[name].title)) for name in WORDS}
    rest = [metric._replace(default=False) for name, metric in known.items() if name not in NINE]
    return (*(known[name] for name in NINE), average, *rest)


class TableRecord(ScoreRecord):
    """One answer of a model with its reference, which has an `<orc>` section."""

    orc: str | None = Field(None, description="The reference's prose, of a record as SciRecipe publishes it.")


class TableOptions(ScoreOptions, KeywordOptions):
    """How to measure."""

    profile: Literal["paper", "thoth"] = Field(
        "thoth", description="As the authors' public script, whose numbers the tables hold, or by the definitions."
    )
    nltk: NltkRules = Field("3.9", description="Profile paper: whose rules split words for METEOR.")


class PaperTable(Task):
    """The table of the paper."""

    name: ClassVar[str] = "scirecipe"
    description: ClassVar[str] = "The paper's tables (arXiv 2510.15600): nine metrics of plan and prose, and AVG."
    record: ClassVar[type[Record]] = TableRecord
    options: ClassVar[type[Options]] = TableOptions
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of()
    failures: ClassVar[Mapping[str, str]] = {
        **SCORE_FAILURES,
        NO_ORC: "The reference has no <orc> section to compare the answer's with.",
        TOO_LONG: "A text has too many characters, or the reference too many bytes or steps.",
        KEYWORDS_NEED_MODEL: LEXICAL.failures[KEYWORDS_NEED_MODEL],
    }
    response: ClassVar[str] = "response"
    derived_fields: ClassVar[tuple[str, ...]] = SCORE.derived_fields

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        return SCORE.validation_errors(record)

    def available_for(self, metric: Metric, records: Records) -> bool:
        return SCORE.available_for(metric, records)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        """Compute both halves; a record that lacks a field of one of them still has the other."""
        shown = {metric.name for metric in self.wanted(options)}
        wanted = shown | set(NINE) if "avg" in shown else shown
        of_plan = [name for name in OF_SCORE if name in wanted]
        plan = Evaluation({})
        if of_plan:
            limited = ScoreOptions(
                profile=options.profile, think_prefilled=options.think_prefilled, metrics=of_plan, by=[]
            )
            plan = SCORE.evaluate(records, limited, advance)
        prose = compare_prose(self, records, options, wanted, advance)
        columns = plan.columns | prose.columns

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            return {"avg": average(columns, rows)} if "avg" in shown else {}

        kept = {metric.name: columns[metric.name] for metric in self.wanted(options) if metric.per_record}
        unavailable = {name: why for name, why in prose.unavailable.items() if name in shown}
        over = {}
        if "avg" in shown:
            over["avg"] = [columns[name] for name in NINE]
            missing = [m.title for m in self.metrics if m.name in NINE and m.name in prose.unavailable]
            if missing:
                unavailable["avg"] = f"It needs all nine columns, and there is no {' and no '.join(missing)}."
        failed = sorted([*plan.failed, *prose.failed])
        return Evaluation(kept, failed, corpus, over, unavailable, plan.derived)


def average(columns: Mapping[str, np.ndarray], rows: np.ndarray) -> float | None:
    """Return the mean of the nine means, as in a table; None if a column has no value."""
    means = [mean_of(columns[name][rows]) for name in NINE]
    known = [mean for mean in means if mean is not None]
    return sum(known) / len(known) if len(known) == len(means) else None


def compare_prose(task: Task, records: Records, options: Any, wanted: set[str], advance: Advance) -> Evaluation:
    """Compute the lexical metrics among `wanted` of the two `<orc>` sections; without one in the answer they are 0."""
    pairs, failed = prose_pairs(records, options.think_prefilled)
    columns = {name: np.full(len(records), np.nan) for name in WORDS}
    if not wanted & set(WORDS):
        return Evaluation(columns)
    dependencies = OptionalDependencies(task, options)
    dependencies.wanted |= wanted
    dependencies.by_name |= set(NINE) if "avg" in dependencies.by_name else set()
    empty = [pair.row for pair in pairs if not (pair.reference and pair.generated)]
    for column in columns.values():
        column[empty] = 0.0
    present = [pair for pair in pairs if pair.reference and pair.generated]
    fill_rouge(present, columns, dependencies, advance)
    if options.profile == "thoth":
        fill_as_the_script(present, columns, dependencies, advance)
    else:
        fill_as_defined(present, columns, dependencies, options, advance)
    failed += fill_keywords(present, columns, dependencies, options, advance)
    for name in dependencies.require_any():
        columns[name][empty] = np.nan
    return Evaluation(columns, failed, unavailable=dependencies.unavailable)


def prose_pairs(records: Records, think_prefilled: bool) -> tuple[list[Pair], list[Failure]]:
    """Return the two sections of each record, trimmed, and the records whose reference has none."""
    pairs, failed = [], []
    for row, record in enumerate(records):
        response = f"<think>{record['response']}" if think_prefilled else record["response"]
        reference = orc_of(record)
        if reference is None:
            failed.append(Failure(row, NO_ORC))
        elif max(len(response), len(reference)) > MAX_LENGTH:
            failed.append(Failure(row, TOO_LONG, of_response=len(response) > MAX_LENGTH))
        else:
            found = sections_in(response)
            pairs.append(Pair(row, reference.strip(), found.orc.strip() if found else ""))
    return pairs, failed


def fill_as_the_script(
    pairs: Sequence[Pair], columns: Mapping[str, np.ndarray], dependencies: OptionalDependencies, advance: Advance
) -> None:
    """Fill BLEU-n with sacreBLEU's precision of order n, without brevity penalty, and METEOR over the pieces between
    white space, punctuation included.
    """
    if dependencies.wants(*BLEU, "bleu_avg"):
        library = dependencies.load(lambda: import_optional("sacrebleu.metrics", "lexical", "BLEU"), *BLEU, "bleu_avg")
        if library is not None:
            metric = library.BLEU(effective_order=True)
            for row, reference, generated in pairs:
                precisions = metric.sentence_score(generated, [reference]).precisions
                for name, precision in zip(BLEU, precisions, strict=True):
                    columns[name][row] = precision / 100
                columns["bleu_avg"][row] = sum(columns[name][row] for name in BLEU) / len(BLEU)
    meteor = dependencies.load(meteor_scorer, "meteor")
    if meteor is None:
        return
    for done, (row, reference, generated) in enumerate(pairs, start=1):
        theirs, ours = ([word.lower() for word in text.split()] for text in (reference, generated))
        columns["meteor"][row] = meteor(theirs, ours)
        if done % ADVANCE_EVERY == 0:
            advance(row)


def fill_as_defined(
    pairs: Sequence[Pair],
    columns: Mapping[str, np.ndarray],
    dependencies: OptionalDependencies,
    options: Any,
    advance: Advance,
) -> None:
    """Fill BLEU-n and METEOR as the task `lexical` does."""
    names = [name for name in (*BLEU, "bleu_avg", "meteor") if dependencies.wants(name)]
    if not names:
        return
    by_name = [name for name in names if name in dependencies.by_name]
    chosen = LEXICAL.checked({"metrics": by_name if by_name == names else [USUAL, *by_name], "nltk": options.nltk})
    records = [{"reference": pair.reference, "response": pair.generated} for pair in pairs]
    found = LEXICAL.evaluate(records, chosen, advance)
    rows = [pair.row for pair in pairs]
    for name in names:
        columns[name][rows] = found.columns[name]
    dependencies.unavailable |= {name: why for name, why in found.unavailable.items() if name in names}


TASK = PaperTable()
