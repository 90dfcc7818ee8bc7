"""The published test vectors: what is in them, that Assay gives their values, and that a broken rule does not."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from typing import Any

import httpx
import pytest

from assay import ScoreSettings
from assay.research.conformance import KINDS, Vector, VectorsNotFound, compare, own_answer, read_vectors
from tests.reference import engine, json_object, quantities, steps, thoth_metrics, words
from tests.reference.advantages import advantages
from tests.vectors import make


@pytest.fixture(scope="module")
def cases() -> list[Vector]:
    return read_vectors()


def check(cases: list[Vector], answers: dict[str, dict[str, Any]], exact: bool = False) -> None:
    comparison = compare(cases, answers, exact)
    assert comparison.differences == []
    assert comparison.left_out == {}
    assert comparison.cases.total() == len(cases) > 20


def test_the_files_are_what_the_twin_gives():
    generated = make.files()
    written = {path.name: path.read_bytes() for path in make.FOLDER.glob("*.json*")}
    assert written.keys() == generated.keys()
    different = [name for name, content in generated.items() if written[name] != content]
    assert different == [], "run `python -m tests.vectors.make` and look at what it changes"


def test_a_value_keeps_until_the_rules_have_another_version():
    """What `digests.json` remembers is compared by input: neither a new id nor a new case hides a change."""
    known = json.loads(make.DIGESTS.read_bytes())
    rows = {kind: make.read(kind) for kind in KINDS}
    assert make.changed(rows, known) == []
    first = rows["score"][0]
    rows["score"][0] = first | {"id": "score/new/name", "expected": first["expected"] | {"reward": 0.5}}
    rows["words"].append(rows["words"][0] | {"text": "a text that nobody had"})
    assert make.changed(rows, known) == ["score/new/name"]
    assert make.changed(rows, known | {"rules_version": "another"}) == []


def test_long_texts_are_joined(cases):
    assert len({case.id for case in cases}) == len(cases) == 3_352
    (longest,) = [case for case in cases if case.id == "score/limits/characters-at-262144-bytes"]
    assert longest.row["response"] == "µ" * 131_072
    text = "a" + "xy\n" * 1_000 + "b" * 60
    assert make.compact(text) == [["a", 1], ["xy\n", 1_000], ["b", 60]]


def test_assay_has_the_bits_of_the_twin(cases):
    """Advantages do not, as their sums are rounded in another order."""
    answers = {case.id: own_answer(case.row) for case in cases}
    check(cases, answers)
    check([case for case in cases if case.row["kind"] != "advantages"], answers, exact=True)


def test_http(client: httpx.Client, cases):
    """Also references with alternatives and the column of steps."""
    scored = [case for case in cases if case.row["kind"] in ("score", "steps") and "error" not in case.expected]
    by_config = defaultdict(list)
    for case in scored:
        by_config[json.dumps(case.row["config"])].append(case)
    answers = {}
    for config, some in by_config.items():
        columns = {f"{name}s": [case.row[name] for case in some] for name in ("response", "reference")}
        request = {**columns, "config": json.loads(config), "include": ["components", "steps"]}
        document = client.post("/v1/score", json=request).json()
        assert document["signature"] == ScoreSettings(**request["config"]).signature
        for k, case in enumerate(some):
            components = {name: float(column[k]) for name, column in document["components"].items()}
            reward, reason = float(document["rewards"][k]), document["reasons"][k]
            answers[case.id] = {"reward": reward, "reason": reason, "components": components}
            answers[case.id] |= {"steps": document["steps"][k], "alternative": document["alternative"][k]}
    check(scored, answers, exact=True)


BROKEN: dict[str, tuple[str, Any, str, str, str]] = {
    "no signs": ("score", words, "NUMBER", "-?", ""),
    "one point in a number": ("score", words, "NUMBER", ")*", ")?"),
    "digits of every script": ("score", words, "NUMBER", "[0-9]", r"\d"),
    "any space in prose headers": ("score", steps, "ORC_STEP", r"[ \t]", "[ \t\u00a0\u2003]"),
    "any JSON in a key line": ("score", steps, "KEY_STEP", r"\{.*\}", r"[\[{].*[\]}]"),
    "lines end at line feeds": ("score", steps, "LINE_END", steps.LINE_END.pattern, r"\r?\n"),
    "depth of arrays alone": ("score", json_object, "BRACKET", r"[\[\]{}]", r"[\[\]]"),
    "thin spaces before four digits": ("score", quantities, "THIN_SPACE", "{3}(?![0-9])", "{3}"),
    "`0,` after a point": ("score", quantities, "ZERO_COMMA", "(?<![0-9.,])", "(?<![0-9])"),
    "no powers with a star": ("score", quantities, "NUMERAL", "[x*·]", "[x·]"),
    "powers of four digits": (
        "score",
        quantities,
        "NUMERAL",
        "10\\^([+-]?[0-9]{1,3})(?![0-9])|",
        r"10\^([+-]?[0-9]+)|",
    ),
    "pH without =": ("score", quantities, "PH", "[=:]", "[:]"),
    "ratios of three": ("score", quantities, "RATIO", "{1,3}+", "{1,2}+"),
    "approx without a point": ("score", quantities, "COMPARISON", r"approx\.?", "approx"),
    "comparisons joined": ("score", quantities, "COMPARISON", ")[ \\t\\n\\r\\x0b\\x0c]++", ")"),
    "signs and space": ("score", quantities, "SIGN", "[+-]", "[+-] ?"),
    "no range with to": ("score", quantities, "BETWEEN", "to", "until"),
    "no tolerance in ASCII": ("score", quantities, "BETWEEN", r"|\+/-", ""),
    "no sum with and": ("score", quantities, "AND", "and", "plus"),
    "no units with points": ("score", quantities, "RUN", r"\.", "_"),
    "degrees without a sign": ("score", quantities, "DEGREE", "(?:°|", "(?:"),
    "no ratio with per": ("score", quantities, "DIVIDED", "per", "by"),
    "no ratio with a dot": ("score", quantities, "INVERSE", "[·*]", "[*]"),
    "indented steps of Thoth": ("evaluate", thoth_metrics, "STEP", "^", r"^\s*"),
}
"""Rules of the twin that are broken: the vectors that must notice, a pattern, and what is replaced in it."""


def assert_few_differ(kind: str) -> None:
    """Nothing else about the twin is wrong, so that few vectors differ."""
    some = read_vectors([kind])
    comparison = compare(some, {case.id: engine.answer(case.row) for case in some})
    assert 0.9 * len(some) < comparison.passed.total() < len(some)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_noticed(monkeypatch, name):
    kind, module, attribute, before, after = BROKEN[name]
    pattern = getattr(module, attribute)
    assert before in pattern.pattern
    monkeypatch.setattr(module, attribute, re.compile(pattern.pattern.replace(before, after, 1), pattern.flags))
    assert_few_differ(kind)


def test_equal_digits_as_one_group_are_noticed(monkeypatch):
    broken = lambda rewards, groups, ddof: advantages(rewards, list(map(str, groups)), ddof)  # noqa: E731
    monkeypatch.setattr(engine, "advantages", broken)
    assert_few_differ("advantages")


def test_a_wrong_answer_is_found(cases):
    case = next(case for case in cases if case.expected.get("reward") == 1)
    right = {"id": case.id, **case.expected}
    for wrong in ({"reward": math.nan}, {"reason": "no_steps"}, {"components": {"order": 2}}):
        (difference,) = compare([case], {case.id: right | wrong}).differences
        assert difference.id == case.id
        assert difference.field.startswith(*wrong)
    for reward, exact, passes in [
        (1 - 9e-10, False, True),
        (1 - 1.1e-9, False, False),
        (1, True, True),
        (1 - 1e-15, True, False),
        *((value, False, False) for value in (True, None, "1.0", [1.0], 10**400)),
    ]:
        assert (compare([case], {case.id: right | {"reward": reward}}, exact).differences == []) == passes, reward


def test_vectors_of_another_version(monkeypatch, tmp_path):
    monkeypatch.setattr("assay.research.conformance.FOLDER", tmp_path)
    with pytest.raises(VectorsNotFound, match=r"score\.jsonl: No such file"):
        read_vectors()
    (tmp_path / "words.jsonl").write_text('{"vectors":"words","rules_version":"0","cases":0}\n')
    with pytest.raises(VectorsNotFound, match="is incomplete, or not for version"):
        read_vectors(["words"])
