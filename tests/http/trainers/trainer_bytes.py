"""Bodies as trainers' clients encode them, and checks of their replies."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import httpx
import orjson

from assay import Scorer
from assay.kernels.score import COMPONENTS
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED

EOS = "<|im_end|>\n"
SYSTEM = (
    "<|im_start|>system\nAnswer with <think>your thoughts</think>\n<key>Step 1: {...}</key>\n<orc>Step 1: …</orc>\n"
    "<note>cautions</note>, nothing else.<|im_end|>\n"
)
PROMPT = SYSTEM + "<|im_start|>user\nHow do I lyse cells at 4 °C?<|im_end|>\n<|im_start|>assistant\n"
"""A prompt with all four tags, as a chat template renders it."""

FREQUENT = (
    *("think_not_opened", "missing_sections", "bad_step_line", "bad_step_json", "bad_step_schema"),
    *("step_count", "low_coverage"),
)
REASON_NUMBERS = ("score_task", "score_reason_code", "score_readable", *(f"score_reason_{name}" for name in FREQUENT))
NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in COMPONENTS))
OTHERS = (
    *("accuracy", "brier", "confidence", "exact_match", "kendall_tau", "called_erroneous", "text_similarity"),
    *("order_similarity", "function_precision", "function_recall"),
)
TASK_NUMBERS = (*NUMBERS, *(f"score_{name}" for name in OTHERS))


class Rollout(NamedTuple):
    response: str
    reference: Any


ROLLOUTS = [
    Rollout(PERFECT, REFERENCE),
    Rollout(PERFECT + EOS, REFERENCE),
    Rollout(SWAPPED + EOS, STEPS),
    Rollout(SWAPPED, PERFECT),
    Rollout("nothing" + EOS, REFERENCE),
    Rollout("", REFERENCE),
    Rollout(PERFECT.replace("<think>", "", 1), REFERENCE),
    Rollout("\ufffd\x00\u2028😀<key>", REFERENCE),
]


def by_aiohttp(document: Any) -> bytes:
    """Encode as `aiohttp`'s `json=` does: OpenRLHF and slime."""
    return json.dumps(document).encode()


def by_orjson(document: Any) -> bytes:
    """Encode as NeMo Gym's own client does."""
    return orjson.dumps(document)


def by_httpx(document: Any) -> bytes:
    """Encode as verifiers' client does."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def post(client: httpx.Client, path: str, body: bytes, **headers: str) -> httpx.Response:
    return client.post(path, content=body, headers={"content-type": "application/json", **headers})


def expected_of(rollouts: list[Rollout], **settings: Any) -> list[dict[str, float]]:
    """Return the reward and the other numbers of each rollout, from the scorer in this process."""
    rows = []
    for response, reference in rollouts:
        scores = Scorer(**settings).score([response], [reference])
        reason = scores.reasons[0]
        reasons = {"score_task": 0.0, "score_reason_code": float(scores.reason_codes[0])}
        reasons |= {"score_readable": float(reason == "ok")}
        reasons |= {f"score_reason_{name}": float(reason == name) for name in FREQUENT}
        components = {f"score_{name}": float(column[0]) for name, column in scores.components.items()}
        passed = float(components["score_consistency"] == components["score_order"] == 1.0)
        rows.append({"reward": float(scores.rewards[0]), **reasons, "score_passed": passed, **components})
    return rows


def check_numbers(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """Check the names, their order, and that all values are finite floats."""
    assert tuple(found) == names
    for value in found.values():
        assert type(value) is float
        assert math.isfinite(value)
