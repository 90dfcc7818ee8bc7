"""Sections, tags and lines."""

from __future__ import annotations

from tests.cases import answer

from .building import KEY_LINE, REFERENCE, Rollout, adversary, filled, one_step


@adversary
def white_space_after_closing_tags(size: int) -> Rollout:
    return answer(think=filled("</think>" + " \n" * 40, size)), REFERENCE


@adversary
def one_desert_of_white_space(size: int) -> Rollout:
    return answer().replace("</think>", "</think>" + " " * size), REFERENCE


@adversary
def blank_lines(size: int) -> Rollout:
    return answer(orc=filled(" \n\r", size) + "\nStep 1: add pbs 5 min"), REFERENCE


@adversary
def short_lines(size: int) -> Rollout:
    return answer(orc="Step 1: add pbs 5 min\n" + filled("a\n", size)), REFERENCE


@adversary
def lines_that_nearly_open_a_step(size: int) -> Rollout:
    return answer(orc="Step 1: add pbs 5 min\n" + filled("step 1 -\n", size)), REFERENCE


@adversary
def one_line_of_white_space(size: int) -> Rollout:
    return one_step("add pbs 5 min" + " " * size + "end")


@adversary
def angle_brackets(size: int) -> Rollout:
    return answer(think="<" * size), REFERENCE


@adversary
def tags_that_nearly_close(size: int) -> Rollout:
    return answer(think=filled("</think>\n<ke>", size)), REFERENCE


@adversary
def tags_without_end(size: int) -> Rollout:
    return filled("<think></think><key></key><orc></orc><not>", size), REFERENCE


@adversary
def long_step_number(size: int) -> Rollout:
    return answer(KEY_LINE.replace("1", "0" * size + "1", 1)), REFERENCE
