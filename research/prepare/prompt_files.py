"""Reads prompts of files: Python files of authors, and JSON files, which may take their texts from Python files.

{"name": "mine", "prompts": {"score": {"system": "…", "user": "… {question} …"}}}
{"prompts": {"score": {"python": "eval.py", "system": "SYSTEM", "user": "build", "places": {"lowered": "{actions}"}}}}
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from ...service.errors import UsageError, one_of
from ...service.records.rows.fields import has_text
from ...service.whole_files import read_whole
from ...service.wording import first_n
from .prompt_sets import Prompt, PromptFile, PromptSet, has_surrogate
from .prompts import PROMPTS, REASONED
from .python_prompts import PythonTexts
from .templates import PLACES, BadTemplate, Template, TemplatePlace, parse

BENCHMARK_TASKS = {
    "PQA": "bioprobench.pqa",
    "ORD": "bioprobench.ord",
    "ERR": "bioprobench.err",
    "REA-ERR": REASONED,
    "GEN": "lexical",
}
"""The prompts of BioProBench's script by its names of tasks."""

FIELDS = ("name", "prompts")
PROMPT_FIELDS = ("python", "system", "user", "places")
MAX_PLACES = 100  # places and texts of a prompt that are replaced
MAX_LISTED = 10  # names in a message


def read_prompts(paths: Sequence[str]) -> PromptSet:
    """Read the prompts of files: JSON, or `.py` with a function that has branches for BioProBench's tasks.

    Raises UsageError, which names a problem of every prompt that has one, and OSError.
    """
    files = [FileReader(path) for path in dict.fromkeys(paths)]
    problems = [problem for file in files for problem in file.problems]
    sources: dict[str, FileReader] = {}
    for file in files:
        twice = [task for task in file.prompts if task in sources]
        problems += [f"{file.path}: {sources[task].path} has a prompt for {task} too" for task in twice]
        sources |= dict.fromkeys(file.prompts, file)
    if problems:
        raise UsageError("; ".join(problems))
    prompts = {task: file.prompts[task] for task, file in sources.items()}
    digests = [PromptFile(*digest, tuple(file.prompts)) for file in files for digest in file.digests.items()]
    return PromptSet(", ".join(file.name for file in files), prompts, digests)


class FileReader:
    """The prompts of one file, its problems, and the digests of it and the files that it names."""

    def __init__(self, path: str) -> None:
        self.path, self.name = path, os.path.basename(path)
        self.prompts: dict[str, Prompt] = {}
        self.problems: list[str] = []
        self.digests: dict[str, str] = {}
        self._python: dict[str, PythonTexts] = {}
        content = self._content(path, self.name)
        with self._problem():
            self._read_python(content) if path.lower().endswith(".py") else self._read_json(content)

    def _content(self, path: str, name: str) -> bytes:
        content = read_whole(path)
        self.digests[name] = sha256(content).hexdigest()
        return content

    @contextmanager
    def _problem(self, where: str = "") -> Iterator[None]:
        """Keep a BadTemplate as a problem."""
        try:
            yield
        except BadTemplate as error:
            self.problems.append(f"{self.path}: {where}{error}")

    def _read_python(self, content: bytes) -> None:
        texts = PythonTexts(content)
        tasks = {text: BENCHMARK_TASKS.get(text.partition("(")[2].removesuffix(")")) for text in texts.names}
        for text, task in tasks.items():
            if task is not None:
                with self._problem(f"the prompt of {task}: "):
                    if task in self.prompts:
                        raise BadTemplate(f"{text} is another one")
                    self.prompts[task] = prompt_of(task, {"user": text}, texts)
        if not any(tasks.values()):
            raise BadTemplate(
                "no function has branches for the tasks of BioProBench; name its texts in a JSON file with prompts: "
                f"it has {listed(texts)}"
            )

    def _read_json(self, content: bytes) -> None:
        try:
            value = json.loads(content, object_pairs_hook=distinct)
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, BadTemplate) else BadTemplate(f"it is not valid JSON: {error}") from None
        prompts = value.get("prompts") if isinstance(value, dict) else None
        if not isinstance(prompts, dict) or not prompts:
            raise BadTemplate('it is not an object with "prompts", an object of prompts by task')
        with self._problem():
            check_fields(value, FIELDS)
            self.name = value.get("name", self.name)
            if not has_text(self.name) or has_surrogate(self.name):
                raise BadTemplate('"name" is not a text')
        for task, about in prompts.items():
            with self._problem(f"the prompt of {task}: "):
                check(task, about)
                texts = self._texts(about["python"]) if "python" in about else None
                self.prompts[task] = prompt_of(task, about, texts)

    def _texts(self, name: str) -> PythonTexts:
        """Return the texts of a Python file beside this one."""
        if name not in self._python:
            try:
                self._python[name] = PythonTexts(self._content(os.path.join(os.path.dirname(self.path), name), name))
            except (BadTemplate, OSError) as error:
                raise BadTemplate(f"{name}: {getattr(error, 'strerror', None) or error}") from None
        return self._python[name]


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises BadTemplate for a name that it repeats, of which Python keeps the last value."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise BadTemplate(f"{name!r} is repeated in an object")
    return dict(pairs)


def check_fields(value: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [f"the field {name!r} {one_of(name, known)}" for name in value if name not in known]:
        raise BadTemplate(first_n(unknown, MAX_LISTED))


def check(task: str, about: Any) -> None:
    """Raise BadTemplate unless an object of JSON is a prompt."""
    if task not in PROMPTS:
        raise BadTemplate(f"the task {one_of(task, PROMPTS)}")
    if not isinstance(about, dict) or not has_text(about.get("user")):
        raise BadTemplate('it is not an object with a text "user"')
    check_fields(about, PROMPT_FIELDS)
    if not all(has_text(about[name]) for name in ("system", "python") if name in about):
        raise BadTemplate('"system" and "python" are texts')
    places = about.get("places", {})
    if not isinstance(places, dict) or not all(map(has_text, places.values())):
        raise BadTemplate('"places" is not an object of texts')
    if len(places) > MAX_PLACES:
        raise BadTemplate(f'"places" has more than {MAX_PLACES} names')


def prompt_of(task: str, about: Mapping[str, Any], texts: PythonTexts | None) -> Prompt:
    """Return a prompt with the names of texts in a Python file, or with the texts themselves; raises BadTemplate."""
    system, user = (template_of(about, role, texts) if role in about else () for role in ("system", "user"))
    try:
        prompt = Prompt(system, user).replaced({name: parse(text) for name, text in about.get("places", {}).items()})
        if texts is not None:
            names = {place.name for place in prompt.places if isinstance(place, TemplatePlace)} - PLACES[task].keys()
            prompt = prompt.in_places({name: texts.read(name) for name in names if texts.is_constant(name)})
    except BadTemplate as error:
        raise BadTemplate(f"places: {error}") from None
    if problems := list(prompt.problems(task)):
        raise BadTemplate("; ".join(problems))
    return prompt


def template_of(about: Mapping[str, Any], role: str, texts: PythonTexts | None) -> Template:
    """Return the template that a text is, or that it names in a Python file; raises BadTemplate."""
    text = about[role]
    try:
        if texts is None:
            return parse(text)
        if text not in texts.names:
            raise BadTemplate(f"the file has no such text; it has {listed(texts)}")
        template = texts.read(text)
    except BadTemplate as error:
        place = [role] if texts is None else [role, about.get("python"), text]
        raise BadTemplate(": ".join([*filter(None, place), str(error)])) from None
    try:
        return parse("".join(map(str, template))) if texts.is_constant(text) else template
    except BadTemplate:  # `str.format` does not take it either
        return template


def listed(texts: PythonTexts) -> str:
    return first_n(texts.names, MAX_LISTED) or "no texts"
