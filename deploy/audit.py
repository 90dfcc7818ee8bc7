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
OWN = "assay"


def findings(report: dict[str, Any]) -> tuple[list[str], list[str], int]:
    """Return a line for each vulnerability, the packages not audited, and the number audited, from pip-audit's JSON."""
    others = [entry for entry in report["dependencies"] if entry["name"] != OWN]
    skipped = sorted(entry["name"] for entry in others if "skip_reason" in entry)
    known = [
        f"{entry['name']} {entry['version']}: {found['id']}"
        + (f", fixed in {', '.join(found['fix_versions'])}" if found["fix_versions"] else "")
        for entry in others
        for found in entry.get("vulns", ())
    ]
    return known, skipped, len(others) - len(skipped)


def verdict(known: Sequence[str], skipped: Sequence[str], audited: int) -> tuple[int, str]:
    """Return the exit code and the text to print."""
    lines = [*known, f"{audited} packages audited, {len(known)} known vulnerabilities."]
    if skipped and audited:
        lines.append(f"Not audited, because the registry does not know them: {', '.join(skipped)}.")
    elif skipped:
        lines.append("NOTHING WAS AUDITED: no advisories can be reached. The packages may be vulnerable.")
    return VULNERABLE if known else UNKNOWN if skipped or not audited else CLEAR, "\n".join(lines)


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
