"""Sets of prompts: from Assay itself, from files as authors publish them, and from the records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from ...service.errors import UsageError
from ...service.records.rows.fields import Message
from ...service.records.rows.rows import Fault, Location, RowPlace
from ...service.rewards.registry import SCORE
from ...service.tasks.bioprobench.answers import END, START
from ...service.wording import plural
from .examples import Example
from .prompts import GUIDANCE, PROMPTS, REASONED, ROWS, chat, messages_of, prompt_name
from .templates import (
    MAX_FILLED,
    NEEDED,
    PLACES,
    BadTemplate,
    Field,
    Lacking,
    PromptTooLong,
    Template,
    TemplatePlace,
    as_json,
    fill,
    in_places,
    in_texts,
    places_in,
)

MARKS = {SCORE: ("<think>", "<key>", "<orc>", "<note>")} | dict.fromkeys(
    ("bioprobench.pqa", "bioprobench.ord", "bioprobench.err", REASONED), (START, END)
)
"""The marks that scorers look for in an answer; a prompt that asks for them names them."""

OWN_NAME, RECORDS_NAME = "assay", "records"


class Prompt(NamedTuple):
    """The templates of a chat: of the system message, empty if there is none, and of the user message."""

    system: Template
    user: Template

    @property
    def places(self) -> list[TemplatePlace | Field]:
        return [*places_in(self.system), *places_in(self.user)]

    def replaced(self, others: Mapping[str, Template]) -> Prompt:
        """Return the prompt with other templates in its places, or for literal texts; raises BadTemplate."""
        names = {place.name for place in self.places if isinstance(place, TemplatePlace)}
        places = {name: other for name, other in others.items() if name in names}
        system, user = (in_places(template, places) for template in self)
        absent = []
        for text in (name for name in others if name not in names):
            before = system, user
            if text:
                system, user = (in_texts(template, text, others[text]) for template in before)
            if (system, user) == before:
                absent.append(text)
        if absent:
            raise BadTemplate(f"it has no {' and no '.join(map(repr, absent))}")
        return Prompt(system, user)

    def in_places(self, others: Mapping[str, Template]) -> Prompt:
        return Prompt(in_places(self.system, others), in_places(self.user, others))

    def problems(self, task: str) -> Iterator[str]:
        """Yield why the prompt cannot be filled for records of a task."""
        names = dict.fromkeys(place.name for place in self.places if isinstance(place, TemplatePlace))
        unknown = [f"{{{name}}}" for name in names if name not in PLACES[task]]
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in PLACES[task])
            yield f"unknown places {', '.join(unknown)}; the places are {known} and {{record[FIELD]}}"
        elif not self.places:
            yield "it has no place, so that it would be the same for every record"
        if has_surrogate(json.dumps([*map(as_json, self)], ensure_ascii=False)):
            yield "it has a lone surrogate, which UTF-8 cannot encode"


class PromptFile(NamedTuple):
    """A file of prompts: its name, the SHA-256 of its bytes, and the names of its prompts."""

    name: str
    sha256: str
    prompts: Sequence[str]


class PromptSets:
    """Where the prompts of rows come from; digests: of the prompt of each task."""

    library_is_checked = False
    """Whether the library of actions must be readable from the prompt again."""

    def __init__(self, name: str, digests: Mapping[str, str], files: Sequence[PromptFile] = ()) -> None:
        self.name, self._digests, self._files = name, digests, files
        self._used: set[str] = set()

    @property
    def sha256(self) -> str:
        return digest_of(self._digests)

    def check(self, examples: Iterable[Example]) -> None:
        """Raise UsageError unless there is a prompt for each record, and a record for each file."""
        self._used = {prompt_name(example) for example in examples}

    def messages(self, example: Example, actions: Sequence[str] | None) -> list[Message] | Fault:
        """Return the prompt of a record, or why it has none; raises InvalidReference."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Return what readers of the rows should know."""
        return []

    def document(self) -> dict[str, Any]:
        """Return the name and the SHA-256 of the prompts for the manifest."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "files": [{"name": file.name, "sha256": file.sha256} for file in self._files],
            "tasks": {task: self._digests[task] for task in sorted(self._used)},
        }


class PromptSet(PromptSets):
    """Prompts of files by the names in `prompts.PROMPTS`; equal texts have equal digests in any form of file."""

    def __init__(self, name: str, prompts: Mapping[str, Prompt], files: Sequence[PromptFile] = ()) -> None:
        super().__init__(name, {task: digest_of([*map(as_json, prompt)]) for task, prompt in prompts.items()}, files)
        self._prompts = prompts
        self._places = {task: {str(place) for place in prompt.places} for task, prompt in prompts.items()}

    def check(self, examples: Iterable[Example]) -> None:
        missing = Counter[str]()
        hidden: dict[str, None] = {}
        for example in examples:
            task = prompt_name(example)
            if task not in self._prompts:
                missing[task] += 1
                continue
            self._used.add(task)
            if example.dataset != ROWS and self._places[task].isdisjoint(NEEDED[task]):
                hidden[task] = None
        problems = [f"no prompt for {task} ({plural(count, 'record')})" for task, count in missing.items()]
        problems += [
            f"the prompt of {task} does not show what is asked: it has none of {', '.join(NEEDED[task])}"
            for task in hidden
        ]
        problems += [
            f"{file.name}: no record is of {' or '.join(file.prompts)}"
            for file in self._files
            if self._used.isdisjoint(file.prompts)
        ]
        if problems:
            raise UsageError(f"--prompts {self.name}: {'; '.join(problems)}")

    def messages(self, example: Example, actions: Sequence[str] | None) -> list[Message] | Fault:
        task = prompt_name(example)
        system, user = self._prompts[task]
        try:
            texts = [fill(template, task, example, actions) for template in (system, user)]
        except Lacking as place:
            return Fault("no_place", f"the record has nothing for {place} in the prompt of {task}")
        except PromptTooLong:
            return Fault("too_long", f"the prompt of {task} would have more than {MAX_FILLED:,} characters")
        return chat(*texts) if system else [{"role": "user", "content": texts[1]}]

    def notes(self) -> list[str]:
        """Return which prompts name no marks: answers without them are not read, whatever the ideal answer gets."""
        notes = []
        for task in sorted(self._used & MARKS.keys()):
            texts = json.dumps([*map(as_json, self._prompts[task])], ensure_ascii=False)
            if absent := [mark for mark in MARKS[task] if mark not in texts]:
                notes.append(f"the prompt of {task} asks for no {' '.join(absent)}, which its scorer reads")
        return notes


class OwnPrompts(PromptSets):
    """Assay's own prompts; a digest is computed from the prompts of sample records, and changes with the texts."""

    library_is_checked = True

    def __init__(self) -> None:
        samples = {task: [messages_of(*sample) for sample in SAMPLES[task]] for task in PROMPTS}
        super().__init__(OWN_NAME, {task: digest_of(messages) for task, messages in samples.items()})

    def messages(self, example: Example, actions: Sequence[str] | None) -> list[Message] | Fault:
        return messages_of(example, actions)


class RecordPrompts(PromptSets):
    """The prompts that records have; their digest does not depend on the order of the records."""

    def __init__(self) -> None:
        super().__init__(RECORDS_NAME, {})

    def check(self, examples: Iterable[Example]) -> None:
        digests: dict[str, set[str]] = {}
        for example in examples:
            digests.setdefault(prompt_name(example), set()).add(digest_of(example.prompt))
        self._used = set(digests)
        self._digests = {task: digest_of(sorted(of_task)) for task, of_task in digests.items()}

    def messages(self, example: Example, actions: Sequence[str] | None) -> list[Message] | Fault:
        return list(example.prompt) if example.prompt else Fault("no_prompt", "the record has no prompt")


def has_surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted names and without spaces."""
    content = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


Sample = tuple[Example, Sequence[str] | None]
ACTIONS = ("add", "mix")


def sample(task: str, reference: Any, record: Mapping[str, Any], kind: str | None = None, form: str = "") -> Example:
    place = RowPlace("samples", Location("record", 1))
    return Example(
        place=place,
        id="sample",
        dataset=form,
        task=task,
        question="question",
        reference=reference,
        record=record,
        type=kind,
    )


STEP = {"context": {"purpose": "purpose", "prior_step": "prior", "next_step": "next"}}

SAMPLES: dict[str, list[Sample]] = {
    SCORE: [(sample(SCORE, "", {}, kind), ACTIONS) for kind in GUIDANCE],
    "bioprobench.pqa": [(sample("bioprobench.pqa", {"answer": "a"}, {"choices": ["a", "b"]}), None)],
    "bioprobench.ord": [
        (sample("bioprobench.ord", {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}, {}), None)
    ],
    "bioprobench.err": [(sample("bioprobench.err", {"is_correct": True}, STEP), None)],
    REASONED: [(sample("bioprobench.err", {"is_correct": True}, STEP, form=REASONED), None)],
    "lexical": [(sample("lexical", {"reference": "a"}, {"instruction": "instruction"}), None)],
    "bioplanner": [(sample("bioplanner", {"ground_truth": "def a(b):\n    pass\na(1)\nc()"}, {}), None)],
    "sgi.wet_experiment": [
        (sample("sgi.wet_experiment", {"answer": "a = <A>(\n    b=c\n)"}, {"action_pool": "A"}), None)
    ],
}
"""Records and actions for each prompt of PROMPTS."""
