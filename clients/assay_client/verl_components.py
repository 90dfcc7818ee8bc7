"""Components of the rewards per training step of verl: `python -m assay_client.verl_components FOLDER`.

During training, verl logs the reward only, but `trainer.rollout_data_dir=FOLDER` makes it write every sample of step N
with all numbers of the reward function to FOLDER/N.jsonl. This program reads those files as they appear and writes one
line per step, the means of all `score_…` numbers except `score_task` and `score_reason_code`, the mean standard
deviation within groups and the share of groups without spread, to a CSV file and, with --tensorboard, to TensorBoard.
Samples that Assay has not scored (ASSAY_CLIENT_DATA_SOURCES) are left out.

The default trainer of verl 0.9 writes the response, the reference and the reward of each sample, but no other numbers.
Such samples are scored again by the service at ASSAY_URL, with the settings that the environment names, and their
rewards must be those of the file: otherwise the program stops. Samples whose reference is none of SCORE's are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import isclose
from pathlib import Path
from typing import Any

from .adapters.common import reference_of, score_rows, sync_client, texts_of
from .adapters.for_verl import checked_sources, configured
from .adapters.metrics import MEANINGFUL, metrics_of, sample_means, spread_means
from .client import Client
from .errors import AssayError, InvalidReference, issues_by_position
from .tasks import SCORE
from .training_logs import tensorboard_writer
from .transport.waiting import completed

SPREAD = ("score_group_std", "score_groups_without_spread")
COLUMNS = ("step", "samples", "score", *MEANINGFUL, *SPREAD)
SETTLE_SECONDS = 2.0
"""A file that has not changed for this long is complete."""


MAX_BATCH = 512
"""Samples that are scored in one request."""

ROUNDING = 1e-5
"""Relative difference of a reward and the same reward in single precision, as verl writes it, at most."""


class DumpError(Exception):
    """A file whose samples cannot be reported, with the reason."""


def step_means(path: Path) -> dict[str, float]:
    """Return the means over the samples of one step, by column; a column without numbers is left out.

    The mean of a component or of a reason is over the samples of tasks that have it. The groups are the samples with
    the same prompt. Raise DumpError, and AssayError if the samples have to be scored and cannot be.
    """
    samples = read_samples(path)
    if any("score_readable" in sample for _, sample in samples):
        numbered = [sample for _, sample in samples if isinstance(sample.get("score_readable"), (int, float))]
        samples_of_assay = [sample for sample in numbered if sample.get("score_applies") != 0]
    else:
        samples_of_assay = scored_again(path, samples)
    return means_of(path, samples_of_assay)


def read_samples(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the samples of a file with the numbers of their lines."""
    samples = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                sample = json.loads(line)
            except ValueError:
                raise DumpError(f"{path}, line {number}: not JSON") from None
            if not isinstance(sample, dict):
                raise DumpError(f"{path}, line {number}: not an object")
            samples.append((number, sample))
    return samples


def scored_again(path: Path, samples: Sequence[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the samples whose reference is one of SCORE with their numbers, from the service."""
    for number, sample in samples:
        missing = [name for name in ("output", "gts", "score") if name not in sample]
        if missing:
            detail = f"neither components nor {' and '.join(missing)}, which are needed to compute them"
            raise DumpError(f"{path}, line {number}: the sample has {detail}")
    other_tasks = sorted(set((checked_sources({}) or {}).values()) - {SCORE})
    if other_tasks:
        raise DumpError(f"{path}: the samples do not name their task, and {', '.join(other_tasks)} are among the tasks")
    client = configured(sync_client, {})
    scored = []
    for k in range(0, len(samples), MAX_BATCH):
        scored += score_samples(client, path, samples[k : k + MAX_BATCH])
    if samples and not scored:
        raise DumpError(f"{path}: no sample has a reference of SCORE")
    if len(scored) < len(samples):
        left_out = len(samples) - len(scored)
        print(f"{path}: {left_out} of {len(samples)} samples have no reference of SCORE: left out", file=sys.stderr)
    return scored


def score_samples(client: Client, path: Path, samples: Sequence[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    texts = texts_of([sample["output"] for _, sample in samples], [number for number, _ in samples], "output")
    references = [reference_of(sample["gts"]) for _, sample in samples]
    rows = list(range(len(samples)))
    while rows:
        try:
            scores = completed(score_rows(client, texts, references, None, rows))
            break
        except InvalidReference as error:
            invalid_rows = issues_by_position(error, rows)
            if not invalid_rows:
                raise
            rows = [row for row in rows if row not in invalid_rows]
    else:
        return []
    scored = []
    for row, score in zip(rows, scores.rows(), strict=True):
        number, sample = samples[row]
        if not isclose(score.reward, float(sample["score"]), rel_tol=ROUNDING, abs_tol=ROUNDING):
            detail = f"the service gives the reward {score.reward:.6g}, and the file says {sample['score']}"
            hint = "set ASSAY_CLIENT_CONFIG to the settings of the training run"
            raise DumpError(f"{path}, line {number}: {detail}: {hint}")
        scored.append({**sample, **metrics_of(score)})
    return scored


def means_of(path: Path, samples: Sequence[dict[str, Any]]) -> dict[str, float]:
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
    """Report every step once, or with --follow until interrupted; exit with 1 if a step cannot be reported."""
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
        if not options.follow and not any(path.stem.isdigit() for path in options.folder.glob("*.jsonl")):
            raise DumpError(f"{options.folder}: no file of a step, such as 1.jsonl")
    except KeyboardInterrupt:
        pass
    except (AssayError, DumpError, OSError) as error:
        raise SystemExit(f"{parser.prog}: {error}") from None
    finally:
        if options.csv:
            sink.close()


if __name__ == "__main__":
    main()
