"""Worked examples and corner cases as data, for every implementation.

`ALL` are whole rewards: response, reference and settings in, the named components out.
"""

from .columns import ANCHORS, IOU, LCS, SUBSEQUENCE
from .reading import BAD_REFERENCES, READING
from .rewards import REWARDS
from .texts import WORDS
from .writing import Case, answer, told

ALL: list[Case] = [*READING, *REWARDS]

__all__ = ["ALL", "ANCHORS", "BAD_REFERENCES", "IOU", "LCS", "SUBSEQUENCE", "WORDS", "Case", "answer", "told"]
