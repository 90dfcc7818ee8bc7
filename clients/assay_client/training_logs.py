"""Means of a batch in the logs of a training run: Weights & Biases, MLflow and TensorBoard, where one is active here.

Weights & Biases and MLflow have an active run in this process, or nothing is logged; TensorBoard has a folder that the
environment names (TENSORBOARD_DIR, as verl and slime read it, or TENSORBOARD_LOGGING_DIR of Hugging Face). A logger
that fails never fails a reward: that is a warning, once. ASSAY_CLIENT_LOG=all logs every number, in TRL's log, too.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from .errors import invalid_setting
from .tasks import REWARD_TASKS

logger = logging.getLogger("assay_client")

BATCH = "score/batch"
"""Number of the batch in this process, the axis of the others where the trainer passes no step."""

TENSORBOARD_VARIABLES = ("TENSORBOARD_DIR", "TENSORBOARD_LOGGING_DIR")
SUBFOLDER = "assay"
"""Subfolder of the trainer's folder: TensorBoard follows one file of a folder, and would leave the trainer's."""

CHOICES = ("main", "all")
LEFT_OUT = {
    f"score/{name}"
    for name in (
        *("step_gap", "semantics", "anchors", "score"),  # parts, sums and multiples of others
        *("accuracy", "exact_match", "text_similarity"),  # `passed` or `reward` of their tasks
        *("confidence", "called_erroneous"),  # neither good nor bad
        *(f"share_{task}" for task in REWARD_TASKS),  # of the data set, not of the policy
    )
}
"""Means that are logged on request only: the others tell as much."""

Log = Callable[[Mapping[str, float], int], None]
_batches = count(1)
_axes: set[str] = set()
"""Runs of Weights & Biases in which the axis is defined."""
_writers: dict[tuple[int, str], Any] = {}
_failed: set[str] = set()


def log_means(means: Callable[[], dict[str, float]], step: int | None = None, tensorboard: bool = True) -> None:
    """Log the means of a batch, at the trainer's step or else at the number of the batch.

    `means` is called only if anything logs. `tensorboard` is false if the trainer does not use it, whatever the
    environment says.
    """
    loggers = active_loggers(tensorboard)
    chosen = chosen_means(means()) if loggers else {}
    if not chosen:
        return
    if step is None:
        step = next(_batches)
        chosen[BATCH] = step
    for name, log in loggers.items():
        try:
            log(chosen, step)
        except Exception as error:  # noqa: PERF203  # of any kind: a library or its server
            if name not in _failed:
                _failed.add(name)
                logger.warning("%s does not take the means of a batch: %s: %s", name, type(error).__name__, error)


def chosen_means(means: Mapping[str, float]) -> dict[str, float]:
    """Return the means of a batch that say something: all of them if ASSAY_CLIENT_LOG is `all`; raise InvalidSetting.

    `main`, the default, leaves out what follows from other means or from the data set. What is left out depends on the
    name alone: the processes of a run must log the same names, whatever has happened in each.
    """
    choice = os.environ.get("ASSAY_CLIENT_LOG") or "main"
    if choice not in CHOICES:
        raise invalid_setting("ASSAY_CLIENT_LOG", f"must be one of: {', '.join(CHOICES)}")
    return {name: mean for name, mean in means.items() if choice == "all" or name not in LEFT_OUT}


def active_loggers(tensorboard: bool) -> dict[str, Log]:
    loggers: dict[str, Log] = {}
    run, mlflow = wandb_run(), sys.modules.get("mlflow")
    if run is not None:
        loggers["Weights & Biases"] = lambda means, step: log_to_wandb(run, means)
    if mlflow is not None and mlflow_run() is not None:
        loggers["MLflow"] = lambda means, step: mlflow.log_metrics(means, step=step)
    folder = next((os.environ[name] for name in TENSORBOARD_VARIABLES if os.environ.get(name)), None)
    if tensorboard and folder and os.environ.get("RANK", "0") == "0":
        path = os.path.join(os.path.expanduser(folder), SUBFOLDER)
        loggers["TensorBoard"] = lambda means, step: log_to_tensorboard(path, means, step)
    return loggers


def log_to_wandb(run: Any, means: Mapping[str, float]) -> None:
    """Add the means to the row that the trainer logs next: a separate row would move the step of its own."""
    if BATCH in means and run.id not in _axes:
        _axes.add(run.id)
        run.define_metric("score/*", step_metric=BATCH)
    run.log(dict(means), commit=False)


def log_to_tensorboard(folder: str, means: Mapping[str, float], step: int) -> None:
    key = os.getpid(), folder
    if key not in _writers:
        _writers[key] = tensorboard_writer(folder)
    for name, mean in means.items():
        _writers[key].add_scalar(name, mean, step)
    _writers[key].flush()


def tensorboard_writer(folder: str) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder)


def wandb_run() -> Any:
    run = getattr(sys.modules.get("wandb"), "run", None)
    return None if run is None or getattr(run, "disabled", False) else run


def mlflow_run() -> Any:
    active_run = getattr(sys.modules.get("mlflow"), "active_run", None)
    return None if active_run is None else active_run()


def run_name() -> str | None:
    """Return the name of the active run of this process, or the name in WANDB_NAME."""
    run = wandb_run()
    if run is not None:
        return run.name or run.id  # type: ignore[no-any-return]
    run = mlflow_run()
    if run is not None:
        return run.info.run_name or run.info.run_id  # type: ignore[no-any-return]
    return os.environ.get("WANDB_NAME")
