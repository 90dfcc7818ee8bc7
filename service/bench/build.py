"""Creates benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..scoring.scorer import Scorer
from .benchmarks.floor import Floor
from .benchmarks.in_process import InProcess
from .benchmarks.over_http import OverHttp
from .benchmarks.plain_python import PlainPython
from .benchmarks.singles import BareSingles, ServiceSingles, Size
from .checkout import plain_scorer
from .measure import Benchmark

__all__ = ["build"]

WITHOUT_PYARROW = "pyarrow is not installed (assay[arrow])"


def build(
    names: Collection[str], request: dict[str, Any], plain_responses: int, singles: Size
) -> tuple[list[Benchmark], dict[str, str]]:
    """Return the benchmarks with these names, and the skipped ones with the reason.

    Computes the rewards that they are checked against; plain Python verifies these. Raises NotACheckoutError.
    """
    rewards = Scorer().score(request["responses"], request["references"], request["reference_index"]).rewards
    makers: dict[str, Callable[[], Benchmark]] = {
        "in_process": lambda: InProcess(request, rewards, threads=1),
        "in_process_all_cores": lambda: InProcess(request, rewards, threads=None),
        "http_json": lambda: OverHttp(request, rewards),
        "http_arrow": lambda: arrow_benchmark()(request, rewards),
        "floor": lambda: Floor(request),
        "singles": lambda: ServiceSingles(request, rewards, singles),
        "singles_bare": lambda: BareSingles(request, singles),
        "plain_python": lambda: PlainPython(request, rewards, plain_scorer(), plain_responses),
    }
    benchmarks, skipped = [], {}
    for name in makers:
        try:
            if name in names:
                benchmarks.append(makers[name]())
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            skipped[name] = WITHOUT_PYARROW
    return benchmarks, skipped


def arrow_benchmark() -> Any:
    from .benchmarks.over_arrow import OverArrow

    return OverArrow
