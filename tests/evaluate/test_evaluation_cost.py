"""Adversarial answers take linear time: twice the text takes about twice the time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assay.service.tasks.bioplanner import calls_by_script
from assay.service.tasks.bioprobench.answers import generated_text, truth_of
from assay.service.tasks.bioprobench.ord import order_of, order_of_list, steps_in
from assay.service.tasks.bioprobench.pqa import answer_of, choice_of, options_in
from assay.service.tasks.llam_eval import stated_score
from assay.service.tasks.sgi import Protocol, compared
from assay.service.tasks.text.text_pairs import candidates
from assay.service.tasks.text.tokens import porter_stemmer, rouge_words, treebank_words, word_tokenizer
from tests.evaluate.word_lists import SENTENCES

pytestmark = pytest.mark.attack

SHORT, LONG = 4_000, 32_000
TIMES_LONGER = LONG // SHORT
SLACK = 4
"""A quadratic reader takes 64 times as long, a linear one 8 times."""
TOO_QUICK = 0.05
"""Seconds below which times are not compared."""


READERS: dict[str, Callable[[str], object]] = {
    "pqa": answer_of,
    "err": truth_of,
    "ord": lambda text: order_of(text, 3),
    "pqa by letter": lambda text: choice_of(text, {}),
    "pqa options": options_in,
    "ord of indices": lambda text: order_of_list(text, 3),
    "ord steps": steps_in,
    "gen": generated_text,
    "stated": calls_by_script,
    "treebank": lambda text: treebank_words(text, "3.9"),
    "treebank 3.10": lambda text: treebank_words(text, "3.10"),
    "keywords": candidates,
    "rouge": lambda text: rouge_words(text, porter_stemmer()),
    "judge": lambda text: stated_score(text, "Coherence"),
    "sgi": lambda text: compared(Protocol.of(text), Protocol.of(text)),
}

ADVERSARIES: dict[str, Callable[[int], str]] = {
    "openings": lambda n: "[ANSWER_START]" * (n // 14),
    "thoughts": lambda n: "</think>" * (n // 8),
    "numbers": lambda n: f"[ANSWER_START]x & {'9' * n}[ANSWER_END]",
    "separators": lambda n: f"[ANSWER_START]{'&' * n}[ANSWER_END]",
    "brackets": lambda n: f"[ANSWER_START]{'[' * n}[ANSWER_END]",
    "braces": lambda n: f"[ANSWER_START]{'{0:' * (n // 3)}[ANSWER_END]",
    "signs": lambda n: f"[ANSWER_START]{'-' * n}1[ANSWER_END]",
    "bare commas": lambda n: f"[ANSWER_START]{'0,' * (n // 2)}[ANSWER_END]",
    "open strings": lambda n: f"[ANSWER_START][{chr(39) * n}[ANSWER_END]",
    "lists": lambda n: "[1," * (n // 3),
    "one list": lambda n: f"[{'1, ' * (n // 3)}x]",
    "digits in a bracket": lambda n: f"[{'1' * n}",
    "option and spaces": lambda n: "C x" + " " * n + "y",
    "step and spaces": lambda n: "Step " + "1" * (n // 2) + " " * (n // 2),
    "confidences": lambda n: "& " * (n // 2),
    "one word": lambda n: "w" * n,
    "y": lambda n: "y" * n,
    "calls": lambda n: "f(" * (n // 2),
    "spaced calls": lambda n: "f " * (n // 2),
    "arguments": lambda n: f"f({'a' * n})",
    "values": lambda n: f"""f({"a='" * (n // 3)})""",
    "spaces after a period": lambda n: "end." + " " * n + "x",
    "closers after periods": lambda n: '."' * (n // 2) + "x",
    "white space": lambda n: "\n \t" * (n // 3) + "x",
    "apostrophes": lambda n: "'" * n,
    "quotes": lambda n: '"' * n,
    "dots": lambda n: "." * n,
    "number and dots": lambda n: "1." * (n // 2),
    "dashes": lambda n: "-" * n,
    "openings of actions": lambda n: "a=<" * (n // 3),
    "steps that nothing closes": lambda n: "a=<b>(\n" * (n // 7),
    "steps": lambda n: "".join(f"a=<{k * 7919 % n}>(c\n)\n" for k in range(n // 15)),
    "lines before a closing one": lambda n: "a=<b>(" + "\n" * (n // 2) + "x" + "\n" * (n // 2) + ")x",
}


def seconds(read: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


@pytest.mark.parametrize("adversary", sorted(ADVERSARIES))
def test_time_grows_with_the_text(adversary):
    readers = {**READERS, "sentences": word_tokenizer("3.9")} if SENTENCES else READERS
    for name, read in readers.items():
        short, long = ADVERSARIES[adversary](SHORT), ADVERSARIES[adversary](LONG)
        slow = seconds(read, long)
        if slow > TOO_QUICK:
            quick = max(min(seconds(read, short) for _ in range(3)), TOO_QUICK / TIMES_LONGER)
            slow = min(slow, seconds(read, long))
            assert slow < quick * TIMES_LONGER * SLACK, (name, quick, slow)
