"""One record of a data set as prompts, splits and statistics need it, whatever its published form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..explain.reading import Step
from ..files.field_names import Message
from ..files.rows.rows import Place

__all__ = ["Example", "Message", "Step"]


class Example(NamedTuple):
    place: Place
    id: str  # the record's own `id`, else a digest of its content (`groups.with_ids`)
    dataset: str  # form of the record: `scirecipe`, `bioprobench.pqa` and so on (`forms.FORMS`)
    task: str  # the task that rewards answers: a name in `REWARD_TASKS`
    question: str  # without instructions, and for SciRecipe without the sentence that names the library
    reference: Any  # key lines for SCORE, else a record of the task
    record: Mapping[str, Any]
    type: str | None = None  # SciRecipe's type (`planning`), or a benchmark's; in lower case
    level: str | None = None  # "1" or "2" for SCORE, by the number of steps; else a benchmark's own difficulty
    steps: tuple[Step, ...] = ()
    library: tuple[str, ...] | None = None  # actions that an answer may use; None if the record names none
    has_distractors: bool = False  # True if the published library has distractors already (`action_new`)
    answer: str | None = None  # the published answer
    prompt: tuple[Message, ...] | None = None  # the record's own prompt as chat messages
    text: str | None = None  # the text of the protocol itself, for the stage `knowledge`
    held_out: bool = False  # True if its file is held out: the record is in the split `test`
