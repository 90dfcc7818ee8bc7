"""Rewards for ms-swift: `--external_plugins …/for_ms_swift.py --reward_funcs assay`.

`assay_format` and so on are components as rewards of their own, for `--scale_rewards gdpo`: all that a run has, `assay`
among them, share one request for a batch, and are None, which this trainer then leaves out, for rows of other tasks.

It raises if scoring fails for good: this trainer counts None as 0.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

from collections.abc import Sequence
from typing import Any

from assay_client.adapters.common import (
    PASSED,
    REWARD,
    REWARD_COMPONENTS,
    ComponentScores,
    SharedBatches,
    batch_of,
    step_of,
    sync_client,
)
from assay_client.adapters.metrics import batch_means, groups_of
from assay_client.training_logs import log_means

try:
    from swift.rewards import ORM, orms
except ImportError:
    try:
        from swift.plugin import ORM, orms  # before ms-swift 4
    except ImportError:
        ORM, orms = object, {}

__all__ = ["AssayReward"]


FRACTION = 1 << 16
"""Components are multiples of 1 / 65536: the mean of equal ones is exactly their value in single precision.

This trainer's GDPO divides by the standard deviation plus 1e-8, which would turn rounding into an advantage.
"""

batches = SharedBatches()


class AssayReward(ORM):  # type: ignore[misc]  # Any where ms-swift is not installed
    """Rewards of the whole local batch, from one request."""

    component = REWARD

    def __init__(self, args: Any = None, **kwargs: Any) -> None:
        self.args = args  # as ORM itself does in the versions that take arguments

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        texts, references, records, tasks = batch = batch_of(completions, columns)
        client = sync_client(getattr(self.args, "run_name", None))

        def score() -> ComponentScores:
            scores = client.score(texts, references, records=records, task=tasks)
            groups = groups_of(len(scores), columns.get("prompt_id"), records, references)
            reports = getattr(self.args, "report_to", None)
            log_means(
                lambda: batch_means(scores, groups, texts),
                step_of(columns.get("trainer_state")),
                tensorboard=reports is None or "tensorboard" in reports,
            )
            return ComponentScores(len(scores), list(range(len(scores))), scores)

        outcome = batches.outcome(self.component, (client.settings, *batch), score)
        rewards = outcome.rewards(self.component)
        if self.component == REWARD:
            return rewards
        return [None if value is None else round(value * FRACTION) / FRACTION for value in rewards]


def class_of(component: str) -> type[AssayReward]:
    """Return the class of a component, whose name stands in the trainer's log: `AssayExactMatch`."""
    return type(f"Assay{component.title().replace('_', '')}", (AssayReward,), {"component": component})


orms["assay"] = AssayReward
orms.update({f"assay_{name}": class_of(name) for name in (*REWARD_COMPONENTS, PASSED)})
