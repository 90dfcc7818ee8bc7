"""Longest common subsequence."""

from collections.abc import Sequence


def lcs_length(a: Sequence, b: Sequence) -> int:
    """Return the length of a longest common subsequence by the textbook's table, a row at a time."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row
        row = [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    return row[-1]
