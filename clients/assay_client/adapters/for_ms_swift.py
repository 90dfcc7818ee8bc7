"""Reward for ms-swift: `--external_plugins …/for_ms_swift.py --reward_funcs assay`.

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
    column_of,
    completion_text,
    pairs_of,
    records_of,
    step_of,
    sync_client,
    tasks_of,
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


class AssayReward(ORM):  # type: ignore[misc]  # Any where ms-swift is not installed
    """Rewards of the whole local batch, from one request."""

    def __init__(self, args: Any = None, **kwargs: Any) -> None:
        self.args = args  # as ORM itself does in the versions that take arguments

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float]:
        given, records = column_of(columns), records_of(columns, len(completions))
        tasks = tasks_of(columns, given, records)
        texts, references = pairs_of(map(completion_text, completions), given, tasks)
        client = sync_client(getattr(self.args, "run_name", None))
        scores = client.score(texts, references, records=records, task=tasks)
        groups = groups_of(len(texts), columns.get("prompt_id"), records, references)
        reports = getattr(self.args, "report_to", None)
        log_means(
            lambda: batch_means(scores, groups),
            step_of(columns.get("trainer_state")),
            tensorboard=reports is None or "tensorboard" in reports,
        )
        return scores.rewards


orms["assay"] = AssayReward
