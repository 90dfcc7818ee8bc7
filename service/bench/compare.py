"""Compares the JSON results of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

__all__ = ["UnreadableResultsError", "compare", "comparison_text", "read_results"]

CIRCUMSTANCES = ("batch", "machine", "skipped")
"""Parts that should be equal for comparable results."""


class UnreadableResultsError(ValueError):
    """A file is not the output of `assay bench --json`."""


def read_results(path: Path) -> dict[str, Any]:
    """Read earlier results; raises UnreadableResultsError."""
    try:
        results = orjson.loads(path.read_bytes())
        _ = [(benchmark["responses_per_second"], benchmark["responses"]) for benchmark in results["lanes"].values()]
        _ = [(ratio["median"], ratio["cpu"]) for ratio in results["ratios"].values()]
        _ = [results[part].items() for part in CIRCUMSTANCES]
    except OSError as error:
        raise UnreadableResultsError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnreadableResultsError(f"{path} is not the output of `assay bench --json`") from None
    return results


def compare(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return `now` over `then` for every throughput and ratio in both, and what else differs."""
    return {
        "ratios": {
            name: {key: over(now["ratios"][name][key], then["ratios"][name][key]) for key in ("median", "cpu")}
            for name in now["ratios"]
            if name in then["ratios"]
        },
        "responses_per_second": {
            name: over(now["lanes"][name]["responses_per_second"], then["lanes"][name]["responses_per_second"])
            for name in now["lanes"]
            if name in then["lanes"]
        },
        "differences": differences(now, then),
    }


def over(now: float | None, then: float | None) -> float | None:
    return now / then if now is not None and then else None


def differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return sizes, versions and cores that differ: [now, then] by name, None if missing."""
    found = {}
    for part in CIRCUMSTANCES:
        for name in sorted(now[part].keys() | then[part].keys()):
            pair = [now[part].get(name), then[part].get(name)]
            if pair[0] != pair[1]:
                found[f"{part}.{name}"] = pair
    return found


def comparison_text(compared: Mapping[str, Any], earlier: Path) -> str:
    """Format the comparison as a table."""
    lines = ["", f"{f'now over {earlier.name}':<52}{'wall':>8}{'CPU':>8}"]
    lines += [
        f"{name:<52}{format_ratio(pair['median'])}{format_ratio(pair['cpu'])}"
        for name, pair in compared["ratios"].items()
    ]
    lines += [
        f"{f'{name}, responses per second':<52}{format_ratio(rate)}"
        for name, rate in compared["responses_per_second"].items()
    ]
    if compared["differences"]:
        lines += ["", "The runs differ, so these figures may not be comparable:"]
        lines += [f"  {name}: {now} now, {then} then" for name, (now, then) in compared["differences"].items()]
    return "\n".join(lines)


def format_ratio(ratio: float | None) -> str:
    return f"{'':>8}" if ratio is None else f"{ratio:>8.3f}"
