"""Installation of Debian's packages, where that is possible, for tests that need a program or data of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

INSTALLED_WITHIN = 600.0


def install(package: str) -> bool:
    """Install a package as root; return False if that is not possible."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    print(f"Installing Debian's {package} …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        try:
            subprocess.run(
                ["apt-get", "--quiet", *arguments],
                env=environment,
                check=True,
                timeout=INSTALLED_WITHIN,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Installation failed: {error}", file=sys.stderr)
            return False
    return True
