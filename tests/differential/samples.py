"""Texts and records for all parts of the differential, with invented content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

ADD = {"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}
SPIN = {"action": "spin", "objects": ["tube"], "parameters": []}
WASH = {"action": "wash", "objects": ["pellet", "tube"], "parameters": ["2 ml", "4 °C"]}


def key_of(*steps: dict[str, Any]) -> str:
    return "\n".join(f"Step {k}: {json.dumps(step, ensure_ascii=False)}" for k, step in enumerate(steps, 1))


def answer(*steps: dict[str, Any]) -> str:
    """Return the four sections of an answer that passes both gates."""
    prose = [" ".join(["Now", step["action"], *step["objects"], *step["parameters"]]) for step in steps]
    lines = "\n".join(f"Step {k}: {text}." for k, text in enumerate(prose, 1))
    return f"<think>First.</think>\n<key>\n{key_of(*steps)}\n</key>\n<orc>\n{lines}\n</orc>\n<note>None.</note>"


def marked(text: str) -> str:
    return f"<think>hm</think>[ANSWER_START]{text}[ANSWER_END]"


KEY, STEPS = key_of(ADD, SPIN), {"steps": [ADD, SPIN]}
PERFECT, SWAPPED = answer(ADD, SPIN), answer(SPIN, ADD)
ORDER = {"wrong_steps": ["c", "a", "b"], "correct_steps": ["a", "b", "c"]}
PROGRAM = 'def wash(cells):\n    pass\n\nwash(cells="HeLa")\nspin(cells="HeLa")'

RESPONSES: dict[str, list[str]] = {
    "score": [
        *(PERFECT, SWAPPED, answer(ADD), answer(ADD, WASH, SPIN), PERFECT.removeprefix("<think>"), ""),
        *("no sections", PERFECT.replace("5 ml", "6 ml", 1), PERFECT.replace('["tube"]', "5"), PERFECT + "<|im_end|>"),
    ],
    "bioprobench.pqa": [marked("5 µM & 90"), marked("6 µM & 35"), marked("5 µM"), "5 µM & 90", marked("5 µM & 101")],
    "bioprobench.ord": [marked("[1, 2, 0]"), marked("[0, 1, 2]"), marked("[1, 2, 0, 0]"), marked("[1, 2"), "[1, 2, 0]"],
    "bioprobench.err": [marked("True"), marked("False"), "False", "perhaps", ""],
    "lexical": ["Step 1: add lysis buffer", KEY, "spin the tube", ""],
    "bioplanner": [PROGRAM, "spin(cells='HeLa')", "spin(", "pass"],
}
"""Responses to each task that gives rewards."""

REFERENCES: dict[str, list[Any]] = {
    "score": [
        KEY,
        PERFECT,
        STEPS,
        key_of(WASH, SPIN),
        key_of(ADD),
        {"steps": [WASH]},
        {"any_of": [key_of(WASH), STEPS]},
    ],
    "bioprobench.pqa": ["5 µM", {"answer": "5 µM"}, '{"answer": "6 µM", "choices": ["5 µM", "6 µM"]}'],
    "bioprobench.ord": [ORDER, json.dumps(ORDER), {**ORDER, "id": 7}],
    "bioprobench.err": [{"is_correct": False}, '{"is_correct": true}', True, "False"],
    "lexical": [KEY, "Add lysis buffer, then spin.", {"reference": "Spin the tube."}],
    "bioplanner": [PROGRAM, {"ground_truth": PROGRAM}],
}

BAD_REFERENCES: dict[str, list[Any]] = {
    "score": ["Step 1: add", "", {"steps": []}, {"steps": [{"action": 5}]}, {"step": 1}, 5, None, "Step 1: {]", [KEY]]
    + [{"any_of": any_of} for any_of in ([], [KEY, "x"], [None, {"any_of": [KEY]}], [KEY] * 17)],
    "bioprobench.pqa": ["{}", {"answers": 1}, None, {"answer": None}, 5],
    "bioprobench.ord": ["[0]", {"wrong_steps": ["a"]}, {"wrong_steps": ["a"], "correct_steps": ["b"]}, None, ""],
    "bioprobench.err": ["maybe", {}, {"is_correct": "x"}, None],
    "lexical": [{}, None, {"reference": 5}, 5],
    "bioplanner": ["spin(", "pass", {}, None],
}

TASKS = list(RESPONSES)

SETTINGS: list[dict[str, Any]] = [
    {},
    {"order": "lcs"},
    {"semantics": "product", "total": "sum", "reward_scale": "shift"},
    {"min_coverage": 0.5, "use_length": False, "content_denominator": "max_len"},
    {"object_similarity": "max", "position_decay": 3, "length_penalty": "relative", "max_mean_words": 2},
    {"think_prefilled": True, "advantage_ddof": 0, "use_order": False},
    {"max_steps": 2, "max_response_bytes": 300, "reward_scale": "raw", "use_position": False, "use_step_gap": False},
]
"""Seven configurations, which together change every setting."""

MIXED = {
    "responses": [RESPONSES[task][k] for k in range(2) for task in TASKS],
    "references": [REFERENCES[task][0] for task in TASKS],
    "reference_index": [*range(len(TASKS))] * 2,
    "groups": [k % 4 for k in range(2 * len(TASKS))],
    "task": TASKS * 2,
    "include": ["components", "advantages"],
    "config": {"order": "lcs", "bioprobench.ord": {"repeats": "failed"}, "lexical": {"reward": "rouge_l"}},
}
EVALUATIONS: dict[str, dict[str, Any]] = {
    "score": {"response": PERFECT, "reference": KEY, "level": 1, "type": "planning"},
    "scirecipe": {"response": SWAPPED, "reference": PERFECT},
    "bioprobench.ord": {**ORDER, "generated_response": marked("[1, 2, 0]")},
    "bioplanner": {"ground_truth": PROGRAM, "prediction_code": "spin(cells='HeLa')"},
}
"""A record of each kind of task."""


def vectors(kind: str) -> list[dict[str, Any]]:
    """Return the published test vectors of one kind."""
    lines = (ROOT / f"tests/vectors/{kind}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[1:] if line]
