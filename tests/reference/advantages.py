"""Group advantages (paper eq. 12; docs/rules.md, Advantages)."""

import math
from collections import defaultdict
from collections.abc import Sequence

NO_SPREAD = 1e-9


def group_advantage(rewards: list[float], ddof: int) -> list[float]:
    """Return (r - mean) / std within one group, from exact sums; 0 if no two differ by more than rounding."""
    if max(rewards) - min(rewards) <= NO_SPREAD:
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    deviations = [r - mean for r in rewards]
    std = math.sqrt(math.fsum(d * d for d in deviations) / (len(rewards) - ddof))
    return [deviation / std for deviation in deviations]


def advantages(rewards: Sequence[float], groups_of: Sequence[int | str], ddof: int = 1) -> list[float]:
    """Return advantages in the order of the rewards; 1 and "1" are different groups."""
    groups = defaultdict(list)
    for k, group in enumerate(groups_of):
        groups[group].append(k)
    result = [0.0] * len(rewards)
    for members in groups.values():
        for k, value in zip(members, group_advantage([rewards[k] for k in members], ddof), strict=True):
            result[k] = value
    return result
