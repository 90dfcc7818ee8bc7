"""Sequences and sets, and the results of single kernels.

The first rows of LCS and SUBSEQUENCE are the shapes of the paper's C.2 (a shortened prediction, two exchanged
neighbours, two exchanged pairs), the first row of ANCHORS is its C.3.
"""

R = ["harvest", "lyse", "centrifuge", "quantify"]

LCS = [
    (["harvest", "lyse", "quantify"], R, 3),
    (["harvest", "centrifuge", "lyse", "quantify"], R, 3),
    (["lyse", "harvest", "quantify", "centrifuge"], R, 2),
    (R, R, 4),
    ([], R, 0),
    (R, [], 0),
    ([], [], 0),
    (["a"] * 64, ["a"] * 65, 64),
    (["a", "b"] * 64, ["b", "a"] * 64, 127),
    (["a"] * 63 + ["b"], ["b"] + ["a"] * 63, 63),
    ([str(i) for i in range(200)], [str(i) for i in range(199, -1, -1)], 1),
    ([str(i) for i in range(130)], [str(i) for i in range(0, 130, 3)], 44),
]
"""a, b, length of their longest common subsequence."""

SUBSEQUENCE = [
    (["harvest", "lyse", "quantify"], R, True),
    (["harvest", "centrifuge", "lyse", "quantify"], R, False),
    (["lyse", "harvest", "quantify", "centrifuge"], R, False),
    (R, R, True),
    (R, R[:3], False),
    ([], R, True),
    ([], [], True),
    (["lyse"], [], False),
    (["lyse", "lyse"], R, False),
    (["a"] * 64, ["a"] * 65, True),
]
"""a, b, whether a is a subsequence of b."""

ANCHORS = [
    (["harvest", "centrifuge", "lyse", "stain", "quantify"], R, [(0, 0), (1, 2), (4, 3)]),
    (R, R, [(0, 0), (1, 1), (2, 2), (3, 3)]),
    (["quantify", *R], R, [(0, 3)]),
    (["add", "add", "add"], ["add", "mix", "add"], [(0, 0), (1, 2)]),
    (["add"], ["mix", "add", "add"], [(0, 1)]),
    (["stain", "add"], ["add", "add"], [(1, 0)]),
    ([], R, []),
    (R, [], []),
    (["stain"], R, []),
]
"""Predicted actions, reference actions, W counted from 0."""

IOU = [
    (set(), set(), 1.0),
    ({"a"}, set(), 0.0),
    (set(), {"a"}, 0.0),
    ({"a"}, {"a"}, 1.0),
    ({"a", "b"}, {"b", "c"}, 1 / 3),
    ({"a", "b", "c"}, {"a", "b", "c", "d"}, 0.75),
    ({"a"}, {"b"}, 0.0),
]
"""A, B, |A ∩ B| / |A ∪ B|."""
