"""Known vulnerabilities of all installed packages, by pip-audit; a missing answer is never reported as safe.

    make audit
    python deploy/audit.py SITE_PACKAGES [pip-audit]

pip-audit asks a registry for its advisories; if that provides none, it lists every package as not audited and still
exits with 0. Exit codes here: 0 every package was audited and none is known to be vulnerable; 1 some are; 3 none is
known, but some could not be audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["findings", "verdict"]

CLEAR, VULNERABLE, UNKNOWN = 0, 1, 3
AUDITED_PROJECT = "assay"


def findings(report: dict[str, Any]) -> tuple[list[str], list[str], int]:
    """Return a line for each vulnerability, the packages not audited, and the number audited, from pip-audit's JSON."""
    packages = [entry for entry in report["dependencies"] if entry["name"] != AUDITED_PROJECT]
    skipped = sorted(package["name"] for package in packages if "skip_reason" in package)
    vulnerabilities = [
        f"{package['name']} {package['version']}: {advisory['id']}"
        + (f", fixed in {', '.join(advisory['fix_versions'])}" if advisory["fix_versions"] else "")
        for package in packages
        for advisory in package.get("vulns", ())
    ]
    return vulnerabilities, skipped, len(packages) - len(skipped)


def verdict(vulnerabilities: Sequence[str], skipped: Sequence[str], audited: int) -> tuple[int, str]:
    """Return the exit code and the text to print."""
    lines = [*vulnerabilities, f"{audited} packages audited, {len(vulnerabilities)} known vulnerabilities."]
    if skipped and audited:
        lines.append(f"Not audited, because the registry does not know them: {', '.join(skipped)}.")
    elif skipped:
        lines.append("NOTHING WAS AUDITED: no advisories can be reached. The packages may be vulnerable.")
    return VULNERABLE if vulnerabilities else UNKNOWN if skipped or not audited else CLEAR, "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    packages, *program = arguments
    command = [*(program or ["pip-audit"]), "--path", packages, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        print(done.stderr.strip() or "pip-audit wrote nothing", file=sys.stderr)
        print("NOTHING WAS AUDITED: pip-audit did not finish.", file=sys.stderr)
        return UNKNOWN
    code, text = verdict(*findings(report))
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
