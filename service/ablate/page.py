"""The report on an ablation as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import NamedTuple

import orjson

from ..explain.numbers import plural
from ..report.charts import Chart, histogram
from ..report.rendering import render
from .ablation import Ablation

__all__ = ["page"]


class Distribution(NamedTuple):
    """The rewards under one configuration."""

    name: str
    chart: Chart


def page(ablation: Ablation, moment: datetime | None = None) -> str:
    """Return the HTML of the report."""
    grid, rewards = ablation.grid, ablation.rewards
    name = "standard input" if ablation.source == "stdin" else PurePath(ablation.source).name
    return render(
        "ablated.html",
        moment or datetime.now(UTC),
        name=name,
        ablation=ablation,
        rollouts=plural(len(rewards), "rollout"),
        configurations=plural(len(grid.configurations), "configuration"),
        distributions=list(distributions(ablation)) if len(rewards) else [],
        faults=[(reason, f"{count:,}") for reason, count in rewards.faults.most_common()],
        others=[(task, f"{count:,}") for task, count in rewards.others.most_common()],
        settings=[
            (one.name, orjson.dumps(one.overrides).decode(), *one.identity.values()) for one in grid.configurations
        ],
    )


def distributions(ablation: Ablation) -> Iterator[Distribution]:
    """Yield a histogram of the rewards under each configuration, between the rewards of SCORE 0 and the maximum."""
    for values, figures in zip(ablation.rewards.columns, ablation.figures, strict=True):
        one = figures.configuration
        if figures.mean is None:
            continue
        failed = len(ablation.rewards) - figures.reasons.get("ok", 0)
        chart = histogram(values.all(), figures.range, f"Rewards under {one.name}", "reward", failed=failed)
        yield Distribution(one.name, chart)
