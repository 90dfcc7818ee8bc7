"""The twin with one rule broken, as an engine that `assay conformance` must fail.

assay conformance --engine "python -m tests.conformance.broken_engines no-signs"
"""

import re
import sys
from typing import Any

from tests.reference import engine, json_object, steps, thoth_metrics, words
from tests.reference.advantages import advantages

PATTERNS: dict[str, tuple[str, Any, str, str, str]] = {
    "no-signs": ("score", words, "NUMBER", "-?", ""),
    "one-point-in-a-number": ("score", words, "NUMBER", ")*", ")?"),
    "digits-of-every-script": ("score", words, "NUMBER", "[0-9]", r"\d"),
    "any-space-in-prose-headers": ("score", steps, "ORC_STEP", r"[ \t]", "[ \t\u00a0\u2003]"),
    "any-json-in-a-key-line": ("score", steps, "KEY_STEP", r"\{.*\}", r"[\[{].*[\]}]"),
    "lines-end-at-line-feeds": ("score", steps, "LINE_END", steps.LINE_END.pattern, r"\r?\n"),
    "depth-of-arrays-alone": ("score", json_object, "BRACKET", r"[\[\]{}]", r"[\[\]]"),
    "thoth-steps-may-be-indented": ("evaluate", thoth_metrics, "STEP", "^", r"^\s*"),
}
"""By what the broken engine does instead: the vectors that must notice, a pattern of the twin, and what replaces it."""

BROKEN = {**{name: kind for name, (kind, *_) in PATTERNS.items()}, "equal-digits-are-one-group": "advantages"}
"""The vectors that must notice each broken rule."""


def break_rule(name: str) -> None:
    if name in PATTERNS:
        _, module, attribute, before, after = PATTERNS[name]
        pattern = getattr(module, attribute)
        assert before in pattern.pattern
        setattr(module, attribute, re.compile(pattern.pattern.replace(before, after, 1), pattern.flags))
    else:
        twin: Any = engine
        twin.advantages = lambda rewards, groups, ddof: advantages(rewards, list(map(str, groups)), ddof)


if __name__ == "__main__":
    break_rule(sys.argv[1])
    engine.main()
