"""Responses with their references, batches of them, and settings."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .answers import FRAGMENTS, answers, damaged_answers, key_lines, protocols, steps
from .texts import EQUAL_AMOUNTS, texts

SPELLINGS = {amount: equal for equal in EQUAL_AMOUNTS for amount in equal}


@st.composite
def edited(draw: st.DrawFn, protocol: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Draw a policy's version of a protocol: some steps moved, lost, added or changed."""
    result = [dict(step) for step in protocol]
    for _ in range(draw(st.integers(0, 3))):
        i = draw(st.integers(0, len(result) - 1))
        kind = draw(st.sampled_from(["drop", "add", "move", "change", "respell"]))
        if kind == "drop" and len(result) > 1:
            del result[i]
        elif kind == "add":
            result.insert(i, draw(steps))
        elif kind == "move":
            result.append(result.pop(i))
        elif kind == "respell":
            parameters = [draw(st.sampled_from(SPELLINGS.get(text, [text]))) for text in result[i]["parameters"]]
            result[i] = result[i] | {"parameters": parameters}
        else:
            name = draw(st.sampled_from(["action", "objects", "parameters"]))
            result[i] = result[i] | {name: draw(steps)[name]}
    return result


def responses_to(protocol: list[dict[str, Any]]) -> st.SearchStrategy[str]:
    """Draw responses to the prompt of `protocol`, good and bad."""
    told = edited(protocol)
    return st.one_of(
        told.flatmap(answers),
        told.flatmap(answers),
        told.flatmap(answers),
        told.flatmap(damaged_answers),
        told.flatmap(lambda steps: answers(steps, broken=True)),
        st.lists(st.one_of(st.sampled_from(FRAGMENTS), texts), max_size=12).map("".join),
    )


responses = protocols.flatmap(responses_to)


@st.composite
def references_of(draw: st.DrawFn, protocol: list[dict[str, Any]]) -> str | dict[str, Any]:
    """Draw a valid reference for `protocol`: an answer, its key lines, or steps."""
    kind = draw(st.sampled_from(["answer", "lines", "steps"]))
    if kind == "answer":
        return draw(answers(protocol))
    return {"steps": protocol} if kind == "steps" else "\n".join(draw(key_lines(7, step)) for step in protocol)


@st.composite
def alternatives_of(draw: st.DrawFn, protocol: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a reference with alternatives for `protocol`: edits of it, some of them equal."""
    told = draw(st.lists(st.one_of(st.just(protocol), edited(protocol)), min_size=1, max_size=4))
    any_of = [draw(references_of(steps)) for steps in told]
    return {"any_of": (any_of * draw(st.sampled_from([1, 1, 1, 2, 16])))[:16]}


references = protocols.flatmap(references_of)
doubtful_references = st.one_of(
    protocols.flatmap(damaged_answers), protocols.flatmap(lambda p: answers(p, broken=True)), texts
)
"""References as text, valid or not."""


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[str, str | dict[str, Any]]:
    """Draw a response and its reference."""
    protocol = draw(protocols)
    return draw(responses_to(protocol)), draw(references_of(protocol))


@st.composite
def batches(draw: st.DrawFn, alternatives: bool = False) -> tuple[list[str], list[str | dict[str, Any]], list[int]]:
    """Draw responses, references and reference_index of one request; half of the references with alternatives."""
    told = draw(st.lists(protocols, min_size=1, max_size=3))
    index = draw(st.lists(st.integers(0, len(told) - 1), max_size=5))
    kinds = st.sampled_from([references_of, alternatives_of if alternatives else references_of])
    return [draw(responses_to(told[k])) for k in index], [draw(draw(kinds)(p)) for p in told], index


settings = st.fixed_dictionaries(
    {},
    optional={
        "order": st.sampled_from(["strict", "lcs"]),
        "semantics": st.sampled_from(["sum", "product"]),
        "total": st.sampled_from(["product", "sum"]),
        "content_denominator": st.sampled_from(["matched", "max_len"]),
        "length_penalty": st.sampled_from(["absolute", "relative"]),
        "reward_scale": st.sampled_from(["unit", "raw", "double", "shift"]),
        "min_coverage": st.one_of(st.sampled_from([0.0, 0.5, 0.75, 0.9, 1.0]), st.floats(0, 1)),
        "max_mean_words": st.one_of(st.sampled_from([1.0, 5.0, 30.0]), st.floats(1, 1000)),
        "object_similarity": st.sampled_from(["fallback", "max"]),
        "parameter_similarity": st.sampled_from(["words", "quantities", "quantities"]),
        "coverage": st.sampled_from(["substring", "words", "words"]),
        "quantity_error_factor": st.one_of(st.sampled_from([0.5, 0.9, 1.0]), st.floats(0, 1, exclude_min=True)),
        "max_added_words": st.sampled_from([None, 0, 1, 2, 3, 10**6]),
        "max_added_numbers": st.sampled_from([None, 0, 1, 2, 3, 10**6]),
        "position_decay": st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.01, 100)),
        **dict.fromkeys(["use_step_gap", "use_length", "use_position", "use_order", "think_prefilled"], st.booleans()),
        "advantage_ddof": st.sampled_from([0, 1]),
        "max_response_bytes": st.sampled_from([400, *[262144] * 5]),
        "max_steps": st.sampled_from([1, 3, *[1024] * 5]),
    },
)
"""Overrides of the settings."""
