"""Checks before a training run: `python -m assay_client.doctor --trainer verl --rows train.parquet --batch 1024x5`.

It reads the variables that the adapters read. Each line begins with `ok`, or with `!!` and says what to do. The exit
code is 1 if something must be done. Rows are JSON lines, or Parquet if pyarrow is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from . import __version__
from .adapters.common import column_of, labelled, required, task_of
from .adapters.for_areal import TIMEOUT as AREAL_SECONDS
from .adapters.for_verl import checked_sources, configured, task_of_source
from .client import Client
from .errors import AssayError
from .results import HttpReply, document_of
from .retries import timestamp
from .settings import ClientSettings
from .tasks import SCORE
from .transport.addresses import Address
from .transport.connecting import resolved
from .transport.http11 import HttpExchange, TransportFault, request_head
from .transport.waiting import Blocking, completed

PROBE_SECONDS = 5.0
TRIES = 3
MAX_BATCH = 1 << 20  # responses that are timed
MAX_LINE = 1 << 26  # characters of a data set's first line
MAX_SHOWN = 1_000  # characters of a finding
MAX_SKEW_SECONDS = 60.0
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
DISTRIBUTIONS = {"ms-swift": "ms_swift", "skyrl": "skyrl-gym"}
TRAINERS = ("areal", "ms-swift", "openrlhf", "skyrl", "slime", "trl", "verl")
PLAIN_RESPONSE = "Step 1: Add 5 ml of PBS."
PLAIN_REFERENCE = 'Step 1: {"action": "add", "objects": ["PBS"], "parameters": ["5 ml"]}'


KNOWN_FAULTS = {
    "trl": ((1, 14), "with several processes, each logs every mean, as NaN without a row: upgrade to 1.14"),
    "verl": ((0, 9), "before 0.9 the option is custom_reward_function.path, without `reward.` in front"),
}
"""The first version without the fault, and what it is."""

Row = tuple[str, Any, "str | None"]
"""A response, its reference and its task."""


class Finding(NamedTuple):
    is_ok: bool
    text: str

    def __str__(self) -> str:
        """Return one line of printable characters, whatever a server's reply or a data set put into the text."""
        line = " ".join(self.text.split())[:MAX_SHOWN]
        shown = "".join(character if character.isprintable() else "\ufffd" for character in line)
        return f"{'ok' if self.is_ok else '!!'}  {shown}"


Findings = Generator[Finding, None, Any]


def check(
    rows: str | None = None, trainer: str | None = None, batch: int = 512, environ: Mapping[str, str] | None = None
) -> Iterator[Finding]:
    """Yield one finding after the other; a failed check does not stop those that can still be made."""
    environ = os.environ if environ is None else environ
    yield from check_proxies(environ)
    if trainer is not None:
        yield from check_trainer(trainer)
    try:
        settings = ClientSettings.read(environ)
        client = configured(lambda _, **more: Client(**{"timeout": settings.timeout} | more), {})
    except AssayError as error:
        yield Finding(False, f"settings: {error}")
        return
    with client:
        answering = [settings.mode == "local"]
        for address in settings.addresses:
            answers = yield from check_address(client, address)
            answering.append(answers)
        if not any(answering):
            return
        yield from attempted("configuration", partial(check_configuration, client))
        row: Row = (PLAIN_RESPONSE, PLAIN_REFERENCE, None)
        if rows is not None:
            row = (yield from attempted(rows, partial(check_row, client, rows, trainer))) or row
        yield from attempted("latency", partial(check_latency, client, row, batch, trainer))


def attempted(name: str, checks: Callable[[], Findings]) -> Findings:
    try:
        return (yield from checks())
    except (AssayError, OSError, ValueError, ImportError) as error:
        yield Finding(False, f"{name}: {error}")


def check_proxies(environ: Mapping[str, str]) -> Iterator[Finding]:
    names = [name for name in (*PROXIES, *map(str.lower, PROXIES)) if environ.get(name)]
    if names:
        detail = "the client ignores them, but a trainer that calls a URL itself may use them: set NO_PROXY"
        yield Finding(
            bool(environ.get("NO_PROXY") or environ.get("no_proxy")), f"proxies: {', '.join(names)}; {detail}"
        )


def check_trainer(trainer: str) -> Iterator[Finding]:
    try:
        version = metadata.version(DISTRIBUTIONS.get(trainer, trainer))
    except metadata.PackageNotFoundError:
        yield Finding(False, f"trainer: {trainer} is not installed here: run this in its environment")
        return
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version)
    repaired, fault = KNOWN_FAULTS.get(trainer, ((0, 0), ""))
    has_fault = numbers is not None and (int(numbers[1]), int(numbers[2])) < repaired
    yield Finding(not has_fault, f"trainer: {trainer} {version}{f': {fault}' if has_fault else ''}")


def check_address(client: Client, address: Address) -> Findings:
    """Check name, connection, readiness, clock, key and version of one service; return whether it can be used."""
    at = address.described
    has_key = client.settings.api_key is not None or address.authorization
    try:
        started = time.monotonic()
        targets = completed(resolved(address, PROBE_SECONDS, Blocking()))
        yield Finding(True, f"{at}: {len(targets)} addresses, found in {time.monotonic() - started:.3f} s")
        reply = fetched(client, address, "/readyz")
        document, open_to_all = fetched(client, address, "/v1/config"), True
        if has_key:
            open_to_all = fetched(client, address, "/v1/config", with_key=False).status == 200
    except (OSError, TransportFault) as error:
        yield Finding(False, f"{at}: {error}: is the service running, and ASSAY_URL its address?")
        return False
    if reply.status != 200:
        yield Finding(False, f"{at}: not ready (HTTP {reply.status}): wait, or look at its log")
    moment = timestamp(reply.headers.get("date", ""))
    if moment is not None:
        skew = time.time() - moment
        remedy = "" if abs(skew) <= MAX_SKEW_SECONDS else ": set the clocks, or certificates and logs will not fit"
        yield Finding(not remedy, f"{at}: clock {skew:+.0f} s from the service's{remedy}")
    if document.status in (401, 403):
        yield Finding(False, f"{at}: the key is missing or wrong (HTTP {document.status}): set ASSAY_API_KEY")
        return False
    version = document_of(document).get("version")
    if document.status != 200 or version is None:
        detail = f"HTTP {document.status}{'' if version else ' without a version'}"
        yield Finding(False, f"{at}: /v1/config answers {detail}: it is not an Assay service")
        return False
    needed = f"no key is needed{', but one is set' if has_key else ''}" if open_to_all else "the key is accepted"
    yield Finding(True, f"{at}: ready, {needed}")
    yield Finding(version == __version__, f"{at}: version {version}, client {__version__}: they should be the same")
    return reply.status == 200


def fetched(client: Client, address: Address, path: str, with_key: bool = True) -> HttpReply:
    headers = client._headers("doctor", address, PROBE_SECONDS)
    if not with_key:
        headers.pop("Authorization", None)
    head = request_head("GET", address, path, headers, 0)
    exchange = HttpExchange(address, head, b"", PROBE_SECONDS, time.monotonic() + PROBE_SECONDS)
    return completed(client._transport.exchange(exchange))


def check_configuration(client: Client) -> Findings:
    scores = client.score([PLAIN_RESPONSE], [PLAIN_REFERENCE], timeout=PROBE_SECONDS)
    yield Finding(True, f"configuration: {scores.config_id} {scores.signature}")


def check_row(client: Client, path: str, trainer: str | None) -> Findings:
    """Score an answer to the first row of a data set, the gold answer if its reference is SCORE's text; return both."""
    reference, task = reference_in(first_row(path), trainer)
    is_text = isinstance(reference, str) and not reference.lstrip().startswith("{")  # else the text of an object
    response = gold_answer(reference) if is_text and task in (None, SCORE) else PLAIN_RESPONSE
    score = client.score_one(response, reference, task=task, timeout=PROBE_SECONDS)
    if response == PLAIN_RESPONSE:
        yield Finding(True, f"{path}: {task or SCORE}, the reference of the first row can be read")
    else:
        detail = f"{path}: {SCORE}, an answer with the steps of the first row earns {score.reward:g} ({score.reason})"
        remedy = "" if score.reason == "ok" else ": run `assay check` on it"
        yield Finding(not remedy, detail + remedy)
    return response, reference, task


def first_row(path: str) -> Mapping[str, Any]:
    if path.endswith(".parquet"):
        try:
            parquet = import_module("pyarrow.parquet")
        except ImportError:
            raise ImportError("reading Parquet needs pyarrow: pip install pyarrow, or name JSON lines") from None
        pieces = parquet.ParquetFile(path).iter_batches(batch_size=1)
        row = next((piece.to_pylist()[0] for piece in pieces if len(piece)), None)
    else:
        with Path(path).open(encoding="utf-8") as lines:
            line = lines.readline(MAX_LINE) or "null"
        try:
            row = json.loads(line)
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(row, Mapping):
        raise ValueError("there is no first row that is an object")
    return row


def reference_in(row: Mapping[str, Any], trainer: str | None) -> tuple[Any, str | None]:
    """Return the reference and the task of a row, read as the trainer's adapter reads it."""
    if trainer in ("openrlhf", "slime"):
        reference, task = labelled(row.get("label"), row.get("metadata") if trainer == "slime" else None)
    elif trainer in ("verl", "skyrl"):
        spec = row.get("reward_model" if trainer == "verl" else "reward_spec")
        reference = spec.get("ground_truth") if isinstance(spec, Mapping) else None
        source = row.get("data_source")
        task = task_of_source(source, checked_sources({})) if trainer == "verl" else task_of(row, row.get("extra_info"))
    else:
        reference, task = column_of(row), task_of(row)
    return required(reference, task=task), task


def gold_answer(reference: str) -> str:
    """Return an answer that has the reference as its plan, and the words of each step as prose."""
    prose = [re.sub(r'[^\w\s:.,%°/-]+|"?(action|objects|parameters)"?:', " ", line) for line in reference.splitlines()]
    return f"<think>-</think><key>{reference}</key><orc>{chr(10).join(prose)}</orc><note>-</note>"


def check_latency(client: Client, row: Row, batch: int, trainer: str | None) -> Findings:
    """Time one response, and as many as a step of the run has, with the answer and the reference of one row."""
    response, reference, task = row
    limit = client.settings.timeout
    if trainer == "areal":
        limit = min(limit, AREAL_SECONDS)
    for n in (1, batch):
        times = []
        for _ in range(TRIES):
            started = time.monotonic()
            client.score([response] * n, [reference], task=task or SCORE)
            times.append(time.monotonic() - started)
        seconds = median(times)
        detail = f"latency: {seconds:.3f} s for {n} responses, of {limit:g} s"
        yield Finding(seconds < limit / 2, detail if seconds < limit / 2 else f"{detail}: more threads or workers")


def batch_size(text: str) -> int:
    """Return the product of `1024x5`."""
    size = 1
    for factor in text.split("x"):
        size *= int(factor)
    if not 1 <= size <= MAX_BATCH:
        raise ValueError
    return size


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m assay_client.doctor", description=__doc__)
    parser.add_argument("--rows", help="the data set, JSON lines or Parquet")
    parser.add_argument("--trainer", choices=TRAINERS)
    parser.add_argument("--batch", type=batch_size, default=512, metavar="1024x5", help="responses of a step")
    options = parser.parse_args(arguments)
    is_ok = True
    for finding in check(options.rows, options.trainer, options.batch):
        print(finding, flush=True)
        is_ok &= finding.is_ok
    raise SystemExit(0 if is_ok else 1)


if __name__ == "__main__":
    main()
