"""Levenshtein distance."""

from collections.abc import Sequence


def levenshtein_distance(a: Sequence, b: Sequence) -> int:
    """Return the Levenshtein distance of `a` and `b` by the textbook's table, a row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above = row
        row = [i]
        for j, y in enumerate(b):
            row.append(min(above[j] + (x != y), above[j + 1] + 1, row[j] + 1))
    return row[-1]
