"""Adversarial texts: the worst case of each stage of scoring, at any size.

Each is a function of a size in bytes that returns a rollout of about that size: a response and its reference. Together
they cover every loop with a separate length. `cost.py` measures them, `test_cost.py` checks the bounds.
"""

from . import coverage, lines, steps, words
from .building import CATALOGUE, REFERENCE, Adversary, Rollout, key

__all__ = ["CATALOGUE", "REFERENCE", "Adversary", "Rollout", "coverage", "key", "lines", "steps", "words"]
