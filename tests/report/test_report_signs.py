"""Signs of reward hacking: each occurs for a response that shows it, none for an honest one."""

from __future__ import annotations

import pytest

from assay.research.reports.statistics import SIGNS, Tallies, split_parts
from assay.service.records.rows import Location, Rollout
from tests.cases import told
from tests.cases.writing import answer, step

R = [step("add", "cells|pbs", "5 ml"), step("spin", "cells", "5 min"), step("store", "pellet"), step("add", "dmem")]
HONEST = told(R, ", gently and with care")
WORDS = " ".join(f"word{k}" for k in range(80))


def shown(response: str, reference: object = None, prefilled: bool = False) -> set[str]:
    """Return the names of the signs that a response shows."""
    tallies = Tallies()
    rollout = Rollout(Location("line", 1), b"", response=response, reference=reference or {"steps": R})
    tallies.add(rollout, split_parts(response.encode(), prefilled), 0.5)
    return {name for name, tally in tallies.by_sign.items() if tally.number}


def test_an_honest_response_shows_none():
    assert shown(HONEST) == set()
    assert shown(HONEST.removeprefix("<think>"), prefilled=True) == set()
    assert shown(HONEST, told(R)) == set()


@pytest.mark.parametrize(
    ("response", "found"),
    [
        (told([*R, R[1]]), {"duplicate_steps"}),
        (told(R, " so" * 30), {"padding"}),
        ("x" * 2000 + HONEST, {"padding"}),
        (HONEST + "x" * 2000, {"padding"}),
        (HONEST.replace("gently", WORDS, 1), set()),
        (told([step("add"), step("spin"), step("store")]), {"trivial_steps"}),
        (told(R[:1]), {"too_few_steps"}),
        (HONEST.replace("<think>t<", "<think> <"), {"empty_sections"}),
        (HONEST.replace("<note>n<", "<note><"), {"empty_sections"}),
    ],
)
def test_signs(response, found):
    assert shown(response) == found


def test_signs_that_depend_on_the_reference():
    key = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": []}'
    assert shown(answer(key, key), {"steps": R[:1]}) == {"key_as_prose"}
    assert shown(told([*R, R[1]]), {"steps": [*R, R[1]]}) == set()  # repeated there, too
    assert "copied_reference" in shown(HONEST, HONEST.replace("\n", "\n\n"))
    lines = HONEST.partition("<key>\n")[2].partition("\n</key>")[0]
    assert "copied_reference" in shown(HONEST, lines)
    assert "copied_reference" not in shown(HONEST, lines.replace("5 ml", "5  ml"))


def test_tallies():
    tallies = Tallies()
    for k, reward in enumerate([1.0, 0.0, 0.5]):
        response = told(R) + ("x" * 2000 if k == 0 else "")
        rollout = Rollout(Location("line", k + 1), b"", response=response, reference={"steps": R})
        tallies.add(rollout, split_parts(response.encode()), reward)
    tally = tallies.by_sign["padding"]
    assert (tally.number, tally.mean, [location.number for location in tally.locations]) == (1, 1.0, [1])
    assert tallies.mean_without("padding") == 0.25
    assert tallies.mean_without("trivial_steps") == 0.5
    assert tallies.share("padding") == pytest.approx(1 / 3)
    assert [name for name in tallies.by_sign if tallies.is_suspicious(name)] == ["padding"]
    assert len({sign.name for sign in SIGNS}) == len(SIGNS)
