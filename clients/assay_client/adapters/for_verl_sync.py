"""for_verl.py for versions of verl before the reward loop: a synchronous `compute_score`."""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

from assay_client.adapters.for_verl import compute_score_batch
from assay_client.adapters.for_verl import compute_score_sync as compute_score

__all__ = ["compute_score", "compute_score_batch"]
