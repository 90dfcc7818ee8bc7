"""The row of a trainer for each record, in each stage of training."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import UsageError
from ..evaluate.task import OK
from ..records.rows import Fault
from ..records.trainer_rows import PROMPTS, SUPERVISED, TEXT_TRAINERS, PromptRow, Row, reference_text
from ..rewards.registry import SCORE
from ..rewards.scorer import Scorer
from .examples import Example, Message
from .ideal import FULL, ROUNDING
from .options import Options, Stage

__all__ = ["STAGE_TRAINERS", "RowMaker"]

STAGE_TRAINERS: dict[Stage, Collection[str]] = {
    "knowledge": TEXT_TRAINERS,
    "supervised": tuple(SUPERVISED),
    "grpo": tuple(PROMPTS),
}
"""The trainers that have each stage."""


class RowMaker:
    """Makes rows for the stage and the trainer of the options; raises UsageError if that trainer lacks the stage."""

    def __init__(self, options: Options) -> None:
        if options.trainer not in STAGE_TRAINERS[options.stage]:
            known = ", ".join(STAGE_TRAINERS[options.stage])
            raise UsageError(f"{options.trainer} has no rows for the stage {options.stage}; these have: {known}")
        self._options = options
        self._scorer = Scorer() if options.stage == "supervised" else None

    def row(self, example: Example, messages: list[Message], ideal: str, group: str, split: str) -> Row | Fault:
        """Return the row of a record, or why it has none; every row has the same columns, and no nulls.

        ideal: an answer with the full reward. In the stage `supervised` it is the answer to learn, unless the record
        has an answer with sections; such an answer needs the full reward too, because one that fails a gate teaches to
        fail it. The column `answer_from` says which it is: `reference` or `record`.
        """
        # Not null: if the first rows of `train` have only nulls in a column, `datasets` refuses texts after them, also
        # those in `test`.
        about = {"group": group, "level": example.level or "", "type": example.type or "", "split": split}
        named = {"id": example.id, "task": example.task}
        if self._options.stage == "knowledge":
            if example.text is None:
                return Fault("no_text", "it has no text of a protocol")
            return {"text": example.text, "id": example.id, **about}
        if self._options.stage == "grpo":
            one = PromptRow(messages, reference_text(example.reference), about, named)
            return PROMPTS[self._options.trainer](one)
        answer = self._answer(example, ideal)
        if isinstance(answer, Fault):
            return answer
        source = "record" if answer is example.answer else "reference"
        return {**SUPERVISED[self._options.trainer](messages, answer), **named, **about, "answer_from": source}

    def _answer(self, example: Example, ideal: str) -> str | Fault:
        """Return the answer to learn; those of tasks other than SCORE are published without the form asked for."""
        if example.task != SCORE or example.answer is None or self._scorer is None:
            return ideal
        scores = self._scorer.score([example.answer], [reference_text(example.reference)])
        reason, reward = str(scores.reasons[0]), float(scores.rewards[0])
        if reason != OK:
            return Fault("answer_fails", f"its answer fails a gate ({reason})")
        if reward < FULL - ROUNDING:
            return Fault("answer_fails", f"its answer does not get the full reward with its reference: {reward:.4f}")
        return example.answer
