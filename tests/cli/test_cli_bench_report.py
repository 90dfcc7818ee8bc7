"""Reports of the bench: ratios and tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assay.service.bench import TITLES
from assay.service.bench.benchmarks import RATIOS, Results, as_parts, findings, results_json
from assay.service.bench.measure import Run, Timing
from assay.service.terminal import show

BATCH = {
    "responses": 10,
    "mean_response_bytes": 2000,
    "references": 2,
    "body_bytes": 30_000,
    "repeats": 3,
    "seed": 0,
}


@pytest.fixture
def as_text(capsys: pytest.CaptureFixture[str]) -> Callable[[Results], str]:
    """Return what is printed."""

    def text(results: Results) -> str:
        show(*as_parts(results))
        return capsys.readouterr().out

    return text


def timing(name: str, responses: int, seconds: list[float], cpu: list[float | None] | None = None) -> Timing:
    runs = zip(seconds, cpu or [None] * len(seconds), strict=True)
    return Timing(name, name, responses, tuple(Run(wall, work) for wall, work in runs))


FAST = timing("in_process", 10, [1.0, 2.0, 9.0], [1.0, 1.0, 1.0])
PLAIN = timing("plain_python", 2, [3.0, 20.0, 36.0], [4.0, 5.0, 6.0])


def test_ratios_are_of_neighbouring_turns_for_one_response() -> None:
    (found,) = findings([FAST, PLAIN])
    assert found.ratio.name == "in_process_speedup"
    assert (found.low, found.median, found.high) == (15.0, 20.0, 50.0)
    assert found.cpu == 25.0
    assert FAST.rate == 5.0
    assert FAST.spread == 4.0


def test_without_a_cpu_clock_there_is_no_cpu_ratio() -> None:
    (found,) = findings([timing("in_process", 1, [1.0]), timing("plain_python", 1, [2.0], [2.0])])
    assert found.cpu is None
    assert found.median == 2.0


def test_threads_save_time_and_no_work() -> None:
    (found,) = findings([FAST, timing("in_process_all_cores", 10, [0.5, 1.0, 4.5], [1.0, 1.0, 1.0])])
    assert found.median == 2.0
    assert found.cpu is None


def test_every_ratio_is_of_known_benchmarks() -> None:
    assert {benchmark for ratio in RATIOS for benchmark in (ratio.of, ratio.over)} == set(TITLES)


def test_goals() -> None:
    by_name = {ratio.name: ratio for ratio in RATIOS}
    cases = [
        ("in_process_speedup", 20.0, True),
        ("in_process_speedup", 19.9, False),
        ("arrow_over_floor", 0.8, True),
        ("arrow_over_floor", 0.81, False),
        ("http_speedup", 0.0, None),
    ]
    assert [(name, value, by_name[name].met(value)) for name, value, _ in cases] == cases
    assert {ratio.name: ratio.goal for ratio in RATIOS if ratio.goal} == {
        "in_process_speedup": "≥ 20",
        "all_cores_speedup": "≥ 1.7",
        "http_over_floor": "≤ 1.5",
        "arrow_over_floor": "≤ 0.8",
        "singles_over_bare": "≥ 0.7",
    }


def test_a_missed_goal_is_reported(as_text) -> None:
    met, missed = (
        as_text(Results([FAST, timing("plain_python", 10, [wall * factor for wall in (1.0, 2.0, 9.0)])], BATCH, {}))
        for factor in (21, 19)
    )
    assert "missed" not in met
    assert "missed: slower than the goal" in missed


@pytest.mark.parametrize(("share", "marked"), [(0.91, True), (0.89, False)])
def test_a_load_generator_at_its_limit_is_marked(as_text, share: float, marked: bool) -> None:
    singles = Timing("singles", "singles", 10, (Run(1.0, 0.5, share), Run(2.0, 0.5, 2 * share)))
    assert singles.client_share == pytest.approx(share)
    text = as_text(Results([singles], BATCH, {}))
    assert (f"{100 * share:.0f} % !" in text) is marked
    assert ("the server may be faster" in text) is marked


@pytest.mark.parametrize(("load", "said"), [(1000.0, True), (0.0, False), (None, False)])
def test_a_busy_machine_is_reported(as_text, load: float | None, said: bool) -> None:
    assert ("the machine was busy" in as_text(Results([FAST], BATCH, {}, load))) is said


def test_the_results_results_json() -> None:
    document = results_json(Results([FAST, PLAIN], BATCH, {"http_arrow": "why"}, 1.5))
    assert document["ratios"]["in_process_speedup"] == {
        "median": 20.0,
        "low": 15.0,
        "high": 50.0,
        "cpu": 25.0,
        "goal": "≥ 20",
        "met": True,
    }
    assert document["lanes"]["in_process"] == {
        "responses": 10,
        "responses_per_second": 5.0,
        "spread": 4.0,
        "seconds": [1.0, 2.0, 9.0],
        "cpu_seconds": [1.0, 1.0, 1.0],
        "client_share": None,
    }
    assert (document["batch"], document["skipped"], document["load_average"]) == (BATCH, {"http_arrow": "why"}, 1.5)
    assert document["machine"].keys() >= {"assay", "cores", "python", "numba"}
