"""Components of the rewards per training step of verl: `python -m assay_client.verl_components FOLDER`.

During training, verl logs the reward only, but `trainer.rollout_data_dir=FOLDER` makes it write every sample of step N
with all numbers of the reward function to FOLDER/N.jsonl. This program reads those files as they appear and writes one
line per step, the means of all `score_…` numbers except `score_task` and `score_reason_code`, the mean standard
deviation within groups and the share of groups without spread, to a CSV file and, with --tensorboard, to TensorBoard.
Samples that Assay has not scored (ASSAY_CLIENT_DATA_SOURCES) are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .adapters.metrics import MEANINGFUL, sample_means, spread_means
from .training_logs import tensorboard_writer

SPREAD = ("score_group_std", "score_groups_without_spread")
COLUMNS = ("step", "samples", "score", *MEANINGFUL, *SPREAD)
SETTLE_SECONDS = 2.0
"""A file that has not changed for this long is complete."""


def step_means(path: Path) -> dict[str, float]:
    """Return the means over the samples of one step, by column; a column without numbers is left out.

    The mean of a component or of a reason is over the samples of tasks that have it. The groups are the samples with
    the same prompt.
    """
    with path.open(encoding="utf-8") as lines:
        samples = [sample for sample in map(json.loads, lines) if sample.get("score_applies") != 0]
    means = {"step": float(path.stem), "samples": float(len(samples))}
    scored = [sample for sample in samples if isinstance(sample.get("score"), (int, float))]
    if scored:
        means["score"] = sum(sample["score"] for sample in scored) / len(scored)
    means |= sample_means(samples)
    grouped = [sample for sample in scored if "input" in sample]
    groups = [(sample["input"], str(sample.get("gts"))) for sample in grouped]
    spread = spread_means([sample["score"] for sample in grouped], groups)
    return means | {name.replace("/", "_"): mean for name, mean in spread.items()}


def finished_steps(folder: Path, follow: bool, poll: float = 1.0) -> Iterator[Path]:
    """Yield the files of all steps in order; with `follow`, forever, each once it is complete."""
    done: set[Path] = set()
    while True:
        waiting = [path for path in folder.glob("*.jsonl") if path.stem.isdigit() and path not in done]
        for path in sorted(waiting, key=lambda path: int(path.stem)):
            if follow and time.time() - path.stat().st_mtime < SETTLE_SECONDS:
                break
            done.add(path)
            yield path
        if not follow:
            return
        time.sleep(poll)


def tensorboard(folder: str) -> Callable[[dict[str, float]], None]:
    """Return a function that writes the means of a step as scalars `assay/…`; raise ImportError if not installed."""
    writer = tensorboard_writer(folder)

    def write(means: dict[str, float]) -> None:
        for name, mean in means.items():
            if name not in ("step", "samples"):
                writer.add_scalar(f"assay/{name}", mean, int(means["step"]))
        writer.flush()

    return write


def main(arguments: Sequence[str] | None = None) -> None:
    """Report every step once, or with --follow until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m assay_client.verl_components", description=__doc__)
    parser.add_argument("folder", type=Path, help="verl's trainer.rollout_data_dir")
    parser.add_argument("--csv", type=Path, help="file to write (default: standard output)")
    parser.add_argument("--tensorboard", metavar="LOGDIR", help="also write event files to this folder")
    parser.add_argument("--follow", action="store_true", help="wait for further steps until interrupted")
    options = parser.parse_args(arguments)
    sinks = [tensorboard(options.tensorboard)] if options.tensorboard else []
    sink: Any = options.csv.open("w", encoding="utf-8", newline="") if options.csv else sys.stdout
    try:
        table = csv.DictWriter(sink, COLUMNS)
        table.writeheader()
        for path in finished_steps(options.folder, options.follow):
            means = step_means(path)
            table.writerow({**means, "step": int(means["step"]), "samples": int(means["samples"])})
            sink.flush()
            for write in sinks:
                write(means)
    except KeyboardInterrupt:
        pass
    finally:
        if options.csv:
            sink.close()


if __name__ == "__main__":
    main()
