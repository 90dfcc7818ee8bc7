"""Draw the throughput that `assay bench --json` measured as an SVG of bars (docs/throughput.svg).

    assay bench --json --repeats 15 > bench.json
    python loadtests/throughput_chart.py bench.json -o docs/throughput.svg

Needs only the standard library. The bars are responses per second, from the median of each benchmark's runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

LANES = {
    "in_process_all_cores": "Assay in process, {cores} cores",
    "in_process": "Assay in process, one thread",
    "http_arrow": "Assay over HTTP, Arrow batches",
    "http_json": "Assay over HTTP, JSON batches",
    "singles": "Assay over HTTP, single requests",
    "plain_python": "plain Python in process, one thread",
}
"""Benchmarks in the order of the bars, with their labels."""

LEFT, BAR, ROW, WIDTH = 280, 400, 30, 780
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#24292f}.assay{fill:#0f766e}.plain{fill:#8c959f}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.assay{fill:#2dd4bf}.plain{fill:#8b949e}}"
)


def chart(results: dict[str, Any]) -> str:
    """Return the SVG of the results of `assay bench --json`."""
    rates = {name: results["lanes"][name]["responses_per_second"] for name in LANES if name in results["lanes"]}
    largest = max(rates.values())
    height = ROW * len(rates) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Responses scored per second"><style>{STYLE}</style>'
    ]
    for row, (name, rate) in enumerate(rates.items()):
        top, width = ROW * row + 8, max(1.0, BAR * rate / largest)
        colour = "plain" if name == "plain_python" else "assay"
        label = LANES[name].format(cores=results["machine"]["cores"])
        parts += [
            f'<text x="{LEFT - 10}" y="{top + 15}" text-anchor="end">{label}</text>',
            f'<rect class="{colour}" x="{LEFT}" y="{top}" width="{width:.1f}" height="20" rx="2"/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{top + 15}">{rounded(rate):,}</text>',
        ]
    parts.append(f'<text x="{LEFT}" y="{height - 8}">responses per second</text></svg>')
    return "\n".join(parts) + "\n"


def rounded(rate: float) -> int:
    """Return the rate to three significant digits: more would vary from run to run."""
    return int(float(f"{rate:.3g}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="output of assay bench --json")
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.output.write_text(chart(json.loads(chosen.results.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
