"""The result on a checked data set, for a terminal and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...service.records.files.opening import source_title
from ...service.records.rows.rows import RowPlace
from ...service.tables.page import render
from ...service.tables.table import Cell, Row, Table, with_notes
from ...service.wording import first_n, fixed, format_number, plural, share
from ..reports.inference import NO_ERROR
from .data_set import DataSet
from .policies import POLICIES, Earned

MAX_WORDS = 12  # words that the terminal lists
MAX_LISTED = 100  # words, pairs and contradictory prompts that are listed in the page
MAX_ROWS = 4  # rows that one entry names


def gates_table(data: DataSet) -> Table:
    configured, suggested = data.scorer.settings.min_coverage, data.gold.suggested()
    rows: list[Row] = []
    for level in data.gold.levels():
        marks = ["configured"] if level.min_coverage == configured else []
        marks += ["suggested"] if suggested is not None and level.min_coverage == suggested.min_coverage else []
        passed, reward = share(level.passed, data.gold.number), fixed(level.mean_reward)
        rows.append([format_number(level.min_coverage), level.passed, passed, reward, ", ".join(marks)])
    return Table(["min_coverage", "pass", "share", "mean reward", ""], rows)


def policies_table(data: DataSet) -> Table:
    gold, *policies = data.policies()
    notes = []
    errors = [earned.rewards.standard_error for earned in (gold, *policies) if earned.rewards.number > 1]
    if any(error is not None for error in errors):
        notes.append("±: standard error of the mean over the records.")
    if None in errors:
        notes.append(NO_ERROR)
    number = max(earned.rewards.number for earned in (gold, *policies))
    for earned in policies:
        if earned.rewards.number < number:
            applies = f"{earned.rewards.number:,} of {number:,} records" if earned.rewards.number else "no record"
            notes.append(f"{earned.policy.title}: {applies}.")
    return Table(
        ["", "mean reward", "pass", "versus gold"], [policy_row(earned) for earned in (gold, *policies)], notes=notes
    )


def options_table(data: DataSet) -> Table:
    """Return what the gold answers and every policy earn without options, with each, and with all."""
    rows: list[Row] = []
    for earned in data.policies():
        means = [earned.by_option[option.name] for option in data.options]
        rows.append([earned.policy.title, *(None if mean is None else fixed(mean) for mean in means)])
    named = [f"{option.title}: {option.changes}" for option in data.options if option.changes]
    note = f"paper: without the options. {'. '.join(named[:-1])}. all: with all of them."
    return Table(["", *(option.title for option in data.options)], rows, notes=[note])


def policy_row(earned: Earned) -> Row:
    mean, error, difference = earned.rewards.mean, earned.rewards.standard_error, earned.gold_difference
    if mean is None:
        return [earned.policy.title, None, None, None]
    reward = Cell(fixed(mean), "" if error is None else fixed(error))
    versus = None if difference is None else f"{difference:+z.4f}".replace("-", "−")
    return [earned.policy.title, reward, share(earned.passed, earned.rewards.number), versus]


def terminal_parts(data: DataSet) -> Iterator[str | Table]:
    if data.gold.number:
        yield gates_table(data)
        if data.gold.words:
            words = [f"{word} ({count:,})" for word, count, _ in data.gold.failing_words()]
            yield f"Words that they leave out: {first_n(words, MAX_WORDS)}"
        yield ""
    if data.policies()[1].rewards.number:
        for table in (policies_table(data), options_table(data)):
            yield table
            yield from (*table.notes, "")
    if data.discrimination is not None:
        yield from with_notes(data.discrimination.tables())
    for advice in data.advice():
        yield f"{'' if advice.good else 'warning: '}{advice.text}"
    if data.no_duplicates:
        yield f"Near-duplicates were not searched for. {data.no_duplicates}"


def page(data: DataSet, command: str) -> str:
    words = [(word, count, str(place)) for word, count, place in data.gold.failing_words()[:MAX_LISTED]]
    reasons = [
        (reason, "invalid" if kind == "error" else "warning", count)
        for (kind, reason), count in data.reasons.most_common()
    ]
    pairs = [
        (pair.of, f"{pair.similarity:.2f}", listed(pair.first), listed(pair.second)) for pair in data.pairs[:MAX_LISTED]
    ]
    contradictions = [(listed(rows[0]), "; ".join(map(listed, rows[1:]))) for rows in data.contradictions[:MAX_LISTED]]
    return render(
        "checked.html",
        data=data,
        name=first_n([source_title(source) for source in data.sources], MAX_ROWS),
        command=command,
        verdict=list(verdict(data)),
        gates=gates_table(data),
        words=Table(["word", "answers", "first"], words, title="Words that the prose leaves out"),
        policies=policies_table(data),
        options=options_table(data),
        discrimination=[] if data.discrimination is None else data.discrimination.page_tables(),
        constructions=Table(
            [], [(policy.title, policy.construction) for policy in POLICIES], title="Policies", wide=True
        ),
        reasons=Table(["reason", "", "rows"], reasons, title="Findings by reason", code=True),
        pairs=Table(["of", "similarity", "rows", "rows of another split"], pairs, title="Near-duplicates", wide=True),
        contradictions=Table(
            ["rows", "rows with other steps"], contradictions, title="Contradictory references", wide=True
        ),
        most=MAX_LISTED,
    )


def verdict(data: DataSet) -> Iterator[tuple[str, bool]]:
    invalid = data.counts["error"]
    text = f"{plural(data.counts['checked'], 'reference')}, {f'{invalid:,} invalid' if invalid else 'all valid'}."
    yield text, not invalid
    yield from data.advice()
    if data.contradictions:
        yield f"{plural(len(data.contradictions), 'prompt')} with references that differ in their steps.", False
    if data.splits:
        yield f"{plural(len(data.pairs), 'pair')} of near-duplicates across splits.", not data.pairs


def listed(places: Sequence[RowPlace]) -> str:
    return first_n(places, MAX_ROWS)
