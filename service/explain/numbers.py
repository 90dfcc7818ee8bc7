"""Numbers and lists formatted for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["first_n", "format_delta", "format_number", "plural"]


def format_number(value: float) -> str:
    """Format with up to four significant digits: `0.8333`, `2.5`, `0`; a fraction never becomes an integer."""
    text = f"{value:.4g}"
    if float(text) == round(value) != value:
        return f"{value:.12g}"
    return "0" if text == "-0" else text


def format_delta(value: float) -> str:
    """Format a change: `+0.4`, `−0.1`, `±0`."""
    if value == 0:
        return "±0"
    return f"{'+' if value > 0 else '−'}{format_number(abs(value))}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: `1 step`, `2 steps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_n(names: Sequence[str | int], n: int) -> str:
    """Join the first n names or numbers, and say how many more there are."""
    shown = ", ".join(map(str, names[:n]))
    return f"{shown} and {len(names) - n:,} more" if len(names) > n else shown
