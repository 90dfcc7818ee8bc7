"""Write derived files: the dashboard's JSON, and the alerts in the format of the Prometheus operator.

python deploy/derive.py            # write both
python deploy/derive.py --check    # only check whether they are up to date (exit code 1 if not)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import indent

from dashboard import dashboard

HERE = Path(__file__).parent

RULE_HEAD = """\
# Written by deploy/derive.py from alerts.yml: change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: assay
  labels:
    app.kubernetes.io/name: assay
spec:
"""


def derived() -> dict[Path, str]:
    """Return every derived file with its text."""
    alerts = (HERE / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    groups = alerts[alerts.index("groups:") :]
    return {
        HERE / "grafana" / "assay.json": json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n",
        HERE / "prometheus" / "prometheusrule.yaml": RULE_HEAD + indent(groups, "  "),
    }


def main(arguments: list[str]) -> int:
    stale = [path for path, text in derived().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(HERE)} is not up to date: python deploy/derive.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(derived()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(HERE)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
