"""Invisible and look-alike characters are named where they keep a tag, a line or a step from being read."""

from __future__ import annotations

import pytest

from assay import Scorer, explain
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE

NBSP, ZERO_WIDTH, MARK, COLON = "\u00a0", "\u200b", "\ufeff", "\uff1a"


@pytest.mark.parametrize(
    ("response", "reason", "said"),
    [
        (RESPONSE.replace("<key>", f"<{ZERO_WIDTH}key>"), "missing_sections", "U+200B (zero width space): delete it."),
        (RESPONSE.replace("</key>", f"</key>{MARK}"), "missing_sections", "U+FEFF (zero width no-break space)"),
        (RESPONSE.replace("<key>", "<kеy>"), "missing_sections", "U+0435 (cyrillic small letter ie): write e."),
        (RESPONSE.replace("<key>", "＜key＞"), "missing_sections", "U+FF1C (fullwidth less-than sign): write <."),
        (
            RESPONSE.replace(KEY_LINE, KEY_LINE.replace(":", COLON, 1)),
            "bad_step_line",
            "U+FF1A (fullwidth colon): write :.",
        ),
        (
            RESPONSE.replace('"objects":', f'"objects"{NBSP}:'),
            "bad_step_json",
            "U+00A0 (no-break space): write a space.",
        ),
        (RESPONSE.replace("Step 1: Add", f"Step 1{COLON} Add"), None, "U+FF1A (fullwidth colon): write :."),
        (RESPONSE.replace("Step 1: Add", f"St{ZERO_WIDTH}ep 1: Add"), None, "U+200B (zero width space): delete it."),
    ],
)
def test_a_character_that_keeps_a_part_from_being_read_is_named(response: str, reason: str | None, said: str) -> None:
    explanation = explain(Scorer(), response, REFERENCE)
    assert explanation.reason != "ok"
    assert reason in (None, explanation.reason)
    assert explanation.failure is not None
    assert f"Line 1 has {said}" in explanation.failure.message
    assert explanation.failure.message in explanation.headline


def test_characters_that_do_no_harm_are_not_named() -> None:
    harmless = RESPONSE.replace("<think>t", f"<think>t{NBSP}{ZERO_WIDTH}{COLON}")
    failed = harmless.replace("</note>", "")
    for response in (harmless, failed):
        assert "U+" not in explain(Scorer(), response, REFERENCE).headline


def test_long_responses_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.service.explain.verdict.read_response", None)
    response = RESPONSE.replace("<think>", "<think>" + f"{NBSP}{ZERO_WIDTH}" * 20_000).replace("<key>", "")
    assert explain(Scorer(), response, REFERENCE).reason == "missing_sections"


STEP = '{"action": "mix", "objects": ["a"], "parameters": []}'


def answer(*actions: str, prose: str = "{} the a.") -> str:
    key = "\n".join(f"Step {k}: {STEP.replace('mix', action)}" for k, action in enumerate(actions, 1))
    orc = "\n".join(f"Step {k}: {prose.format(action)}" for k, action in enumerate(actions, 1))
    return f"<think>t</think>\n<key>\n{key}\n</key>\n<orc>\n{orc}\n</orc>\n<note>n</note>"


@pytest.mark.parametrize(
    ("actions", "prose", "outcome"),
    [
        (("mix", "spin", "wash"), "{} the a.", "ok"),
        (("mix",), "{} the a.", "ok: 1 of 3 steps"),
        (("mix", "spin", "wash", "dry", "heat", "cool"), "{} the a.", "ok: 6 steps instead of 3"),
        (("wash", "spin", "mix"), "{} the a.", "ok: order of actions"),
        (("mix", "spin", "wash"), "{} the a" + " slowly" * 60 + ".", "ok: 63 words per step"),
    ],
)
def test_ok_says_what_cost_most(actions: tuple[str, ...], prose: str, outcome: str) -> None:
    reference = {
        "steps": [{"action": action, "objects": ["a"], "parameters": []} for action in ("mix", "spin", "wash")]
    }
    explanation = explain(Scorer(), answer(*actions, prose=prose), reference)
    assert (explanation.reason, explanation.outcome) == ("ok", outcome)
