"""The contract of `POST /v1/explain` and of the output of `assay explain --json -`, and how long one is cut short.

Steps count from 1, as in docs/rules.md. Every field is always present; null if it does not apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictInt, StrictStr

from ..contract import EXAMPLE_REFERENCE, EXAMPLE_RESPONSE, Contract, Overrides, Reference
from ..settings import ScoreSettings

Span = tuple[int, int]
Gate = Literal["format", "consistency"]
Section = Literal["think", "key", "orc", "note"]
CheckName = Literal[
    "size",
    "sections",
    "steps",
    "key_lines",
    "key_numbering",
    "orc_numbering",
    "step_count",
    "coverage",
    "added_numbers",
    "added_words",
]
FactorName = Literal[
    "best",
    "gate",
    "order",
    "unmatched",
    "objects",
    "parameters",
    "position",
    "step_gap",
    "length",
    "quantities",
    "score",
]
Kind = Literal[
    "mend",
    "swap_steps",
    "move_step",
    "sort_steps",
    "drop_step",
    "drop_steps",
    "add_step",
    "add_steps",
    "replace_step",
    "replace_steps",
    "use_action",
    "use_objects",
    "use_parameters",
    "use_quantities",
    "shorten_prose",
    "setting",
    "skeleton",
]

MAX_SUGGESTIONS, MAX_SUGGESTED = 20, 5

EQUAL = " = "
"""Between the texts of equal terms."""

EXAMPLE_EXPLAIN_REQUEST: dict[str, JsonValue] = {
    "response": EXAMPLE_RESPONSE,
    "reference": EXAMPLE_REFERENCE,
    "config": {"order": "lcs"},
    "suggestions": 3,
}


class ExplainRequest(Contract):
    """One response, its reference, and how to score it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_EXPLAIN_REQUEST]})

    response: StrictStr = Field(description="The response to explain; its content may be anything.")
    reference: Reference = Field(description="As in /v1/score.")
    task: StrictStr = Field(
        default="score", description="Only SCORE is explained.", json_schema_extra={"const": "score"}
    )
    config: Overrides = Field(default={}, description="Settings that differ from the service's.")
    suggestions: StrictInt = Field(
        default=MAX_SUGGESTED,
        ge=0,
        le=MAX_SUGGESTIONS,
        description="Maximum number of suggested changes, each of them rescored.",
    )


class Part(Contract):
    """A part of an explanation: all its numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Place(Part):
    """A span of the response (or of the reference's text, or its alternative's), first and one past the last, in three
    units.
    """

    line: int = Field(description="Line of the whole text in which it begins, from 1.")
    bytes: Span = Field(description="Bytes of UTF-8.")
    characters: Span = Field(description="Code points: indices of a Python string.")
    utf16: Span = Field(description="UTF-16 code units: indices of a JavaScript string.")


class Sections(Part):
    """The contents of the four sections, without their tags; if not all are found, those that are present."""

    found: bool
    think: Place | None
    key: Place | None
    orc: Place | None
    note: Place | None


class Failure(Part):
    """Why the response fails a gate, and where."""

    reason: str = Field(description="As in /v1/score (docs/rules.md, Reasons).")
    gate: Gate
    message: str = Field(description="What is wrong, as a sentence for people.")
    remedy: str = Field(description="What would fix it, as a sentence for people.")
    section: Section | None = Field(description="The section it is in, if any.")
    step: int | None = Field(description="The step it is about, if it is about one.")
    place: Place | None = Field(description="The offending text; null if text is missing.")


class Check(Part):
    """One of the checks of the gates, in order; `added_numbers` and `added_words` only with a limit of them."""

    name: CheckName
    gate: Gate
    passed: bool | None = Field(description="Null if an earlier check failed, so that this one was not made.")
    detail: str = Field(description="What was found, for people: `6 steps`, `coverage 0.83, at least 0.95`.")


class Phrase(Part):
    """An action, an object or a parameter: its text as given, and its canonical words (docs/rules.md, Words)."""

    text: str
    words: list[str] = Field(description="If empty, the phrase does not count.")
    terms: list[str] | None = Field(
        default=None,
        description="Of a parameter whose quantities are read: its terms, quantities as they are written and words.",
    )

    @property
    def canon(self) -> str:
        return " ".join(self.words)


class WordUse(Part):
    """One distinct canonical word of a step, and whether its prose covers it."""

    word: str
    covered: bool


class Coverage(Part):
    """How much of a step's words its prose covers."""

    value: float = Field(description="covered / words.")
    enough: bool = Field(description="Whether value ≥ min_coverage.")
    covered: int
    total: int = Field(description="Distinct words of action, objects and parameters.")
    words: list[WordUse] = Field(description="All distinct words, in order of appearance.")
    uncovered: list[str] = Field(description="The words missing from the prose.")


class KeyStep(Part):
    """One line of <key>: a step of the prediction, or of the reference."""

    step: int = Field(description="Its position, from 1.")
    number: int | None = Field(description="The number as it is written; null if the line has none.")
    status: str = Field(description="`ok`, or `bad_step_line`, `bad_step_json`, `bad_step_schema`.")
    place: Place | None = Field(description="The whole line; null for a reference given as steps.")
    text: str = Field(description="The line as it is written.")
    action: Phrase | None = Field(description="Null if the status is not `ok`; then there are no phrases either.")
    objects: list[Phrase]
    parameters: list[Phrase]
    coverage: Coverage | None = Field(description="Against the prose step of the same position; null without one.")
    partner: int | None = Field(description="The step of the other side that it is anchored to.")
    value: float | None = Field(
        description="m_ij (Obj + ½ Par), 0 without a partner, as in the column of steps of /v1/score; null if a gate "
        "fails, and for steps of the reference."
    )


class Mark(Part):
    """A span of a prose step's text and the words of the key step, or the added numbers and words, that occur in it."""

    characters: Span = Field(description="Code points within the prose step's own `text`.")
    utf16: Span = Field(description="UTF-16 code units within the prose step's own `text`.")
    words: list[str] = Field(description="Never empty.")


class ProseStep(Part):
    """One step of <orc>, including the lines that continue it."""

    step: int = Field(description="Its position, from 1.")
    number: int = Field(description="The number as it is written.")
    place: Place = Field(description="What follows `Step N:`, without whitespace at both ends.")
    text: str
    pieces: int = Field(description="Number of whitespace-separated pieces; `mean_words` is the mean of these numbers.")
    marks: list[Mark] = Field(description="Where the words of the key step of the same position occur, in order.")
    added_numbers: list[str] | None = Field(
        description="Its numbers that the key step of the same position does not have, for the first step with those "
        "of the lines before it; null without max_added_numbers, and without such a step."
    )
    added_words: list[str] | None = Field(
        description="Likewise its words, with negations; null without max_added_words, and without such a step."
    )
    negations: list[str] | None = Field(description="The added words that are negations: one closes the gate.")
    added_marks: list[Mark] = Field(description="Where the added numbers and words occur, in order.")


class Scale(Part):
    """Step scale (docs/rules.md, Step scale): f / g."""

    predicted_steps: int
    reference_steps: int
    gap: int = Field(description="d = |n − m|.")
    gap_limit: int = Field(description="M = max(1, ⌊0.6 m⌋): from this gap on f is 0.")
    step_gap: float = Field(description="f.")
    step_gap_used: bool = Field(description="The setting use_step_gap.")
    mean_words: float
    max_mean_words: float = Field(description="L.")
    length_penalty: float = Field(description="g: the divisor.")
    length_used: bool = Field(description="The setting use_length.")
    value: float


class Order(Part):
    """Order of actions (docs/rules.md, Step semantics)."""

    mode: Literal["strict", "lcs"]
    predicted: list[str] = Field(description="The predicted actions' canonical texts.")
    expected: list[str]
    subsequence: bool = Field(description="Whether one sequence is a subsequence of the other.")
    lcs: int = Field(description="Length of the longest common subsequence.")
    path: list[tuple[int, int]] = Field(description="One longest common subsequence, as (predicted, reference) steps.")
    out_of_order: list[int] = Field(
        description="Predicted steps off that path whose action a reference step off that path has too."
    )
    value: float
    used: bool = Field(description="The setting use_order.")


class Similarity(Part):
    """Intersection over union of two sets."""

    value: float
    compared: Literal["objects", "words", "terms", "nothing"] = Field(
        description="Elements of the sets: whole objects, words (parameters; objects if no whole one is shared, with "
        "object_similarity = max if that is larger), terms (parameters with parameter_similarity = quantities), or "
        "nothing (both empty, or parameters that do not count as Obj < 0.5)."
    )
    shared: list[str] = Field(
        description="In both. Equal terms that are written in several ways are one element, their texts joined by "
        "` = `, the prediction's first: `500 μl = 0.5 ml`."
    )
    missing: list[str] = Field(description="Only in the reference.")
    extra: list[str] = Field(description="Only in the prediction.")


class ReadQuantity(Part):
    """A quantity of a parameter as it is read (docs/rules.md, Quantities)."""

    text: str = Field(description="As it is written: `0.5 mM`.")
    read: str = Field(description="For people, its value in a unit of its dimension: `500 μl`, `1–2 h`, `>= 5 min`.")
    dimension: str = Field(description="`volume`, `mass/volume`, `pH`, `ratio`, …; empty for a number without a unit.")
    kind: str = Field(description="`<`, `>`, `<=`, `>=`, `range`, `tolerance`, or empty.")
    wrong: bool = Field(description="Whether the other side lacks it.")


class PairQuantities(Part):
    """The distinct quantities of both sides' parameters, whether Obj is large enough for Par or not."""

    prediction: list[ReadQuantity]
    reference: list[ReadQuantity]
    errors: int = Field(
        description="Sum over the dimensions of the larger number of wrong quantities of the two sides; with "
        "quantity_error_factor < 1 it counts for `quantity_errors`."
    )
    advice: list[str] = Field(
        description="For people, one for each error: `write 0.5 ml instead of 50 ml`, `leave out 5 min`, `add 37 °C`."
    )


class Pair(Part):
    """One anchor: a predicted step and the reference step that it is paired with."""

    predicted: int
    reference: int
    action: str
    objects: Similarity = Field(description="Obj.")
    parameters: Similarity = Field(description="Par; 0 if Obj < 0.5.")
    parameters_counted: bool = Field(description="Whether Obj ≥ 0.5.")
    quantities: PairQuantities | None = Field(
        description="Null unless parameter_similarity is quantities or quantity_error_factor is less than 1."
    )
    position: float = Field(description="m_ij, 0 where |i − j| ≥ m; 1 if use_position is off.")
    value: float = Field(description="m_ij (Obj + ½ Par), at most 1.5.")


class Content(Part):
    """Content of the anchored steps (docs/rules.md, Step semantics)."""

    anchors: int
    sum: float = Field(description="Sum of the pairs' values, correctly rounded: `math.fsum`.")
    denominator: int = Field(description="|W|, or max(n, m) with content_denominator = max_len; 0 without anchors.")
    value: float
    unmatched_predicted: list[int]
    unmatched_reference: list[int]


class Factor(Part):
    """One bar of the waterfall from the maximum reward down to this one."""

    name: FactorName
    label: str = Field(description="For people, short.")
    reward_change: float = Field(description="What it adds to the reward; 0 or less except for `best`.")
    reward: float = Field(description="The reward after this part is taken into account.")
    change: float = Field(description="What it adds to the SCORE; 0 or less except for `best`.")
    score: float = Field(description="The SCORE after this part is taken into account.")
    detail: str = Field(description="For people: where the change comes from.")


class Equation(Part):
    """One line of the arithmetic."""

    name: str = Field(description="`scale`, `order`, `content`, `semantics`, `score` or `reward`.")
    text: str = Field(description="With symbols and numbers: `scale = f / g = 0.866 / 1 = 0.866`.")
    value: float


class ComponentValues(Part):
    """The components as /v1/score reports them."""

    format: float
    consistency: float
    coverage: float
    step_gap: float
    mean_words: float
    scale: float
    order: float
    content: float
    semantics: float
    anchors: float
    score: float
    quantity_errors: float


class Change(Part):
    """A component before and after a suggested change."""

    name: str
    before: float
    after: float


class Suggestion(Part):
    """A change of the response that was made and rescored."""

    kind: Kind
    text: str = Field(description="For people: `Swap steps 3 and 4: order 0.0000 → 1.0000, reward +0.4000.`")
    steps: list[int] = Field(description="The predicted steps that it changes.")
    reference_steps: list[int] = Field(description="The reference steps that it takes something from.")
    alternative: int = Field(description="The alternative whose steps these are, from 0; 0 without alternatives.")
    gain: float = Field(
        description="reward − the present reward. Above 0, except for `mend` and `skeleton`: 0 if only the gates are "
        "passed."
    )
    reward: float
    reason: str
    changes: list[Change] = Field(description="The components that change, in the order of /v1/score.")
    config: dict[str, Any] = Field(description="Settings that it changes; empty except for the kind `setting`.")
    response: str | None = Field(description="The changed response; null if it is the same, or over 64 KiB.")


class Hint(Part):
    """Something that is the same, or nearly the same, to people but not to the comparison."""

    text: str = Field(description="For people: `5000 μl is 5 ml: units are compared as written.`")
    step: int | None = Field(description="The predicted step.")
    reference_step: int | None = Field(description="The reference step; null if it is about the prose of `step`.")


class AlternativeReward(Part):
    """One alternative of the reference, and the reward against it."""

    reward: float
    steps: int = Field(description="Its number of steps.")


class Explanation(Part):
    """The derivation of one reward."""

    reward: float
    score: float
    reason: str
    outcome: str = Field(description="The reason and, if the gates pass, what costs most: `ok: 1 of 3 steps`.")
    headline: str = Field(description="One sentence for people.")
    components: ComponentValues
    config: ScoreSettings = Field(description="The effective settings.")
    config_id: str
    signature: str
    largest_score: float = Field(description="S: the maximum SCORE under these settings.")
    smallest_reward: float = Field(description="The reward of SCORE 0.")
    largest_reward: float = Field(description="The reward of S.")
    alternative: int = Field(
        description="The alternative of the reference that counts, from 0: everything else is about it. 0 without "
        "alternatives."
    )
    alternatives: list[AlternativeReward] = Field(
        description="All alternatives, in order; the first whose reward is at most 1e-9 below the largest counts. "
        "Empty without alternatives."
    )
    added_numbers: int | None = Field(
        description="How many numbers the prose has that its steps do not have, where a step of the prose has one of "
        "<key> at its position; null without max_added_numbers."
    )
    added_words: int | None = Field(
        description="The most words of its own, with negations, that a step of the prose has; null without "
        "max_added_words."
    )
    failure: Failure | None = Field(description="Null if the reason is `ok`.")
    checks: list[Check]
    sections: Sections
    prediction: list[KeyStep]
    reference: list[KeyStep]
    prose: list[ProseStep]
    counted: bool = Field(
        description="Whether scale, order, pairs and content count for the reward. If a gate failed they do not: "
        "they are then what the valid steps would give, or null."
    )
    scale: Scale | None
    order: Order | None
    pairs: list[Pair]
    content: Content | None
    factors: list[Factor] = Field(description="From `best` to `score`; each begins at the score of the one before it.")
    equations: list[Equation]
    hints: list[Hint] = Field(description="What the comparison does not count as equal or similar; at most 10.")
    suggestions: list[Suggestion] = Field(description="The largest gain first.")
    tried: int = Field(description="How many edits were rescored for the suggestions.")
    exhaustive: bool | None = Field(
        description="Whether these include every edit of one step, so no other gains more than the first. "
        "False if the budget of 2,048 edits or 8 MiB, or of 512 KiB of other alternatives, ran out; null if none were "
        "searched: for a response that fails a gate, and for the maximum reward."
    )
    left_out: dict[str, int] = Field(
        default={},
        description="How many entries of lists of each name (`words`, `marks`, …), and how many texts (`response` of "
        "suggestions), are left out because the reply would be too long for its request; empty if nothing is.",
    )


KEPT = (64, 8, 0)
"""Entries of a list that are kept, until the explanation is short enough."""


def shortened(explanation: Explanation, max_bytes: int) -> bytes | None:
    """Return the explanation as JSON of at most `max_bytes`, or None if it is longer even without its lists of words.

    Responses of suggestions are left out first, then entries of lists of words and marks. `left_out` counts them.
    """
    text = explanation.model_dump_json().encode()
    if len(text) <= max_bytes:
        return text
    left_out: Counter[str] = Counter()
    explanation = explanation.model_copy(deep=True)
    for suggestion in explanation.suggestions:
        left_out["response"] += suggestion.response is not None
        suggestion.response = None
    for kept in (None, *KEPT):
        for part, name in lists_of(explanation):
            entries = getattr(part, name)
            left_out[name] += len(entries[kept:]) if kept is not None else 0
            setattr(part, name, entries[:kept])
        explanation.left_out = {name: count for name, count in left_out.items() if count}
        text = explanation.model_dump_json().encode()
        if len(text) <= max_bytes:
            return text
    return None


def lists_of(explanation: Explanation) -> Iterator[tuple[Part, str]]:
    """Yield every list of words or marks, as the part that has it and its name there."""
    for step in (*explanation.prediction, *explanation.reference):
        for phrase in (*([step.action] if step.action is not None else ()), *step.objects, *step.parameters):
            yield phrase, "words"
            if phrase.terms is not None:
                yield phrase, "terms"
        if step.coverage is not None:
            yield step.coverage, "words"
            yield step.coverage, "uncovered"
    for prose in explanation.prose:
        for name in ("marks", "added_marks"):
            yield prose, name
            for mark in getattr(prose, name):
                yield mark, "words"
        for name in ("added_numbers", "added_words", "negations"):
            if getattr(prose, name) is not None:
                yield prose, name
    for pair in explanation.pairs:
        for similarity in (pair.objects, pair.parameters):
            for name in ("shared", "missing", "extra"):
                yield similarity, name
        if pair.quantities is not None:
            for name in ("prediction", "reference", "advice"):
                yield pair.quantities, name
