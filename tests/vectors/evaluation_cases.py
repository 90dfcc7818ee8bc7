"""Inputs of the evaluation metrics, each under both profiles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.cases import reading
from tests.cases.writing import KEY, ONE_STEP, answer, step, told
from tests.vectors import seeded
from tests.vectors.seeded import Dice, key_lines

PROFILES = ("paper", "thoth")
SEEDED = 60


def pairs() -> Iterator[tuple[str, str, str]]:
    """Yield a name, a response and a reference."""
    for group, cases in {"sections": reading.SECTIONS, "lines": reading.LINES, "json": reading.JSON}.items():
        for case in cases:
            if not case.settings:
                yield f"{group}/{case.name}", case.response, KEY
    a, b, c, d = (step(action) for action in "abcd")
    abc = key_lines([a, b, c])
    yield "order/same", told([a, b, c]), abc
    yield "order/one-missing", told([a, c]), abc
    yield "order/one-added", told([a, d, b, c]), abc
    yield "order/action-not-there-then-others", told([d, a, b, c]), abc
    yield "order/exchanged", told([b, a, c]), abc
    yield "order/reversed", told([c, b, a]), abc
    yield "order/nothing-shared", told([d, d]), abc
    yield "order/repeated", told([a, a, a]), key_lines([a, b, a])
    yield "order/empty-response", "", abc
    yield "gates/numbers-do-not-matter", told([a, b, c]).replace("Step 2", "Step 9"), abc
    yield "gates/coverage-does-not-matter", answer(abc, "nothing"), abc
    whole = [step("add", "lysis buffer|pbs", "5 ml|4 °C"), step("spin", "lysate", "300 × g")]
    for name, one in {
        "objects-in-another-order": step("add", "pbs|lysis buffer", "5 ml|4 °C"),
        "half-of-the-objects": step("add", "pbs", "5 ml|4 °C"),
        "words-of-objects": step("add", "cold lysis buffer", "5 ml"),
        "other-spelling-of-a-unit": step("add", "lysis buffer|pbs", "5 mL|4 ℃"),
        "no-parameters": step("add", "lysis buffer|pbs"),
        "no-objects": step("add", "", "5 ml"),
        "upper-case": step("ADD", "LYSIS BUFFER|PBS", "5 ML|4 °C"),
        "micro-sign": step("add", "lysis buffer|pbs", "5 µl"),
    }.items():
        yield f"content/{name}", told([one, whole[1]]), key_lines(whole)
    for name, objects, others in [
        ("low-line-is-in-a-word", "a_b", "a b"),
        ("micro-sign-is-in-a-word", "5 µl", "5 l"),
        ("greek-mu-is-in-a-word", "5 μl", "5 l"),
        ("micro-sign-and-greek-mu-differ", "5 µl", "5 μl"),
        ("per-cent-is-in-a-word", "70% ethanol", "70 ethanol"),
        ("hyphen-is-in-a-word", "ph-electrode", "ph electrode"),
        ("point-is-in-a-word", "0.5 ml", "0 5 ml"),
        ("no-words-in-the-response", "的", "pbs"),
        ("no-words-in-the-reference", "pbs", "水"),
        ("no-words-in-both", "的", "水"),
        ("lower-case-is-no-case-folding", "Straße", "STRASSE"),
        ("lower-case-of-a-dotted-capital", "İ", "i̇"),
        ("letters-that-are-not-ascii", "café", "caf"),
    ]:
        yield f"content/objects-{name}", told([step("add", objects)]), key_lines([step("add", others)])
        yield f"content/parameters-{name}", told([step("add", "b", objects)]), key_lines([step("add", "b", others)])
        yield f"content/action-{name}", told([step(objects, "b")]), key_lines([step(others, "b")])
    yield "content/parameters-on-one-side", told([step("add", "b", "的")]), key_lines([step("add", "b", "5 ml")])
    indented = key_lines([a, b]).replace("\nStep", "\n  Step")
    yield "lines/an-indented-step", answer(indented, "nothing"), key_lines([a, b])
    yield "lines/an-indented-step-of-the-reference", told([a, b]), indented
    yield "lines/an-indented-first-step", answer(f"  {KEY}", "nothing"), KEY
    yield "reference/an-answer", told(ONE_STEP), told(ONE_STEP)
    yield "reference/prose", told(ONE_STEP), "Add the PBS."
    yield "reference/empty", told(ONE_STEP), ""
    yield "reference/bad-json", told(ONE_STEP), f"{KEY}\nStep 2: {{]}}"
    yield "both-empty", "", ""
    yield "key-lines-without-sections", KEY, KEY
    for name, text in {
        "no-action": '{"objects": [], "parameters": []}',
        "action-of-spaces": '{"action": " Add ", "objects": ["pbs"], "parameters": ["5 min"]}',
        "action-is-null": '{"action": null, "objects": []}',
        "action-is-a-number": '{"action": 5}',
        "objects-are-null": '{"action": "add", "objects": null}',
        "objects-are-a-string": '{"action": "add", "objects": "pbs", "parameters": ["5 min"]}',
        "parameters-are-an-object": '{"action": "add", "objects": ["pbs"], "parameters": {"5 min": 1}}',
        "an-object-is-a-number": '{"action": "add", "objects": ["pbs", 5], "parameters": ["5 min"]}',
        "elements-are-values-of-every-type": '{"action": "add", "objects": [5, "pbs", null, true, ["x"], {"y": 1}], '
        '"parameters": [{"5 min": 1}, "5 min", 1.5, false, null, ["5 min"]]}',
        "objects-are-a-number": '{"action": "add", "objects": 5, "parameters": ["5 min"]}',
        "parameters-are-a-number": '{"action": "add", "objects": ["pbs"], "parameters": 0}',
        "objects-are-true": '{"action": "add", "objects": true, "parameters": ["5 min"]}',
        "blank-elements": '{"action": "add", "objects": ["pbs", " ", ""], "parameters": ["5 min"]}',
        "further-names": '{"action": "add", "objects": ["pbs"], "parameters": ["5 min"], "note": 1}',
        "not-a-number": '{"action": "add", "objects": ["pbs"], "parameters": ["5 min"], "x": NaN}',
        "empty-object": "{}",
        "array": "[]",
    }.items():
        yield f"fields/{name}", answer(f"Step 1: {text}"), KEY
        yield f"fields/reference-with-{name}", answer(), f"Step 1: {text}"
    for k in range(SEEDED):
        dice = Dice(f"evaluation {k}")
        reference = seeded.protocol(dice)
        response = seeded.answer(dice, seeded.revised(dice, reference))
        yield f"seeded/{k}", seeded.damaged(dice, response) if k % 4 == 0 else response, key_lines(reference)


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every pair whose texts have no lone surrogates, under each profile."""
    for name, response, reference in pairs():
        try:
            json.dumps([response, reference], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            continue
        for profile in PROFILES:
            given = {"profile": profile, "response": response, "reference": reference}
            yield f"{profile}/{name}", given
