"""Compile the kernels of the installed package into it: for this CPU, and for all usual ones of its architecture.

    python deploy/kernels.py

The image and `make wheel` do this. An installation uses them with the same versions of Python, Numba and NumPy.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from assay.kernels.compiler import PORTABLE, SHIPPED


def main() -> None:
    targets: list[dict[str, str]] = [{}]
    if platform.machine() in PORTABLE:  # no further features: unset, Numba would add those of this CPU
        targets.append({"NUMBA_CPU_NAME": PORTABLE[platform.machine()][0], "NUMBA_CPU_FEATURES": ""})
    for target in targets:
        command = [sys.executable, "-c", "from assay.kernels.warmup import warmup; print(warmup())"]
        subprocess.run(command, check=True, env={**os.environ, **target, "ASSAY_CACHE_DIR": str(SHIPPED)})
    for path in (SHIPPED, *SHIPPED.rglob("*")):  # a cache is private; an installation is for all users
        path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    main()
