"""Worked examples as data: `ALL` are whole rewards with the components that were computed by hand.

Valid and invalid texts, words and boundaries are in the test vectors (`tests/vectors/`).
"""

from .rewards import REWARDS as ALL
from .writing import Case, answer, told

__all__ = ["ALL", "Case", "answer", "told"]
