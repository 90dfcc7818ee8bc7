"""Adversarial texts: the worst case of each stage of scoring, at any size.

Each is a function of a size in bytes and gives a rollout of about that size: a response and its reference. Between them
they aim at every loop that has a length of its own. `cost.py` measures them, `test_cost.py` holds the bounds.
"""

from . import coverage, lines, steps, words
from .building import CATALOGUE, REFERENCE, Adversary, Rollout, key

__all__ = ["CATALOGUE", "REFERENCE", "Adversary", "Rollout", "coverage", "key", "lines", "steps", "words"]
