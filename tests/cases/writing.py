"""Helpers that write answers for cases."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Steps = list[dict[str, Any]]


class Case(NamedTuple):
    """One response and its expected components, reason or reward."""

    name: str
    response: str
    expected: dict[str, Any]
    reference: str | dict[str, Any]
    settings: dict[str, Any]


def step(action: str, objects: str = "", parameters: str = "") -> dict[str, Any]:
    """Return a step as JSON; objects and parameters are separated by `|`."""
    return {
        "action": action,
        "objects": objects.split("|") if objects else [],
        "parameters": parameters.split("|") if parameters else [],
    }


ONE_STEP: Steps = [step("add", "pbs", "5 min")]
KEY = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}'
ORC = "Step 1: Add the PBS for 5 minutes."


def answer(key: str = KEY, orc: str = ORC, think: str = "t", note: str = "n") -> str:
    """Write the four sections around lines of key and orc."""
    return f"<think>{think}</think>\n<key>\n{key}\n</key>\n<orc>\n{orc}\n</orc>\n<note>{note}</note>"


def told(steps: Steps, filler: str = "") -> str:
    """Return an answer whose prose covers every step."""
    prose = [" and ".join([s["action"], *s["objects"], *s["parameters"]]) + filler for s in steps]
    return answer(
        "\n".join(f"Step {i}: {json.dumps(s, ensure_ascii=False)}" for i, s in enumerate(steps, 1)),
        "\n".join(f"Step {i}: {text}" for i, text in enumerate(prose, 1)),
    )


def case(name: str, response: str, expected: Any, reference: Steps | str = ONE_STEP, **settings: Any) -> Case:
    """Return a case; a string is the expected reason."""
    expected = {"reason": expected} if isinstance(expected, str) else expected
    written = reference if isinstance(reference, str) else {"steps": reference}
    return Case(name, response, expected, written, settings)
