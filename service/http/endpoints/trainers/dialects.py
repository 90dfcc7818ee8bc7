"""The formats of trainers: how a request becomes a native one, and scores a reply."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field

from .....kernels.column import TextColumn, column_of
from .....kernels.score import COMPONENTS
from .....kernels.sequences import overlaps
from ....errors import Issue
from ....rewards.registry import REWARD_TASKS, REWARDS, SCORE, TASK_COMPONENTS, reward_of
from ....rewards.scores import Scores
from ....scoring.labels import ABSENT
from ....scoring.texts import count_of
from ....settings import ScoreSettings
from ....wire.json_codec import Envelope, RequestLimits, TooManyError, open_envelope, response_issues
from ....wire.problems import Problem
from .rows import JsonObject, array_of, parsed

FREQUENT_REASONS = (
    "think_not_opened",
    "missing_sections",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "step_count",
    "low_coverage",
    "added_numbers",
    "added_words",
)
"""SCORE's reasons with a separate 0/1 number, whose mean is the share of responses with that reason."""

IDENTIFIERS = ("score_task", "score_reason_code")
"""The numbers of a row's task and of its reason within the task, as GET /v1/tasks lists them."""

REASON_NUMBERS = (*IDENTIFIERS, "score_readable", *(f"score_reason_{name}" for name in FREQUENT_REASONS))
NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in COMPONENTS))
"""The numbers besides a reward in replies, always finite floats. The prefix avoids clashes with a trainer's names."""

TASK_NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in TASK_COMPONENTS))
"""The numbers of rows of any task, for a query that names tasks."""


@cache
def reason_numbers(task: int, code: int) -> tuple[float, ...]:
    """Return the values of `REASON_NUMBERS` for a reason of a task."""
    name = list(REWARDS[task].reasons)[code]
    return float(task), float(code), *(float(name == frequent) for frequent in ("ok", *FREQUENT_REASONS))


class RouteOptions(BaseModel):
    """Query options of a route besides the settings of the reward; dialects add others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    task: str | None = Field(
        None,
        description="The task of every row, by its name in GET /v1/tasks; its options are names of the query.",
        json_schema_extra={"enum": list(REWARD_TASKS)},
    )
    task_field: str | None = Field(
        None,
        min_length=1,
        description="The row's field with the name of its task; `a.b` is the field b of a. A row without it is SCORE's."
        " Options of other tasks have the form `bioprobench.ord.repeats=failed`.",
    )

    @property
    def names_tasks(self) -> bool:
        return self.task is not None or self.task_field is not None

    def prepare(self, settings: ScoreSettings) -> None:
        """Take note of the settings of SCORE that the query selects."""


class Rollouts(NamedTuple):
    """The rollouts of a request as JSON arrays, `ABSENT` for a missing one."""

    responses: bytes
    response_path: str
    """The path that replaces `responses` in paths of errors, ending in `[]` for an array."""
    references: bytes
    prompts: bytes = ABSENT

    def native(self) -> bytes | None:
        """Return the native form of a common request of one rollout; None for any other, which `read` reads."""
        responses = without_prompt(self.prompts, self.responses) if self.prompts else self.responses
        return None if responses is None else b'{"references":%b,"responses":%b}' % (self.references, responses)

    def read(self, reference_path: str, limits: RequestLimits, issues: list[Issue]) -> Envelope:
        """Return the columns, and append every issue, except of references, to `issues`; raise Problem `too-large`."""
        paths = {"responses": self.response_path, "references": reference_path}
        columns = open_arrays({"responses": self.responses, "references": self.references}, paths, limits)
        issues += text_issues(columns, self.response_path)
        prompts = None
        if self.prompts:
            opened = open_arrays({"responses": self.prompts}, {"responses": "prompts[]"}, limits)
            issues += text_issues(opened, "prompts[]")
            prompts = opened.responses
        if "references" in columns.not_arrays:
            issues.append(not_array(reference_path))
        if (responses := columns.responses) is not None:
            references = columns.references and columns.references.texts
            for path, texts in (("prompts", prompts), (reference_path, references)):
                if texts is not None and count_of(texts) != responses.rows:
                    detail = f"it has {count_of(texts)} entries for {responses.rows} queries"
                    issues.append(Issue(path.removesuffix("[]"), "wrong_length", detail))
            if prompts is not None and not issues:
                columns.responses = remove_prompts(prompts, responses)
        return columns


def open_arrays(arrays: dict[str, bytes], paths: dict[str, str], limits: RequestLimits) -> Envelope:
    """Read arrays as fields of a native request, without those that are missing; raise Problem `too-large`."""
    body = b",".join(b'"%b":%b' % (name.encode(), array) for name, array in arrays.items() if array)
    try:
        return open_envelope(b"{%b}" % body, limits.max_responses, limits.max_reference_bytes, limits.threads)
    except TooManyError as error:
        path = paths[str(error)].removesuffix("[]")
        issue = Issue(path, "too_many", f"more than {limits.max_responses} elements")
        raise Problem("too-large", f"A request may have {limits.max_responses} rollouts.", [issue]) from None


def text_issues(columns: Envelope, path: str) -> list[Issue]:
    if "responses" in columns.not_arrays:
        return [not_array(path)]
    return rename_paths(response_issues(columns), "responses", path)


def not_array(path: str) -> Issue:
    return Issue(path.removesuffix("[]"), "wrong_type", "must be an array")


def rename_paths(issues: Iterable[Issue], old: str, new: str) -> list[Issue]:
    """Rename the paths of issues: `old[3].x` becomes `new[3].x` for `new[]`, else `new.x`."""
    rest = {issue: issue.path.removeprefix(old) for issue in issues}
    return [
        issue._replace(path=new.removesuffix("[]") + (path if new.endswith("[]") else path.partition("]")[2]))
        for issue, path in rest.items()
    ]


class Dialect(ABC):
    options: type[RouteOptions] = RouteOptions
    fields: tuple[str, ...]
    reference: str
    """The path of a row's reference in the request, ending in `[]` for an array."""
    missing_reference: str | None = None
    """The detail of an error about a missing reference, if it is not one of `fields`."""

    def reference_path(self, options: Any) -> str:
        return self.reference

    @abstractmethod
    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        """Return the rollouts of a request with this label; append to `issues`."""

    @abstractmethod
    def encode(self, scores: Scores, request: JsonObject, options: Any, every_task: bool) -> bytes:
        """Return the bytes of the reply, with the numbers of all tasks for `every_task`; raise ArithmeticError for a
        number that is not finite.
        """

    def masked(self, issues: Sequence[Issue], request: JsonObject, options: Any) -> bytes | None:
        """Return the reply that excludes a rollout with these issues from training; None if there is none."""
        return None


class OpenRlhfOptions(RouteOptions):
    """Query options of the route for OpenRLHF, for its dynamic filtering."""

    scores: Literal["rewards", "passed"] = Field(
        "rewards",
        description="The `scores` of the reply, whose mean over a group dynamic filtering compares with its range: the "
        "rewards, or `score_passed`.",
    )


class OpenRlhf(Dialect):
    """POST /compat/openrlhf: OpenRLHF's `--reward.remote_url` (older: `--remote_rm_url`); arrays of rollouts."""

    options = OpenRlhfOptions
    fields = ("query", "prompts", "labels")
    reference = "labels[]"

    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        return Rollouts(request["query"], "query[]", label, request["prompts"])

    def encode(self, scores: Scores, request: JsonObject, options: OpenRlhfOptions, every_task: bool) -> bytes:
        numbers = numbers_of(scores, every_task)
        rewards = finite_json(scores.rewards.tolist())
        filtered = finite_json(numbers["score_passed"]) if options.scores == "passed" else rewards
        return b'{"rewards":%b,"scores":%b,"extra_logs":%b}' % (rewards, filtered, finite_json(numbers))


class SlimeOptions(RouteOptions):
    """The form of the reply."""

    format: Literal["object", "float"] = Field(
        "object", description="The reply: an object (for --reward-key reward), or the bare reward."
    )


class Slime(Dialect):
    """POST /compat/slime: slime's `--rm-type remote_rm --rm-url …`; one rollout, whose prompt is ignored."""

    options = SlimeOptions
    fields = ("response", "label")
    reference = "label"

    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        return Rollouts(array_of(request["response"]), "response", array_of(label))

    def encode(self, scores: Scores, request: JsonObject, options: SlimeOptions, every_task: bool) -> bytes:
        if options.format == "float":
            return finite_json(scores.rewards.item())
        return finite_json(numbers_of_one(scores, every_task))


def numbers_of(scores: Scores, every_task: bool) -> dict[str, Sequence[float]]:
    """Return the numbers of a batch, one column per name: TASK_NUMBERS for `every_task`, else NUMBERS."""
    measures, tasks = scores.measures.tolist(), scores.task_codes.tolist()
    reasons = list(map(reason_numbers, tasks, scores.reason_codes.tolist()))
    if any(tasks):
        passed = scores.passed.tolist()
    else:  # some ten times as fast for one row
        both = zip(*(measures[COMPONENTS.index(name)] for name in reward_of(SCORE).passed_if), strict=True)
        passed = [float(values == (1.0, 1.0)) for values in both]
    columns: list[Sequence[float]] = [*zip(*reasons, strict=True)] or [()] * len(REASON_NUMBERS)
    columns += [passed, *measures, *[[0.0] * len(scores)] * (len(TASK_COMPONENTS) - len(measures))]
    return dict(zip(TASK_NUMBERS if every_task else NUMBERS, columns, strict=False))


def numbers_of_one(scores: Scores, every_task: bool) -> dict[str, float]:
    numbers = numbers_of(scores, every_task)
    return {"reward": scores.rewards.item(), **{name: value for name, (value,) in numbers.items()}}


def finite_json(reply: Any) -> bytes:
    body = orjson.dumps(reply)
    if b"null" in body:  # orjson encodes NaN and infinities as null
        raise ArithmeticError("a result is not a finite number")
    return body


ANCHOR = 64
"""Characters of a query to search for in its prompt; if they do not decide, the kernel does."""

REPLACEMENT = "\ufffd"
MAX_RESPELLED = 1 << 16
"""Maximum bytes of a prompt that is also tried in NFC."""

LONG_RUN = re.compile("[^\x00-\x7f]{256}")
"""Runs of possible combining marks that are not normalized: that takes quadratic time."""


def without_prompt(prompts: bytes, queries: bytes) -> bytes | None:
    """Return the response of one query in the usual case, else None; all are JSON arrays."""
    prompt = only_text(prompts)
    if prompt is None:
        return None
    if queries.startswith(prompts[:-2]) and prompts[-2:] == b'"]':  # same escapes: the rest is the response
        return b'["' + queries[len(prompts) - 2 :]
    query = only_text(queries) or ""
    pos = prompt.find(query[:ANCHOR]) if len(query) >= ANCHOR else -1
    if pos < 0 or not query.startswith(prompt[pos:]):  # the first match is the longest suffix
        return None
    return orjson.dumps([query[len(prompt) - pos :]])


def only_text(array: bytes) -> str | None:
    texts = parsed(array)
    return texts[0] if type(texts) is list and len(texts) == 1 and type(texts[0]) is str else None


def remove_prompts(prompts: TextColumn, queries: TextColumn) -> TextColumn:
    """Return the response of each query, which is a text of prompt and response.

    Trainers truncate long prompts on the left; then the longest suffix of the prompt that is a prefix of the query is
    removed. Searching the whole query for an answer would not do: the prompt itself contains the tags.
    """
    starts, stops = queries.offsets[:-1] + overlap_lengths(prompts, queries), queries.offsets[1:]
    data = queries.data.tobytes()
    return column_of([data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)])


def overlap_lengths(prompts: TextColumn, queries: TextColumn) -> np.ndarray:
    """Return the number of bytes of each query that belong to its prompt, int64 (n,)."""
    lengths = spelled_overlaps(prompts, queries)
    for row in np.flatnonzero((lengths == 0) & (prompts.lengths > 0) & (queries.lengths > 0)).tolist():
        if prompts.lengths[row] <= MAX_RESPELLED:
            lengths[row] = respelled_overlap(text_at(prompts, row), text_at(queries, row))
    return lengths


def text_at(column: TextColumn, row: int) -> str:
    return column.data[column.offsets[row] : column.offsets[row + 1]].tobytes().decode()


def respelled_overlap(prompt: str, query: str) -> int:
    """Return the bytes of a query that are its prompt, normalized or cut within a character; 0 without any.

    Tokenizers such as Qwen's decode to NFC, and truncation within a multi-byte character leaves replacement characters
    at the beginning.
    """
    stripped = query.lstrip(REPLACEMENT)
    spellings = {prompt} if LONG_RUN.search(prompt) else {prompt, unicodedata.normalize("NFC", prompt)}
    prompts = column_of([spelling.encode() for spelling in spellings])
    overlap = int(spelled_overlaps(prompts, column_of([stripped.encode()] * prompts.rows)).max())
    return overlap + len(query.encode()) - len(stripped.encode()) if overlap else 0


def spelled_overlaps(prompts: TextColumn, queries: TextColumn) -> np.ndarray:
    """Return the bytes of the longest suffix of each prompt that is a prefix of its query, int64 (n,)."""
    lengths = np.zeros(queries.rows, np.int64)
    shorter = np.minimum(prompts.lengths, queries.lengths)
    overlaps(lengths, np.empty(int(shorter.max(initial=0)) + 1, np.int32), *prompts, *queries)
    return lengths
