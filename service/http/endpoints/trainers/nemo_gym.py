"""/compat/nemo-gym: a resources server of NeMo Gym, for verifiers, axolotl and NeMo RL too."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import Field, PrivateAttr

from ....errors import Issue
from ....messages import REASONING_NAMES, THOUGHTS
from ....rewards.registry import REWARD_TASKS, REWARDS
from ....rewards.scores import Scores
from ....scoring.labels import ABSENT, NULL, json_text, members
from ....settings import ScoreSettings
from ....wire.json_codec import RequestLimits
from ....wire.media_types import Body, decompress
from ....wire.problems import Problem, invalid_request
from ....wire.reply_bounds import check_length
from ....wire.stage_times import StageTimes
from ...request.exchange import Exchange
from ...request.jobs import JobCall
from ...request.paths import Paths
from ...request.processes import Processes
from .dialects import (
    IDENTIFIERS,
    NUMBERS,
    TASK_NUMBERS,
    Dialect,
    Rollouts,
    RouteOptions,
    finite_json,
    numbers_of_one,
)
from .rows import JsonObject, array_of, elements, parsed, spans_in

PARAMETERS, RESPONSE = "responses_create_params", "response"
SESSION_ID = "resources_session_id"
BAD_REFERENCE = "assay:bad_reference"
"""Gym requires the form `SERVER:KIND` for kinds of failure outside its own list."""

MASK = ("mask_sample", "failure_kind", "failure_reason", "instance_config")

RESERVED = frozenset({"reward", "reward_components", *MASK})
RESERVED_PREFIXES = ("score_", "_")
"""Fields of a row with these names are not echoed: they are the reply's own, or Gym's, and may be from an old reply."""

CHAT_TEXT = "text"
"""The type of text in a chat message, where parts of another type, or of none, count too if they have a text."""

MAX_PARSED_BYTES = 1 << 16
"""Maximum bytes of a response that becomes objects, which is faster for short ones."""

MAX_ROW_BYTES = 1 << 20
"""Maximum bytes of a row without prompt, response and reference; of a longer row no other field is echoed."""

MAX_FIELDS = 64
MAX_FIELD_LENGTH = 1_024
"""Limits of the echoed fields: their number, and the characters of a name or a text."""


class NemoGymOptions(RouteOptions):
    """Where to find the reference, and how to answer for an invalid one."""

    reference_field: str = Field(
        "reference", min_length=1, description="The row's field with the reference; `a.b` is the field b of a."
    )
    on_bad_reference: Literal["error", "mask"] = Field(
        "error",
        description="How to answer for a missing or invalid reference: with an error (422), or with `mask_sample`, "
        "which makes NeMo Gym 0.7 and NeMo RL skip the row. Do not mask for clients that read only `reward`.",
    )

    reward_components: bool = Field(
        False,
        description="Whether replies have `reward_components`, which sum to the reward exactly, for GDPO in NeMo RL: "
        "`order` and `content`, the two terms of SCORE. Where it is not scale times their sum, and in other tasks, "
        "`content` is the whole reward and `order` 0.",
    )
    _is_sum: bool = PrivateAttr(False)

    def prepare(self, settings: ScoreSettings) -> None:
        """Note whether SCORE is a multiple of `order` + `content`."""
        is_sum = (settings.semantics, settings.total, settings.use_order) == ("sum", "product", True)
        self._is_sum = is_sum and settings.reward_scale != "shift"

    def components(self, scores: Scores | None) -> dict[str, Any]:
        """Return the member of a reply with the components of one response; empty unless the query asks for it.

        NeMo RL refuses a batch with fewer than two, or whose sum is not the reward; without scores they are zeros.
        """
        if not self.reward_components:
            return {}
        reward, order = scores.rewards.item() if scores is not None else 0.0, 0.0
        if scores is not None and self._is_sum and scores.task_codes[0] == 0:
            term, semantics = (scores.components[name].item() for name in ("order", "semantics"))
            order = reward * (term / semantics) if semantics else 0.0
        # The larger of the two is at least half the reward, so that the second difference is exact, and their sum.
        content = reward - order
        return {"reward_components": {"order": reward - content, "content": content}}


class NemoGym(Dialect):
    """A data-set row plus the model's output; prompt and output are echoed unchanged, and scalar fields of the row."""

    options = NemoGymOptions
    fields = (PARAMETERS, RESPONSE)
    missing_reference = "the row's reference; `reference_field` names another field"

    def reference_path(self, options: NemoGymOptions) -> str:
        return options.reference_field

    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        parameters, response = request[PARAMETERS], request[RESPONSE]
        if parameters and parameters[:1] != b"{":
            issues.append(Issue(PARAMETERS, "wrong_type", "must be an object"))
        texts: list[str] = []
        if response:
            value = parsed(response) if len(response) <= MAX_PARSED_BYTES else response
            texts += OutputReader(issues).texts(value)
        return Rollouts(orjson.dumps(["".join(texts)]), RESPONSE, array_of(label))

    def encode(self, scores: Scores, request: JsonObject, options: NemoGymOptions, every_task: bool) -> bytes:
        return echoed(request, finite_json(numbers_of_one(scores, every_task) | options.components(scores)))

    def masked(self, issues: Sequence[Issue], request: JsonObject, options: NemoGymOptions) -> bytes | None:
        if options.on_bad_reference == "error":
            return None
        reason = "; ".join(f"{issue.path}: {issue.detail} ({issue.reason})" for issue in issues)
        # Gym's models require a number as the reward, and look for the mask at the top level. NeMo RL takes the names
        # of numbers from a group's first reply, and looks for the mask in `instance_config`.
        mask = dict(zip(MASK, (True, BAD_REFERENCE, reason, {"mask_sample": True}), strict=True))
        names = TASK_NUMBERS if options.names_tasks else NUMBERS
        numbers = {"reward": 0.0, **dict.fromkeys(names, 0.0), **dict.fromkeys(IDENTIFIERS, -1.0)}
        return echoed(request, orjson.dumps(numbers | options.components(None) | mask))


def echoed(request: JsonObject, reply: bytes) -> bytes:
    fields = dict(islice(fields_of_row(request), MAX_FIELDS))
    further = b"," + orjson.dumps(fields)[1:-1] if fields else b""
    echo = b'{"responses_create_params":%b,"response":%b' % (request[PARAMETERS], request[RESPONSE])
    return b"%b%b,%b" % (echo, further, reply[1:])


def fields_of_row(request: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield each echoed text, number and truth value; none if the row has a number that no double can represent."""
    body, parts, end = request.body, [], 0
    for start, stop in sorted((start, stop) for start, stop in request.spans.values() if stop):
        parts.append(body[end:start])
        end = stop
    parts.append(body[end:])
    if sum(map(len, parts)) > MAX_ROW_BYTES:
        return
    try:
        row = orjson.loads(b"null".join(parts))
    except orjson.JSONDecodeError:
        return
    for name, value in row.items():
        is_own = name in RESERVED or name in request.spans or name.startswith(RESERVED_PREFIXES)
        is_scalar = isinstance(value, str | float | int)  # a bool is an int
        is_short = len(name) <= MAX_FIELD_LENGTH and (type(value) is not str or len(value) <= MAX_FIELD_LENGTH)
        if is_scalar and is_short and not is_own:
            yield name, value


class OutputReader:
    """Reads the text of a response: the text parts of the assistant's messages.

    Reasoning that a parser has separated from the text is put back between <think> and </think>: the summary of an
    item, or else its content, and such parts of a message. What is missing or null is empty. Items and parts of other
    types (tool calls and results, refusals) are ignored.
    """

    def __init__(self, issues: list[Issue]) -> None:
        self._issues = issues
        self._elements = 0

    def texts(self, response: Any) -> Iterator[str]:
        """Yield the texts of a response; raise Problem `too-large` if its arrays have too many elements in total."""
        for output in self._members(response, "response", "output"):
            for path, item in self._items(output, "response.output", "must be an array"):
                fields = self._members(item, path, "type", "role", "content", "summary")
                if not fields:
                    continue
                kind, role = json_text(fields[0]), json_text(fields[1])
                if kind == "reasoning":
                    summary = "".join(self._parts(fields[3], f"{path}.summary", "summary_text"))
                    thoughts = summary or "".join(self._parts(fields[2], f"{path}.content", "reasoning_text"))
                    yield from ("<think>", thoughts, "</think>")
                elif kind in ("message", None) and role in ("assistant", None):
                    yield from self._parts(fields[2], f"{path}.content", "output_text")

    def last_reply(self, messages: Any, path: str) -> str:
        """Return the text of the last chat message; it is an issue if that is not the assistant's."""
        message_path = path
        fields: Sequence[Any] = ()
        for message_path, message in self._items(messages, path, "must be an array of chat messages"):
            fields = self._members(message, message_path, "role", "content", *REASONING_NAMES)
        if not fields or json_text(fields[0]) != "assistant":
            self._issues.append(Issue(path, "missing_field", "must end with a message of the assistant"))
            return ""
        _, content, *thoughts = fields
        text = "".join(self._parts(content, f"{message_path}.content", CHAT_TEXT))
        thought = next(filter(None, map(json_text, thoughts)), "")
        return f"<think>{thought}</think>{text}" if thought and "<think>" not in text else text

    def _parts(self, content: Any, path: str, kind: str) -> Iterator[str]:
        if content in (ABSENT, NULL, None):
            return
        if (whole := json_text(content)) is not None:
            yield whole
            return
        for part_path, part in self._items(content, path, "must be a string or an array of parts"):
            fields = self._members(part, part_path, "type", "text", *THOUGHTS)
            if not fields:
                continue
            name, value = json_text(fields[0]), json_text(fields[1])
            if name == kind or (kind == CHAT_TEXT and name not in THOUGHTS and value is not None):
                if value is None:
                    self._issues.append(Issue(f"{part_path}.text", "wrong_type", "must be a string"))
                yield value or ""
            elif name in THOUGHTS:
                texts = (json_text(field) for field in (*fields[2:], fields[1]))
                yield from ("<think>", next((thought for thought in texts if thought), ""), "</think>")

    def _items(self, value: Any, path: str, detail: str) -> Iterator[tuple[str, Any]]:
        array = elements(value, path, self._elements)
        if array is None:
            self._issues.append(Issue(path, "wrong_type", detail))
        self._elements += len(array or ())
        return ((f"{path}[{number}]", item) for number, item in enumerate(array or ()))

    def _members(self, value: Any, path: str, *names: str) -> Sequence[Any]:
        fields = members(value, *names)
        if fields is None:
            self._issues.append(Issue(path, "wrong_type", "must be an object"))
        return fields or ()


class Sessions:
    """Endpoints besides rewards: readiness, stateless sessions, and the reverify mode."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def alive(self, exchange: Exchange) -> None:
        """Return 200 once the service is ready to score, so that Gym sends no rollout too early."""
        _ = self._paths.scorer
        await exchange.reply(b'{"status":"ok"}')

    async def reverify_mode(self, exchange: Exchange) -> None:
        """Return `stateless`: rewards depend only on their request, so `gym eval reverify` may rescore rollouts."""
        await exchange.reply(b'"stateless"')

    async def session(self, exchange: Exchange) -> None:
        """Begin or close a rollout; sessions have no state, so there is nothing to do.

        Return the name of the session if the request has one (Gym's environment servers send one since 0.7).
        """
        body = exchange.request_body
        named = partial(named_session, body, self._paths.limits)
        await exchange.reply(await self._paths.answer(exchange, lambda: named() if body.data else b"{}", named))


def named_session(body: Body, limits: RequestLimits) -> bytes:
    session = JsonObject(body.plain(limits.max_body_bytes), (SESSION_ID,))[SESSION_ID]
    return b"{}" if json_text(session) is None else b'{"%b":%b}' % (SESSION_ID.encode(), session)


FIELD = "verify_responses"
TASK, ROLLOUT = "_ng_task_index", "_ng_rollout_index"
POSITIONS = (TASK, ROLLOUT)
MAX_RECORDS = 1 << 20
MAX_RECORD_BYTES = 1 << 20
"""Maximum bytes of a record; only its numbers and its token usage are read."""

MAX_NAMES = 1_024
"""Maximum distinct names of numbers in a run: each has five statistics per group."""

RECORDS_PER_CHECK = 1_024
TASK_NUMBER = IDENTIFIERS[0]
NO_TASK = -1
OF_EVERY_TASK = (*IDENTIFIERS, "score_readable")
"""The numbers of reasons that rows of every task have."""

STATISTICS = ("mean", "max", "min", "median", "std")


def aggregate_endpoint(limits: RequestLimits, processes: Processes) -> Callable[[Exchange], Awaitable[None]]:
    async def aggregate(exchange: Exchange) -> None:
        """Return the mean, maximum, minimum, median and standard deviation of every number.

        Per prompt and over all rollouts, and if these are of several tasks, also of each task, with its name in front
        (`bioprobench.pqa/mean/reward`). Numbers that a row's task does not have, which are 0 in its reply, do not
        count. Rollouts with `mask_sample` are excluded, and counted under Gym's names (`coverage/masked_rollouts`, …).
        """
        await processes.answer("aggregate", exchange, limits)

    return aggregate


class GymRun:
    """The numbers of every rollout, by rollout and by name, and the tasks of the masked rollouts."""

    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []
        self.masked_tasks: list[float] = []
        self.columns: dict[str, tuple[list[int], list[float]]] = {}
        """The rollouts that have a number, and its values, by its name."""

    def add(self, record: dict[str, Any]) -> None:
        masked = record.pop(MASK[0], False)
        numbers = {TASK: 0, ROLLOUT: 0} | numbers_of(record)
        if masked:  # its reward is meaningless: only the coverage counts it
            self.masked_tasks.append(numbers[TASK])
            return
        for name, value in numbers.items():
            if name not in POSITIONS:
                rows, values = self.columns.setdefault(name, ([], []))
                rows.append(len(self.records))
                values.append(value)
        self.records.append(numbers)
        if len(self.columns) > MAX_NAMES:
            issue = Issue(FIELD, "too_many", f"more than {MAX_NAMES} names of numbers")
            raise Problem("too-large", f"All rollouts together may have {MAX_NAMES} names of numbers.", [issue])

    def coverage(self) -> dict[str, int]:
        """Return the numbers of measured and masked rollouts and tasks under Gym's names; empty if none is masked."""
        if not self.masked_tasks:
            return {}
        measured = {record[TASK] for record in self.records}
        return {
            "coverage/measured_rollouts": len(self.records),
            "coverage/masked_rollouts": len(self.masked_tasks),
            "coverage/measured_tasks": len(measured),
            "coverage/fully_masked_tasks": len(set(self.masked_tasks) - measured),
        }

    def statistics(self, groups: np.ndarray) -> Iterator[dict[str, float]]:
        """Yield the statistics of each group, by names such as `mean/NAME`; those that are not finite are left out.

        groups: int64, the group of each rollout. The standard deviation is the sample's; it is 0 if no number of the
        group has a second value.
        """
        parts = [(np.zeros(0, np.int64), np.zeros((len(STATISTICS) + 2, 0)))]
        for number, (rows, values) in enumerate(self.columns.values()):
            present, sizes, measures = group_statistics(groups[rows], np.array(values, np.float64))
            parts.append((present, np.vstack([np.full(len(present), number), sizes, measures])))
        present, table = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
        order = np.argsort(present, kind="stable")
        members = np.bincount(groups).tolist()
        bounds = np.searchsorted(present[order], np.arange(len(members) + 1)).tolist()
        names = [[f"{statistic}/{name}" for name in self.columns] for statistic in STATISTICS]
        for rollouts, (begin, end) in zip(members, pairwise(bounds), strict=True):
            numbers, sizes, *columns = table[:, order[begin:end]].tolist()
            too_few = 1 if max(sizes, default=0) > 1 else rollouts - 1
            columns[-1] = [v if size > too_few else math.nan for v, size in zip(columns[-1], sizes, strict=True)]
            yield {
                keys[int(number)]: value
                for keys, column in zip(names, columns, strict=True)
                for number, value in zip(numbers, column, strict=True)
                if math.isfinite(value)
            }

    def statistics_by_task(self) -> dict[str, float]:
        """Return statistics by `TASK/mean/NAME`, without numbers that identify task and reason; empty for one task."""
        codes = np.array([task_of_record(record) for record in self.records], np.int64)
        present, groups = np.unique(codes, return_inverse=True)
        if len(present) < 2:
            return {}
        return {
            f"{REWARD_TASKS[task]}/{name}": value
            for task, values in zip(present.tolist(), self.statistics(groups), strict=True)
            for name, value in values.items()
            if task != NO_TASK and not name.endswith(IDENTIFIERS)
        }


def group_statistics(groups: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct groups, their sizes, and a row for each of STATISTICS; both arguments have n > 0 elements."""
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(starts, append=len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.add.reduceat(values, starts) / sizes
        medians = (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2
        squares = np.add.reduceat((values - np.repeat(means, sizes)) ** 2, starts)
        deviations = np.sqrt(squares / np.maximum(sizes - 1, 1))
    measures = np.vstack([means, values[starts + sizes - 1], values[starts], medians, deviations])
    return groups[starts], sizes, measures


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record and its token usage, without Gym's (_…) and what its task does not have."""
    response = record.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    fields = {**record, **(usage if isinstance(usage, dict) else {})}
    absent = absent_numbers(task_of_record(record))
    return {
        name: value + 0
        for name, value in fields.items()
        if isinstance(value, bool | int | float) and (name[:1] != "_" or name in POSITIONS) and name not in absent
    }


def task_of_record(record: Mapping[str, Any]) -> int:
    number: Any = record.get(TASK_NUMBER)
    return int(number) if number in range(len(REWARD_TASKS)) else NO_TASK


@cache
def absent_numbers(task: int) -> frozenset[str]:
    """Return the numbers of a reply to /verify that rows of a task do not have: components and reasons of others."""
    if task == NO_TASK:
        return frozenset()
    reward = REWARDS[task]
    reasons = (f"score_reason_{reason}" for reason in reward.reasons)
    components = (f"score_{component}" for component in reward.components)
    return frozenset(TASK_NUMBERS) - {*OF_EVERY_TASK, *reasons, "score_passed", *components}


def aggregate(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    times.start()
    text = decompress(body, call.encoding.encode(), call.limits.max_body_bytes)
    run = read_run(text, call.deadline.check)
    times.decoded()
    prompts = {task: number for number, task in enumerate(sorted({record[TASK] for record in run.records}))}
    groups = np.array([prompts[record[TASK]] for record in run.records], np.int64)
    ordered = groupby(sorted(run.records, key=itemgetter(TASK, ROLLOUT)), key=itemgetter(TASK))
    parts = [b'{"group_level_metrics":[']  # encoded one by one: as objects, all groups would take much more memory
    for (task, rollouts), measures in zip(ordered, run.statistics(groups), strict=True):
        call.deadline.check()
        infos = [{"rollout_id": f"{record[TASK]}:{record[ROLLOUT]}", **record} for record in rollouts]
        group = {TASK: task, **measures, "num_rollouts": len(infos), "rollout_infos": infos}
        parts += [b"," if len(parts) > 1 else b"", orjson.dumps(group)]
    overall: dict[str, float] = {}
    if run.records:
        (overall,) = run.statistics(np.zeros_like(groups))
        overall |= run.statistics_by_task()
    means = {name: value for name, value in overall.items() if "mean" in name.split("/", 2)[:2]}
    coverage = run.coverage()
    totals = orjson.dumps(overall | coverage), orjson.dumps(means | coverage)
    reply = b"".join([*parts, b'],"agent_metrics":%b,"key_metrics":%b}' % totals])
    times.scored()
    return check_length(reply, len(text), call.limits)


def read_run(body: bytes | bytearray, check: Callable[[], None]) -> GymRun:
    """Return the rollouts of a body; raise Problem with every issue. check: raises at the deadline."""
    array = JsonObject(body, (FIELD,)).spans[FIELD]
    records = spans_in(body, array, FIELD, MAX_RECORDS) if any(array) else None
    if records is None:
        raise invalid_request([Issue(FIELD, "wrong_type", "must be an array of replies of /verify")])
    issues: list[Issue] = []
    run = GymRun()
    for k, (start, stop) in enumerate(records):
        record = parsed(bytes(body[start:stop])) if stop - start <= MAX_RECORD_BYTES else None
        path = f"{FIELD}[{k}]"
        if not isinstance(record, dict):
            issues.append(Issue(path, "wrong_type", f"must be an object of at most {MAX_RECORD_BYTES} bytes"))
            continue
        issues += [
            Issue(f"{path}.{name}", "wrong_type", "must be an integer")
            for name in POSITIONS
            if type(record.get(name, 0)) is not int
        ]
        run.add(record)
        if k % RECORDS_PER_CHECK == 0:
            check()
    if issues:
        raise invalid_request(issues)
    return run
