"""Anchors between predicted and reference steps (paper C.3; docs/rules.md, Step semantics)."""

from collections.abc import Sequence


def anchors(prediction: Sequence, reference: Sequence) -> list[tuple[int, int]]:
    """Return W as pairs (i, j) from 0: each predicted action takes the earliest equal one after the last match.

    A prediction without one stays unmatched, and the position does not move.
    """
    W = []
    position = 0
    for i, action in enumerate(prediction):
        for j in range(position, len(reference)):
            if reference[j] == action:
                W.append((i, j))
                position = j + 1
                break
    return W
