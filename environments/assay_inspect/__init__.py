"""Tasks and a scorer for Inspect AI: rows of `assay prepare`, scored by a service."""

from .scorer import assay
from .tasks import bioprobench_err, bioprobench_ord, bioprobench_pqa, mixed, protocols

__all__ = ["assay", "bioprobench_err", "bioprobench_ord", "bioprobench_pqa", "mixed", "protocols"]
