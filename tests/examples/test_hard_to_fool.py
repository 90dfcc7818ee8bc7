"""The configuration for laboratories, and the tables of docs/reward/hard-to-fool.md, made from its records."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import mean
from typing import Any, NamedTuple

from assay import Scorer
from assay.research.ablate.grids import GRIDS
from assay.research.check.changes import DESTROYING, HARMLESS, Answer, Change, answer_in
from assay.service.config import load
from assay.service.settings import ScoreSettings
from tests.command_line import ROOT, read_rows
from tests.examples.parameter_pairs import DIFFERENT, EQUAL

CONFIG = ROOT / "examples" / "laboratory.toml"
LABORATORY: dict[str, Any] = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["score"]
REFERENCES: list[str] = [row["reference"] for row in read_rows(ROOT / "examples" / "laboratory.jsonl")]
PAGE = ROOT / "docs" / "reward" / "hard-to-fool.md"


@cache
def gold_answers() -> list[Answer]:
    return [answer for answer in map(answer_in, REFERENCES) if answer is not None]


class Cost(NamedTuple):
    """The mean share of the reward that a change costs, over the records that it changes."""

    records: int
    paper: float
    laboratory: float


def costs(changes: Mapping[str, Change]) -> dict[str, Cost]:
    return {name: cost(change) for name, change in changes.items()}


def cost(change: Change, **settings: Any) -> Cost:
    """Return what a change costs; `settings` are added to the configuration for laboratories."""
    changed = [(k, change(answer)) for k, answer in enumerate(gold_answers())]
    changed = [(k, answer) for k, answer in changed if answer != gold_answers()[k]]
    responses = [answer.text for _, answer in changed]
    both = Scorer().score_configs([{}, LABORATORY | settings], responses, REFERENCES, [k for k, _ in changed])
    return Cost(len(changed), *(mean((1 - scores.rewards).tolist()) for scores in both))


def cost_table(head: str, by_name: Mapping[str, Cost]) -> str:
    lines = [f"| {head} | records | paper | laboratory |", "|---|---|---|---|"]
    lines += [f"| {name} | {n} | {paper:.3f} | {strict:.3f} |" for name, (n, paper, strict) in by_name.items()]
    return "\n".join(lines)


def recognized(pairs: Sequence[tuple[str, str]], similarity: str) -> list[bool]:
    """Return whether the parameters of each pair are all the same terms."""

    def step(parameter: str) -> str:
        return f"Step 1: {json.dumps({'action': 'add', 'objects': [], 'parameters': [parameter]})}"

    responses = [f"<think>-</think><key>{step(a)}</key><orc>Step 1: Add {a}</orc><note>-</note>" for a, _ in pairs]
    scorer = Scorer(parameter_similarity=similarity)
    return [bool(reward == 1) for reward in scorer.score(responses, [step(b) for _, b in pairs]).rewards]


def pair_table(kinds: Mapping[str, Sequence[tuple[str, str]]], sign: str, quantities_should: bool) -> str:
    """Return a table with a row for each kind of pair; a pair that quantities take for the other is in italics."""
    lines, sums = ["| kind | pairs | words | quantities |", "|---|---|---|---|"], [0, 0, 0]
    for kind, pairs in kinds.items():
        words, quantities = recognized(pairs, "words"), recognized(pairs, "quantities")
        shown = [f"`{a}` {sign} `{b}`" for a, b in pairs]
        shown = [
            text if right == quantities_should else f"*{text}*" for text, right in zip(shown, quantities, strict=True)
        ]
        counts = len(pairs), sum(words), sum(quantities)
        sums = [total + count for total, count in zip(sums, counts, strict=True)]
        lines.append(f"| {kind} | {', '.join(shown)} | {counts[1]} of {counts[0]} | {counts[2]} of {counts[0]} |")
    lines.append(f"| all | | {sums[1]} of {sums[0]} | {sums[2]} of {sums[0]} |")
    return "\n".join(lines)


def test_the_configuration_is_read_and_lets_every_reference_pass() -> None:
    text = CONFIG.read_text(encoding="utf-8")
    assert text[text.index("[score]") :] in PAGE.read_text(encoding="utf-8")
    configured = load(environ={}, path=CONFIG).score
    assert configured == ScoreSettings(**LABORATORY)
    assert dict(GRIDS["rules4"])["laboratory"] == LABORATORY
    scores = Scorer(**LABORATORY).score(REFERENCES, REFERENCES)
    assert set(scores.reasons) == {"ok"}
    assert scores.rewards.tolist() == [1.0] * len(REFERENCES)
    assert all(Scorer(**LABORATORY).score([a.text for a in gold_answers()], REFERENCES).rewards == 1.0)


def test_what_changes_of_a_protocol_cost() -> None:
    page = PAGE.read_text(encoding="utf-8")
    destroying, harmless = costs(DESTROYING), costs(HARMLESS)
    assert len(destroying) == 30
    unseen = [name for name, cost in destroying.items() if cost.laboratory < 0.02]
    assert len(unseen) <= 8
    assert destroying["one dose × 100"].laboratory >= 0.4
    left_out = cost(DESTROYING["a step left out"], content_denominator="max_len", order="lcs")
    assert (
        f'`content_denominator = "max_len"` and `order = "lcs"` as well, a step left out costs {left_out[2]:.2f}.'
        in page
    )
    for expected in (cost_table("change", destroying), cost_table("other words", harmless)):
        assert expected in page, f"docs/reward/hard-to-fool.md should have:\n{expected}"


def test_which_parameters_are_equal() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [sum(map(len, kinds.values())) for kinds in (EQUAL, DIFFERENT)] == [55, 25]
    for expected in (pair_table(EQUAL, "=", True), pair_table(DIFFERENT, "≠", False)):
        assert expected in page, f"docs/reward/hard-to-fool.md should have:\n{expected}"
