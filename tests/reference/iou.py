"""Intersection over union."""

from collections.abc import Collection


def iou(a: Collection, b: Collection) -> float:
    """Return |A ∩ B| / |A ∪ B| of the elements as sets; 1 if both are empty."""
    A, B = set(a), set(b)
    return len(A & B) / len(A | B) if A | B else 1.0
