"""Puts questions about records to a judge, several at the same time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import NamedTuple

from ...errors import InvalidRequest, Issue
from ..task import Advance
from .endpoint import Endpoint, JudgeFault
from .options import JudgeOptions
from .replies import Judgement, JudgeReplies, name_of

__all__ = ["FAULT", "JUDGE_FAULT", "JudgeQuestion", "answers"]

JUDGE_FAULT = "judge_fault"
FAULT = {JUDGE_FAULT: "The judge did not answer, or not with a chat completion."}


class JudgeQuestion(NamedTuple):
    """One prompt about one record; `repeat` counts the earlier questions with the same prompt and run."""

    row: int
    prompt: str
    criterion: str = ""
    run: int = 0
    repeat: int = 0

    def occasion(self, request: int = 0) -> str:
        return f"{self.run}.{self.repeat}.{request}"


Ask = Callable[[Endpoint, JudgeQuestion], Judgement]


def answers(
    questions: Iterable[JudgeQuestion], options: JudgeOptions, ask: Ask, advance: Advance
) -> Iterator[tuple[JudgeQuestion, Judgement | JudgeFault]]:
    """Yield every question with its answer, in any order.

    Until the judge has replied once, a fault raises InvalidRequest; afterwards it is the answer to its question only.
    """
    key = os.environ.get("ASSAY_JUDGE_KEY")
    replies = JudgeReplies(options.replies) if options.replies else None
    endpoint = Endpoint(options.base_url, options.model, key, options.timeout, options.retries, replies)
    waiting = counted(questions)
    while not endpoint.reached and (first := next(waiting, None)):
        answer = answer_to(first, endpoint, ask)
        if isinstance(answer, JudgeFault):
            raise InvalidRequest([Issue("options.base_url", JUDGE_FAULT, f"the judge does not answer: {answer}")])
        yield first, answer
        advance(first.row)
    with ThreadPoolExecutor(options.concurrency, thread_name_prefix="assay-judge") as pool:
        running: dict[Future[Judgement | JudgeFault], JudgeQuestion] = {}
        try:
            while True:
                for question in islice(waiting, 2 * options.concurrency - len(running)):
                    running[pool.submit(answer_to, question, endpoint, ask)] = question
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    question = running.pop(done)
                    yield question, done.result()
                    advance(question.row)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def counted(questions: Iterable[JudgeQuestion]) -> Iterator[JudgeQuestion]:
    earlier: Counter[str] = Counter()
    for question in questions:
        name = name_of(question.prompt, question.run)
        yield question._replace(repeat=earlier[name])
        earlier[name] += 1


def answer_to(question: JudgeQuestion, endpoint: Endpoint, ask: Ask) -> Judgement | JudgeFault:
    try:
        return ask(endpoint, question)
    except JudgeFault as fault:
        return fault
