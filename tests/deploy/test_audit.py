"""What is made of pip-audit's report: above all, that no answer is no all-clear."""

from __future__ import annotations

import sys

import audit

GOOD = {"name": "numpy", "version": "2.4.6", "vulns": []}
BAD = {
    "name": "left",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "right", "skip_reason": "Dependency not found on PyPI and could not be audited: right (1.0)"}
OWN = {"name": "assay", "skip_reason": "distribution marked as editable"}


def judged(*dependencies):
    return audit.verdict(*audit.findings({"dependencies": [*dependencies]}))


def test_a_clean_report_is_an_all_clear():
    assert judged(GOOD, OWN) == (0, "1 packages audited, 0 known vulnerabilities.")


def test_vulnerabilities_are_named_with_their_fix():
    code, text = judged(GOOD, BAD, SKIPPED)
    assert code == 1
    assert "left 1.0: PYSEC-1, fixed in 1.1" in text
    assert "Not audited, because the registry does not know them: right." in text


def test_no_answer_is_no_all_clear():
    assert judged(GOOD, SKIPPED)[0] == 3
    code, text = judged(SKIPPED, OWN)
    assert code == 3
    assert "NOTHING WAS AUDITED" in text
    assert judged(OWN)[0] == 3


def test_a_tool_that_fails_is_no_all_clear(capfd):
    failing = [sys.executable, "-c", "import sys; sys.exit('no network')"]
    assert audit.main(["somewhere", *failing]) == 3
    shown = capfd.readouterr().err
    assert "no network" in shown
    assert "NOTHING WAS AUDITED" in shown
