"""Reads prompts of files: Python files of authors, and JSON files, which may take their texts from Python files.

{"name": "mine", "prompts": {"score": {"system": "…", "user": "… {question} …"}}}
{"prompts": {"score": {"python": "eval.py", "system": "SYSTEM", "user": "build", "places": {"lowered": "{actions}"}}}}
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from ...service.errors import UsageError, one_of
from ...service.records.fields import has_text
from ...service.whole_files import read_whole
from ...service.wording import first_n
from .prompt_sets import Prompt, PromptFile, PromptSet, has_surrogate
from .prompts import PROMPTS, REASONED
from .python_prompts import BadPython, Texts, read_python
from .templates import PLACES, BadTemplate, Template, parse

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

    Raises UsageError, which names every problem of the files, and OSError.
    """
    prompts: dict[str, Prompt] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    files = []
    names = []
    for path in dict.fromkeys(paths):
        reader = FileReader(path)
        try:
            name, file_prompts = reader.python_file() if path.lower().endswith(".py") else reader.json_file()
        except BadFile as error:
            reader.problems.append(str(error))
            name, file_prompts = path, {}
        names.append(name)
        for task, prompt in file_prompts.items():
            if task in prompts:
                problems.append(f"{path}: {sources[task]} has a prompt for {task} too")
            prompts[task], sources[task] = prompt, path
        problems += [f"{path}: {problem}" for problem in reader.problems]
        files += [PromptFile(name, digest, tuple(file_prompts)) for name, digest in reader.digests.items()]
    if problems:
        raise UsageError("; ".join(problems))
    return PromptSet(", ".join(names), prompts, files)


class BadFile(ValueError):
    """A file without any prompt that can be read."""


class FileReader:
    """Reads the prompts of one file, and keeps its problems and the digests of it and the files that it names."""

    def __init__(self, path: str) -> None:
        self.problems: list[str] = []
        self.digests: dict[str, str] = {}
        self._path = path
        self._python: dict[str, Texts | str] = {}

    def _read(self, path: str, name: str) -> bytes:
        content = read_whole(path)
        self.digests[name] = sha256(content).hexdigest()
        return content

    def python_file(self) -> tuple[str, dict[str, Prompt]]:
        """Return the name of a Python file, and the prompts of a function with branches for BioProBench's tasks."""
        name = os.path.basename(self._path)
        try:
            texts = read_python(self._read(self._path, name))
        except BadPython as error:
            raise BadFile(str(error)) from None
        prompts: dict[str, Prompt] = {}
        for text in (*texts.functions, *texts.unreadable):
            task = BENCHMARK_TASKS.get(text.partition("(")[2].removesuffix(")"))
            if task is None:
                continue
            if task in prompts:
                self.problems.append(f"{text} is another prompt for {task}")
            prompts[task] = self._prompt(task, {"user": text}, texts)
        if not prompts:
            raise BadFile(
                "no function has branches for the tasks of BioProBench; name its texts in a JSON file with prompts: "
                f"it has {listed(texts)}"
            )
        return name, prompts

    def json_file(self) -> tuple[str, dict[str, Prompt]]:
        """Return the name that a JSON file gives its prompts, or its own, and the prompts."""
        name = os.path.basename(self._path)
        content = self._read(self._path, name)
        try:
            value = json.loads(content, object_pairs_hook=self._object)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"it is not valid JSON: {error}") from None
        prompts = value.get("prompts") if isinstance(value, dict) else None
        if not isinstance(prompts, dict) or not prompts:
            raise BadFile('it is not an object with "prompts", an object of prompts by task')
        self._fields(value, FIELDS, "")
        if not has_text(value.get("name", name)) or has_surrogate(value.get("name", name)):
            self.problems.append('"name" is not a text')
        return str(value.get("name", name)), {task: self._of_json(task, about) for task, about in prompts.items()}

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return a JSON object; names that it repeats are problems, since Python keeps only the last value."""
        counts = Counter(name for name, _ in pairs)
        self.problems += [f"{name!r} is repeated in an object" for name, count in counts.items() if count > 1]
        return dict(pairs)

    def _fields(self, value: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        self.problems += [f"{where}the field {name!r} {one_of(name, known)}" for name in value if name not in known]

    def _of_json(self, task: str, about: Any) -> Prompt:
        where = f"the prompt of {task}: "
        if task not in PROMPTS:
            self.problems.append(f"the task {task!r} {one_of(task, PROMPTS)}")
        elif not isinstance(about, dict) or not has_text(about.get("user")):
            self.problems.append(f'{where}it is not an object with a text "user"')
        elif not all(has_text(about[name]) for name in ("system", "python") if name in about):
            self.problems.append(f'{where}"system" and "python" are texts')
        elif not isinstance(about.get("places", {}), dict) or not all(map(has_text, about.get("places", {}).values())):
            self.problems.append(f'{where}"places" is not an object of texts')
        elif len(about.get("places", {})) > MAX_PLACES:
            self.problems.append(f'{where}"places" has more than {MAX_PLACES} names')
        else:
            self._fields(about, PROMPT_FIELDS, where)
            texts = self._texts(about["python"]) if "python" in about else None
            if not isinstance(texts, str):
                return self._prompt(task, about, texts)
            self.problems.append(f"{where}{texts}")
        return Prompt((), ())

    def _texts(self, name: str) -> Texts | str:
        """Return the texts of a Python file beside this one, or why it has none."""
        if name not in self._python:
            try:
                content = self._read(os.path.join(os.path.dirname(self._path), name), name)
                self._python[name] = read_python(content)
            except (BadPython, OSError) as error:
                self._python[name] = f"{name}: {getattr(error, 'strerror', None) or error}"
        return self._python[name]

    def _prompt(self, task: str, about: Mapping[str, Any], texts: Texts | None) -> Prompt:
        """Return a prompt with the names of texts in a Python file, or with the texts themselves."""
        where = f"the prompt of {task}: "
        templates: dict[str, Template] = {}
        for role in ("system", "user"):
            try:
                templates[role] = template_of(about[role], texts) if role in about else ()
            except BadTemplate as error:
                self.problems.append(f"{where}{role}: {error}")
        if len(templates) < 2:
            return Prompt((), ())
        prompt = Prompt(**templates)
        try:
            others = {name: parse(text) for name, text in about.get("places", {}).items()}
            prompt = prompt.replaced(others)
            if texts is not None:
                constants = {name: (text,) for name, text in texts.constants.items() if name not in PLACES[task]}
                prompt = prompt.in_places(constants)
        except BadTemplate as error:
            self.problems.append(f"{where}places: {error}")
        self.problems += [f"{where}{problem}" for problem in prompt.problems(task)]
        return prompt


def template_of(text: str, texts: Texts | None) -> Template:
    """Return the template that a text is, or that it names in a Python file; raises BadTemplate."""
    if texts is None:
        return parse(text)
    if text in texts.functions:
        return texts.functions[text]
    if text in texts.unreadable:
        raise BadTemplate(f"{text}: {texts.unreadable[text]}")
    if text not in texts.constants:
        raise BadTemplate(f"the file has no text {text!r}; it has {listed(texts)}")
    try:
        return parse(texts.constants[text])
    except BadTemplate:  # `str.format` does not take it either
        return (texts.constants[text],)


def listed(texts: Texts) -> str:
    return first_n([*texts.functions, *texts.constants], MAX_LISTED) or "no texts"
