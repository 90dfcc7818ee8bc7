"""Reward and components over the steps of one run or of several seeds, as a PNG and as a table.

python plot.py run-0.jsonl run-1.jsonl run-2.jsonl -o rewards.png
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

PANELS = ("reward", "score/format", "score/consistency", "score/scale", "score/order", "score/content")


def read_run(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tenths(run: list[dict[str, float]], name: str) -> tuple[float, float]:
    """Return the means over the first and the last tenth of the steps."""
    n = max(1, len(run) // 10)
    return mean(entry[name] for entry in run[:n]), mean(entry[name] for entry in run[-n:])


def smoothed(values: list[float], width: int = 5) -> list[float]:
    return [mean(values[max(0, k - width + 1) : k + 1]) for k in range(len(values))]


def table(runs: dict[str, list[dict[str, float]]]) -> str:
    """Return a table with one line per run: the rise, also relative to the variation of a step's mean."""
    heads = ("run", "steps", "reward, first tenth", "last tenth", "rise", "in standard errors")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, run in runs.items():
        first, last = tenths(run, "reward")
        n = max(1, len(run) // 10)
        rest = [after["reward"] - before["reward"] for before, after in pairwise(run)]
        error = stdev(rest) / 2**0.5 * (2 / n) ** 0.5  # of a difference of two means of n steps
        lines.append(
            f"| {name} | {len(run)} | {first:.3f} | {last:.3f} | {last - first:+.3f} | {(last - first) / error:.0f} |"
        )
    return "\n".join(lines)


def doses(runs: dict[str, list[dict[str, float]]]) -> str:
    """Return a table of the share of right doses, one line per run."""
    lines = ["| run | right doses, first tenth | last tenth |", "|---|---|---|"]
    for name, run in runs.items():
        first, last = tenths(run, "rewards/dose_share/mean")
        lines.append(f"| {name} | {first:.2f} | {last:.2f} |")
    return "\n".join(lines)


def draw(runs: dict[str, list[dict[str, float]]], path: Path) -> None:
    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6), sharex=True, layout="constrained")
    for axis, name in zip(axes.flat, PANELS, strict=True):
        for number, (label, run) in enumerate(runs.items()):
            values = [entry[name] for entry in run]
            steps = range(1, len(values) + 1)
            axis.plot(steps, values, color=f"C{number}", alpha=0.25, linewidth=1)
            axis.plot(steps, smoothed(values), color=f"C{number}", linewidth=1.8, label=label)
        axis.set_title(name.removeprefix("score/"))
        axis.set_ylim(0, 1.55 if name == "score/content" else 1.05)
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("GRPO step")
    axes[0, 0].legend(loc="lower right")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="Plot reward and components over the steps of GRPO.")
    parser.add_argument("runs", nargs="+", type=Path, help="files written by train.py")
    parser.add_argument("-o", "--output", type=Path, default=Path("rewards.png"))
    chosen = parser.parse_args()
    runs = {path.stem: read_run(path) for path in chosen.runs}
    draw(runs, chosen.output)
    print(table(runs), doses(runs), sep="\n\n")


if __name__ == "__main__":
    main()
