"""One record of a data set as prompts, splits and statistics need it, whatever its published form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..explain.reading import Step
from ..files.field_names import Message
from ..files.rows.rows import Place

__all__ = ["Example", "Message", "Step"]


class Example(NamedTuple):
    """One record: what is asked, and what answers are compared with."""

    place: Place
    id: str
    """The record's own `id`, else a digest of its content (`groups.with_ids`)."""
    dataset: str
    """Form of the record: `scirecipe`, `bioprobench.pqa` and so on (`forms.FORMS`)."""
    task: str
    """The task that rewards answers: a name in `REWARD_TASKS`."""
    question: str
    """The question without instructions, and for SciRecipe without the sentence that names the library."""
    reference: Any
    """Key lines for SCORE, else a record of the task."""
    record: Mapping[str, Any]
    type: str | None = None
    """SciRecipe's type (`planning`), or a benchmark's; in lower case."""
    level: str | None = None
    """Difficulty: "1" or "2" for SCORE, by the number of steps; a benchmark's own, if it has one."""
    steps: tuple[Step, ...] = ()
    library: tuple[str, ...] | None = None
    """Actions that an answer may use; None if the record names none."""
    has_distractors: bool = False
    """True if the published library has distractors already (`action_new`)."""
    answer: str | None = None
    """The published answer, None if the record has none."""
    prompt: tuple[Message, ...] | None = None
    """The record's own prompt as chat messages, None if it has none."""
    text: str | None = None
    """The text of the protocol itself, for the stage `knowledge`; None if the record has none."""
    held_out: bool = False
    """True if its file is held out: the record is in the split `test`."""
