"""Answers from steps: key and orc lines, sections, and damage to all of them."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from .json_text import blanks, broken_objects, step_objects
from .texts import actions, amounts, elements, quantities, texts

steps = st.fixed_dictionaries(
    {
        "action": actions,
        "objects": st.lists(elements, max_size=3),
        "parameters": st.lists(st.one_of(amounts, quantities, elements), max_size=3),
    }
)
protocols = st.lists(steps, min_size=1, max_size=6)
ASIDES = [
    *(" 95 °C", " 95.0", " 3 h", " 3-5 times", " −3", " 5.0", " 12,000", " 2", " 10⁶", " ½", " x9", "\n"),
    *(" step 2", " steps 3", " Step 95", " steps 3-5", " step", " steps", " stepwise 3", " steps\n", " and"),
    *(" 95-min", " ٩٥", " rs2.5a", " step 2 min", " step ٢", " step 02", " step 0", " 1.-2", "\nstep"),
    *(" not", " don't", " NEVER", " non-sterile", " gently", " gentle", " adding", " pre-warmed", " washed", " buf"),
    *(" min", " ml-tube", " cell-free", " ad", " then", " 离心", " β", " β-act", " step-wise"),
]
asides = st.lists(st.sampled_from(ASIDES), max_size=5).map("".join)
"""Numbers and words that only the prose has, some of them after `step`."""
HEADERS = ["Step {}: ", "Step {}: ", "Step {}:", "step 0{} :", "STEP\t{}\t: \t", "sTeP \t {}: "]
headers = st.sampled_from(HEADERS)
line_ends = st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", " \n\x0b\n\t", "\n\x0c"])


@st.composite
def key_lines(draw: st.DrawFn, number: int, fields: dict[str, Any], broken: bool = False) -> str:
    written = draw(broken_objects(fields) if broken else step_objects(fields))
    return draw(headers).format(number) + written + draw(blanks)


@st.composite
def orc_lines(draw: st.DrawFn, number: int, fields: dict[str, Any]) -> str:
    """Draw prose with every element, some of it on lines that continue the step."""
    told = [fields["action"], *fields["objects"], *fields["parameters"]]
    between = draw(st.sampled_from([" and ", " and ", "\nand ", " and\r\n\t", " \u2028and ", ", "]))
    filler = draw(st.one_of(st.just(""), texts, asides, st.integers(1, 40).map(lambda k: " so" * k)))
    return f"{draw(headers).format(number)}{between.join(told)} and {filler}."


@st.composite
def answers(draw: st.DrawFn, protocol: list[dict[str, Any]], broken: bool = False) -> str:
    """Draw a complete answer for `protocol`; with `broken`, one key line is damaged."""
    damaged = draw(st.integers(1, len(protocol))) if broken else 0
    end = draw(line_ends)
    key = end.join(draw(key_lines(i, step, i == damaged)) for i, step in enumerate(protocol, 1))
    orc = end.join(draw(orc_lines(i, step)) for i, step in enumerate(protocol, 1))
    case = draw(st.sampled_from([str, str, str.upper, str.title]))
    gap = draw(st.sampled_from(["", "\n\n", "\r\n", " \t\x0b\x0c\r\n"]))
    think, before, after = draw(st.sampled_from(["t", "", "<key>", "</think>", "µ ﬁ\n"])), draw(blanks), draw(texts)
    ignored = draw(st.one_of(st.just(""), st.just(""), asides))
    return (
        f"{before}{case('<think>')}{think}{case('</think>')}{gap}{case('<key>')}{end}{key}{end}{case('</key>')}{gap}"
        f"{case('<orc>')}{ignored}{end}{orc}{end}{case('</orc>')}{gap}{case('<note>')}n{case('</note>')}{after}"
    )


protocol_answers = protocols.flatmap(answers)
# fmt: off
TAGS = ["<think>", "</think>", "<key>", "</key>", "<orc>", "</orc>", "<note>", "</note>"]
FRAGMENTS = [
    *TAGS, "<Key>", "<\u212aey>", "</thin\u212a>", "Step 1:", "step 2: {}", "Step 10: x", "ſtep 1: {}", "\nStep 1: ",
    "}\n", '"', "\\", "\\u", "{", "\r", "\n",
]
# fmt: on


@st.composite
def damaged_answers(draw: st.DrawFn, protocol: list[dict[str, Any]]) -> str:
    """Draw an answer that is truncated, spliced with another, or has a piece inserted, doubled or removed."""
    text = draw(answers(protocol))
    i, j = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    kind = draw(st.sampled_from(["cut", "head", "splice", "insert", "double", "remove", "replace", "number", "number"]))
    if kind == "splice":
        other = draw(protocol_answers)
        return text[:i] + other[draw(st.integers(0, len(other))) :]
    if kind == "insert":
        return text[:i] + draw(st.one_of(st.sampled_from(FRAGMENTS), texts)) + text[i:]
    if kind == "replace":
        old = draw(st.sampled_from([*TAGS, "Step ", "1", "\n", '"']))
        return text.replace(old, draw(st.sampled_from(FRAGMENTS)), 1)
    if kind == "number":
        step = draw(st.sampled_from(list(re.finditer(r"(?i)step\s+\d+", text))))
        put = draw(st.sampled_from(["", "Step 0", "Step 3", "step 00001"]))
        return text[: step.start()] + put + text[step.end() :]
    near = min(j, i + 40)
    return {"cut": text[:i], "head": text[i:], "double": text[:near] + text[i:], "remove": text[:i] + text[near:]}[kind]
