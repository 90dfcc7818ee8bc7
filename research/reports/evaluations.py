"""Evaluations of files of answers by one task, or by each task of a prepared folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...service.errors import InvalidRequest, Issue, one_of
from ...service.records.files.opening import SourceFile
from ...service.records.files.wrong_files import DocumentError
from ...service.records.jobs.manifest import Manifest
from ...service.records.rows.answers import Answers, read_answers
from ...service.rewards.registry import SCORE
from ...service.tasks.evaluation import TASKS, result_of, task_named
from ...service.tasks.task import USUAL, Advance, Records, Task
from .evaluated_file import EvaluatedFile
from .published import Need

USUAL_GROUPS = ("level", "type")


class Work(NamedTuple):
    """Files to be evaluated by one task, with its options as they are given."""

    task: Task
    sources: Sequence[SourceFile]
    options: Mapping[str, Any]


class UnreadableFiles(Exception):
    """Files that are malformed as a whole, or have no answers of a task: each with what is wrong."""

    def __init__(self, failures: Sequence[tuple[SourceFile, DocumentError]]) -> None:
        super().__init__(f"{len(failures)} files cannot be read")
        self.failures = failures


def parts_of(manifest: Manifest | None, files: Sequence[SourceFile], name: str | None) -> dict[str, list[SourceFile]]:
    """Return the files of each task: of the named one, else with a manifest of the task of each row, or of SCORE.

    Raises UnreadableFiles, and InvalidRequest for an unknown task.
    """
    if name is not None:
        task_named(name)
    if manifest is None:
        return {name or SCORE: list(files)}
    parts, failures = [], []
    for file in files:
        try:
            parts.append(manifest.by_task(file, name))
        except DocumentError as error:
            failures.append((file, error))
    if failures:
        raise UnreadableFiles(failures)
    without = [file._replace(rows=partial(iter, ())) for file in files]
    return {
        task: [part.get(task, none) for part, none in zip(parts, without, strict=True)]
        for task in TASKS
        if any(task in part for part in parts)
    }


def works_of(parts: Mapping[str, list[SourceFile]], options: Mapping[str, Any], metrics: Sequence[str]) -> list[Work]:
    """Return what to evaluate; raises InvalidRequest for invalid options, before long files are read."""
    tasks = [task_named(name) for name in parts]
    works = []
    for task, own, sources in zip(tasks, options_for(tasks, options, metrics), parts.values(), strict=True):
        if own is not None:
            task.checked(own)
            works.append(Work(task, sources, own))
    return works


def work_for(need: Need, works: Sequence[Work]) -> Work:
    """Return what a printed table needs to be evaluated, with the options that are given for its task."""
    work = next(work for work in works if work.task.name == need.task)
    return work._replace(options={**work.options, **need.options, "by": list(need.by)})


@dataclass
class Evaluations:
    """Reads files once and evaluates them by any task.

    fields: names of the response and of the reference, whatever the task calls them. mapping: the task's names of
    fields to the file's. command, about: what reports show of how they were made, and of what rows and prompts.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    command: str = ""
    about: str = ""
    _answers: dict[tuple[str, int], Answers] = field(default_factory=dict)

    def read(self, work: Work) -> list[Answers]:
        """Return the answers of each file; raises UnreadableFiles."""
        mapping = {work.task.response if role == "response" else role: name for role, name in self.fields.items()}
        answers, failures = [], []
        for source in work.sources:
            key = work.task.name, id(source)
            try:
                if key not in self._answers:
                    self._answers[key] = read_answers(source, work.task, mapping | dict(self.mapping))
                answers.append(self._answers[key])
            except DocumentError as error:
                failures.append((source, error))
        if failures:
            raise UnreadableFiles(failures)
        return answers

    def evaluate(self, work: Work, advance: Advance) -> list[EvaluatedFile]:
        """Return each file evaluated, all with the same metrics and groups; raises UnreadableFiles and ScoringError."""
        task, read = work.task, self.read(work)
        records = [record for answers in read for record in answers.records]
        options = {"by": usual_groups(records, task), **work.options}
        if "metrics" not in options:
            optional = task.optional_metrics(records)
            options["metrics"] = [USUAL, *[m.name for m in task.metrics if not m.default and m.name in optional]]
        checked = task.checked(options)
        shown = {key: value for key, value in checked.model_dump().items() if key not in ("by", "metrics")}
        evaluated = []
        for source, answers in zip(work.sources, read, strict=True):
            evaluation = task.evaluate(answers.records, checked, advances(advance))
            evaluated.append(
                EvaluatedFile(
                    source=source.path,
                    task=task,
                    options=shown,
                    answers=answers,
                    evaluation=evaluation,
                    result=result_of(task, answers.records, checked, evaluation),
                    command=self.command,
                    about=self.about,
                )
            )
        return evaluated


def advances(advance: Advance) -> Callable[[int], None]:
    """Return a callback that counts the records of one file once, though each metric reports them again."""
    done = 0

    def counted(rows: int) -> None:
        nonlocal done
        new = max(0, rows - done)
        advance(new)
        done += new

    return counted


def usual_groups(records: Records, task: Task) -> list[str]:
    present = {name for name in USUAL_GROUPS if any(record.get(name) is not None for record in records)}
    return [name for name in USUAL_GROUPS if name in present or name in task.derived_fields]


def options_for(
    tasks: Sequence[Task], options: Mapping[str, Any], metrics: Sequence[str]
) -> list[dict[str, Any] | None]:
    """Return the options of each task, of those given for all: an option is for the tasks that have it.

    A value that only some of them take is for these. metrics: names, `usual` or `all`; a task without any of them has
    None instead of options. Raises InvalidRequest for an option or a metric that no task has; with one task, and for
    values that none takes, its evaluation does.
    """
    chosen: list[dict[str, Any]] = [{} for _ in tasks]
    issues: list[Issue] = []
    for name, value in options.items():
        takers = [(k, option) for k, task in enumerate(tasks) if (option := option_of(task, name))]
        if not takers and len(tasks) == 1:
            takers = [(0, name)]
        for k, option in [taker for taker in takers if accepts(tasks[taker[0]], taker[1], value)] or takers:
            chosen[k][option] = value
        if not takers:
            valid = sorted({option for task in tasks for option in task.options.model_fields})
            issues.append(Issue(f"options.{name}", "unknown_option", f"the option {one_of(name, valid)}"))
    offered = [
        [metric.name for metric in task.offered(task.options.model_construct(**own))]
        for task, own in zip(tasks, chosen, strict=True)
    ]
    named = [{USUAL, "all", *names} for names in offered]
    for k, name in enumerate(metrics if len(tasks) > 1 else ()):
        if not any(name in names for names in named):
            issues.append(Issue(f"options.metrics[{k}]", "unknown_metric", one_of(name, sorted(set().union(*named)))))
    if issues:
        raise InvalidRequest(issues)
    of_tasks: list[dict[str, Any] | None] = []
    for own, every, names in zip(chosen, offered, named, strict=True):
        wanted = [name for name in metrics if name in names or len(tasks) == 1]
        if "all" in wanted:
            wanted = every
        of_tasks.append(None if metrics and not wanted else own | ({"metrics": wanted} if wanted else {}))
    return of_tasks


def option_of(task: Task, name: str) -> str | None:
    """Return the name of a task's option that is given as itself or as `TASK.OPTION`, None if it has none."""
    option = name.removeprefix(f"{task.name}.")
    return option if option in task.options.model_fields else None


def accepts(task: Task, option: str, value: Any) -> bool:
    """Return whether a task has an option, and takes this value of it."""
    try:
        task.checked({option: value})
    except InvalidRequest:
        return False
    return True
