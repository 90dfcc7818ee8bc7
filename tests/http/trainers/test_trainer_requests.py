"""The fast and the general path answer trainers' requests alike, and ignored members are never parsed."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from assay import Scorer
from assay.service.http.endpoints.trainers.contract import OpenRlhfRequest, SlimeRequest, VerifyRequest
from assay.service.http.endpoints.trainers.dialects import OpenRlhf, Slime
from assay.service.http.endpoints.trainers.endpoint import TrainerEndpoint, TrainerQuery
from assay.service.http.endpoints.trainers.nemo_gym import NemoGym
from assay.service.http.endpoints.trainers.rows import JsonObject
from assay.service.http.request.paths import Paths
from assay.service.http.request.readiness import Readiness
from assay.service.scoring.labels import json_text
from assay.service.wire.fast_path import FastPath
from assay.service.wire.json_codec import RequestLimits
from assay.service.wire.media_types import JSON, Body
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes
from tests.strategies import alternatives_of, doubtful_references, examples, protocols, references, responses

LIMITS = RequestLimits(64 << 20, 65_536, 262_144)
INLINE_BYTES = 65_536


sections = responses | st.text("<think>/key\n ", max_size=20)
doubtful_texts = st.one_of(sections, sections, st.none(), st.integers())
labels = st.one_of(references, references, protocols.flatmap(alternatives_of))
doubtful_lists = st.lists(references | doubtful_references | st.none() | st.just({"any_of": []}), max_size=2)
doubtful_alternatives = st.builds(
    lambda alternative, times: {"any_of": alternative * times}, doubtful_lists, st.sampled_from([1, 9])
)
doubtful_labels = st.one_of(
    doubtful_alternatives, references, doubtful_references, st.none(), st.just({"steps": 3}), st.just(1)
)
junk = st.one_of(st.none(), st.text(max_size=3), st.integers(), st.lists(st.none(), max_size=2), st.just({}))


def parts_of(kind: str) -> Any:
    part = st.fixed_dictionaries({"type": st.sampled_from([kind, kind, "refusal"]), "text": doubtful_texts})
    return st.lists(st.one_of(part, part, junk), max_size=2)


doubtful_items = st.one_of(
    st.fixed_dictionaries({"type": st.just("message"), "content": parts_of("output_text")}),
    st.fixed_dictionaries({"type": st.just("message"), "role": st.just("user"), "content": junk}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "summary": parts_of("summary_text")}),
    st.fixed_dictionaries({"type": st.just("function_call"), "arguments": st.just("{}")}),
    junk,
)
messages = sections.map(lambda text: {"type": "message", "content": [{"type": "output_text", "text": text}]})
prompts = st.sampled_from(["", "p", "ab<think>"])


def openrlhf(texts: Any, prompts: Any, labels: Any, ragged: Any) -> Any:
    """Generate a batch of rollouts, most often one; with `ragged`, columns may differ in length."""
    return st.tuples(st.sampled_from([1, 1, 1, 0, 2]), ragged).flatmap(
        lambda drawn: st.fixed_dictionaries(
            {
                name: st.lists(values, min_size=max(0, drawn[0] - drawn[1]), max_size=drawn[0] + drawn[1])
                for name, values in {"query": texts, "prompts": prompts, "labels": labels}.items()
            }
        )
    )


def slime(texts: Any, labels: Any) -> Any:
    return st.fixed_dictionaries({"prompt": prompts, "response": texts, "label": labels})


def nemo_gym(responses: Any, labels: Any) -> Any:
    return st.fixed_dictionaries(
        {"responses_create_params": st.just({"input": "x"}), "response": responses, "reference": labels}
    )


DIALECTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "OpenRLHF": (
        OpenRlhf(),
        OpenRlhfRequest,
        openrlhf(sections, prompts, labels, st.just(0)),
        openrlhf(doubtful_texts, prompts | st.none(), doubtful_labels, st.sampled_from([0, 0, 1])),
    ),
    "slime": (Slime(), SlimeRequest, slime(sections, labels), slime(doubtful_texts, doubtful_labels)),
    "NeMo Gym": (
        NemoGym(),
        VerifyRequest,
        nemo_gym(st.fixed_dictionaries({"output": st.lists(messages, max_size=2)}), labels),
        nemo_gym(
            st.fixed_dictionaries({"output": st.lists(doubtful_items, max_size=3) | junk}) | junk, doubtful_labels
        ),
    ),
}
"""Each dialect with its model, valid requests, and doubtful ones."""


@st.composite
def documents(draw: st.DrawFn, strategy: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Generate a request, perhaps with a missing, unknown or wrongly typed member."""
    document = dict(draw(strategy))
    change = draw(st.integers(0, 9))
    if change == 0:
        del document[draw(st.sampled_from(sorted(document)))]
    elif change == 1:
        document[draw(st.sampled_from([*sorted(document), "more"]))] = draw(junk)
    return document


SHAPE_REASONS = {"wrong_type", "missing_field"}


def is_described(model: type[BaseModel], document: dict[str, Any]) -> bool:
    """Return True if the pydantic model accepts a request."""
    try:
        model.model_validate(document)
    except ValidationError:
        return False
    return True


def endpoint(dialect: Any) -> TrainerEndpoint:
    """Return the endpoint of a dialect, without threads and metrics."""
    nothing: Any = None
    return TrainerEndpoint(dialect, Paths(LIMITS, Readiness(), nothing), nothing, nothing, nothing)


def outcome(answer: Any, *arguments: Any) -> Any:
    """Return the reply, None if a thread has to make it, or the problem."""
    try:
        reply = answer(*arguments)
        return reply and reply.body
    except Problem as problem:
        return problem.kind, problem.issues


def has_alternatives(document: dict[str, Any]) -> bool:
    """Return True if a reference of a request is a list of alternatives, which a thread compares."""
    labels = document.get("labels")
    references = [*(labels if isinstance(labels, list) else []), document.get("label"), document.get("reference")]
    return any(isinstance(reference, list) or "any_of" in json.dumps(reference) for reference in references)


@pytest.mark.parametrize(("dialect", "model", "right", "doubtful"), DIALECTS.values(), ids=DIALECTS)
def test_both_paths_and_the_model_agree(dialect, model, right, doubtful):
    options = dialect.options()
    scorer = Scorer()
    chosen = TrainerQuery(scorer, FastPath(scorer, INLINE_BYTES, LIMITS), options, {})
    route = endpoint(dialect)

    def both(document: dict[str, Any]) -> Any:
        body = json.dumps(document).encode()
        general = outcome(route._answer, Body(body, b"", JSON, False), chosen, StageTimes())
        inline = outcome(route._answer, Body(body, b"", JSON, True), chosen, StageTimes())
        assert inline == general or (inline is None and has_alternatives(document))
        mutable = Body(bytearray(body), b"", JSON, False)
        assert outcome(route._answer, mutable, chosen, StageTimes()) == general
        return general

    @given(right)
    @examples(40)
    def check_right(document: dict[str, Any]) -> None:
        assert isinstance(both(document), bytes)
        assert is_described(model, document)

    @given(documents(doubtful))
    @examples(60)
    @example({"prompt": "", "response": "", "query": [""], "prompts": [""], "label": {"any_of": [None]}, "labels": []})
    def check_doubtful(document: dict[str, Any]) -> None:
        outcome_of_both = both(document)
        if isinstance(outcome_of_both, bytes):
            assert is_described(model, document)
        else:
            kind, issues = outcome_of_both
            assert kind == "invalid-request"
            # The model describes records of any task: an object with alternatives may be one.
            shapes = {issue.reason for issue in issues if ".any_of" not in issue.path}
            if model is not VerifyRequest and shapes & SHAPE_REASONS:
                assert not is_described(model, document)
            assert len({(issue.path, issue.reason) for issue in issues}) == len(issues) > 0

    check_right()
    check_doubtful()


def test_ignored_members_are_never_built(compiled):
    body = b'{"a":[' + b"[[],[]]," * 500_000 + b'0],"b":"x"}'
    tracemalloc.start()
    document = JsonObject(body, ("b",))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert json_text(document["b"]) == "x"
    assert peak < 1.5 * len(body)
