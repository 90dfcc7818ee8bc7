"""The twin with one rule broken, as an engine that `assay conformance` must fail.

assay conformance --engine "python -m tests.conformance.broken_engines no-signs"
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.reference import engine, gates, json_object, scorer, semantics, steps, thoth_metrics, words


def replace(module: Any, name: str, changed: Callable[..., Any]) -> None:
    """Replace a function by one that takes it before its own arguments."""
    setattr(module, name, partial(changed, getattr(module, name)))


class Rule(NamedTuple):
    """One rule and how to break it."""

    kind: str
    """The vectors that must notice."""
    breaks: Callable[[], None]


def set_pattern(module: Any, name: str, old: str, new: str) -> None:
    pattern = getattr(module, name)
    assert old in pattern.pattern
    setattr(module, name, re.compile(pattern.pattern.replace(old, new, 1), pattern.flags))


def numeric_characters_separate_words() -> None:
    def changed(canonical_text: Any, text: str) -> str:
        return "".join(" " if c.isnumeric() and not (c.isalpha() or c.isdecimal()) else c for c in canonical_text(text))

    replace(words, "canonical_text", changed)


def lines_end_at_line_feeds(reads: str) -> None:
    """Break `gates.lines`, which reads `<key>`, or `gates.orc_steps`."""

    def changed(read: Any, block: str) -> Any:
        line_end, steps.LINE_END = steps.LINE_END, re.compile(r"\r?\n")
        try:
            return read(block)
        finally:
            steps.LINE_END = line_end

    replace(gates, reads, changed)


def elements_without_words_stay() -> None:
    def changed(step_from_fields: Any, number: str, fields: Any) -> steps.KeyStep:
        step: steps.KeyStep = step_from_fields(number, fields)
        objects, parameters = (
            [tuple(words.words(text)) for text in fields[name]] for name in ("objects", "parameters")
        )
        return step._replace(objects=objects, parameters=parameters)

    def by_elements(parameter_match: Any, p: steps.KeyStep, r: steps.KeyStep) -> float:
        return parameter_match(p, r) if p.parameters and r.parameters else float(p.parameters == r.parameters)

    replace(steps, "step_from_fields", changed)
    replace(scorer, "step_from_fields", changed)
    replace(semantics, "parameter_match", by_elements)


def far_anchors_count_nothing() -> None:
    def changed(content: Any, prediction: list, reference: list, W: list, settings: dict) -> float:
        near = [(i, j) for i, j in W if abs(i - j) < len(reference)]
        return content(prediction, reference, near, settings) * len(near) / max(len(W), 1)

    replace(semantics, "content", changed)


def equal_digits_are_one_group() -> None:
    replace(
        engine,
        "advantages",
        lambda advantages, rewards, groups, ddof: advantages(rewards, list(map(str, groups)), ddof),
    )


def other_values_are_empty_arrays() -> None:
    def changed(strings: Any, values: Any) -> Any:
        return strings(values) if isinstance(values, list | str | dict) else []

    replace(thoth_metrics, "strings", changed)


def no_words_equal_all_words() -> None:
    replace(thoth_metrics, "iou", lambda iou, a, b: iou(a, b) if a and b else 1.0)


def case_is_folded() -> None:
    def strings(_: Any, values: Any) -> list[str]:
        return [value.strip().casefold() for value in values if isinstance(value, str) and value.strip()]

    def fields(fields: Any, value: dict) -> Any:
        return value.get("action", "").strip().casefold(), *fields(value)[1:]

    replace(thoth_metrics, "strings", strings)
    replace(thoth_metrics, "fields", fields)


def thoth_words_without(characters: str) -> None:
    def changed(_: Any, elements: list[str]) -> set[str]:
        inside = "".join(c for c in "%\u00b5\u03bc_" if c not in characters)
        return set(filter(None, re.split(rf"[^a-z0-9{inside}\-.]+", " ".join(elements))))

    replace(thoth_metrics, "words", changed)


RULES = {
    "no-signs": Rule("score", partial(set_pattern, words, "NUMBER", "-?", "")),
    "one-point-in-a-number": Rule("score", partial(set_pattern, words, "NUMBER", ")*", ")?")),
    "digits-of-every-script": Rule("score", partial(set_pattern, words, "NUMBER", "[0-9]", r"\d")),
    "numeric-characters-separate-words": Rule("score", numeric_characters_separate_words),
    "key-lines-end-at-line-feeds": Rule("score", partial(lines_end_at_line_feeds, "lines")),
    "prose-lines-end-at-line-feeds": Rule("score", partial(lines_end_at_line_feeds, "orc_steps")),
    "elements-without-words-stay": Rule("score", elements_without_words_stay),
    "far-anchors-count-nothing": Rule("score", far_anchors_count_nothing),
    "any-space-in-prose-headers": Rule("score", partial(set_pattern, steps, "ORC_STEP", r"[ \t]", "[ \t\u00a0\u2003]")),
    "depth-of-arrays-alone": Rule("score", partial(set_pattern, json_object, "BRACKET", r"[\[\]{}]", r"[\[\]]")),
    "any-json-in-a-key-line": Rule("score", partial(set_pattern, steps, "KEY_STEP", r"\{.*\}", r"[\[{].*[\]}]")),
    "equal-digits-are-one-group": Rule("advantages", equal_digits_are_one_group),
    "thoth-steps-may-be-indented": Rule("evaluate", partial(set_pattern, thoth_metrics, "STEP", "^", r"^\s*")),
    "thoth-other-values-are-empty-arrays": Rule("evaluate", other_values_are_empty_arrays),
    "thoth-words-without-low-lines": Rule("evaluate", partial(thoth_words_without, "_")),
    "thoth-words-without-micro-signs": Rule("evaluate", partial(thoth_words_without, "\u00b5")),
    "thoth-no-words-equal-all-words": Rule("evaluate", no_words_equal_all_words),
    "thoth-case-is-folded": Rule("evaluate", case_is_folded),
}
"""By what the broken engine does instead."""


if __name__ == "__main__":
    RULES[sys.argv[1]].breaks()
    engine.main()
