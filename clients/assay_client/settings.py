"""Settings of the client, from arguments, environment variables and defaults, in this order.

Nothing is read at import.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

from .errors import InvalidSetting, Issue, invalid, invalid_setting
from .tasks import REWARD_TASKS, SCORE
from .transport.addresses import Address, address_of

DEFAULT_URL = "http://127.0.0.1:8000"
MODES = ("remote", "local")
MAX_RUN = 100
MIXED: tuple[str, ...] = ()
"""A list of tasks, whatever they are, for `ClientSettings.merged`."""
VARIABLES = {
    "ASSAY_URL": "base_url",
    "ASSAY_API_KEY": "api_key",
    "ASSAY_CLIENT_MODE": "mode",
    "ASSAY_CLIENT_COMMAND": "command",
    "ASSAY_CLIENT_CONFIG": "config",
    "ASSAY_CLIENT_TIMEOUT": "timeout",
    "ASSAY_CLIENT_WINDOW": "window",
    "ASSAY_CLIENT_MAX_BATCH": "max_batch",
    "ASSAY_CLIENT_START_TIMEOUT": "start_timeout",
    "ASSAY_CLIENT_RUNTIME_DIR": "runtime_dir",
    "ASSAY_CLIENT_RUN": "run",
}
ADAPTER_VARIABLES = (
    "ASSAY_CLIENT_REFERENCE",
    "ASSAY_CLIENT_TASK",
    "ASSAY_CLIENT_ON_FAILURE",
    "ASSAY_CLIENT_DATA_SOURCES",
    "ASSAY_CLIENT_LOG",
)


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Addresses of the service, and timeouts in seconds. Immutable, picklable and hashable.

    Attributes
    ----------
    addresses : tuple of Address
        The services; empty in mode "local".
    mode : str
        "remote" or "local".
    api_key : str or None
        Bearer key for services whose URL has none.
    command : tuple of str
        Mode "local": the `assay` command and its first arguments; if empty, `assay` is found on PATH.
    config : str
        Settings of the reward for every request, as canonical JSON: SCORE's settings, and options of other tasks under
        the task's name.
    timeout : float
        Time until a call ends, with its result or an error.
    attempt_timeout : float
        Time until one attempt ends, slightly above the service's own deadline.
    connect_timeout : float
        Time until a connection is open.
    backoff, max_backoff : float
        Upper bound of the first random delay before a retry, which doubles with each retry, and its maximum.
    window : float
        Time that a single call waits for others to share its request; 0 sends each separately.
    max_batch : int
        Maximum number of single calls in one request.
    max_connections : int
        Connections of an asynchronous client per event loop; further calls wait.
    start_timeout : float
        Mode "local": time for the start of the service, which may compile kernels.
    linger : float
        Mode "local": time that the service runs on after the last process that used it.
    runtime_dir : str or None
        Mode "local": folder of sockets and locks; None for a private one in /tmp.
    run : str or None
        Name of the training run, under which the service counts the requests.
    """

    addresses: tuple[Address, ...] = ()
    mode: str = "remote"
    api_key: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = ()
    config: str = "{}"
    timeout: float = 120.0
    attempt_timeout: float = 40.0
    connect_timeout: float = 5.0
    backoff: float = 0.1
    max_backoff: float = 5.0
    window: float = 0.002
    max_batch: int = 512
    max_connections: int = 64
    start_timeout: float = 600.0
    linger: float = 2.0
    runtime_dir: str | None = None
    run: str | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, **arguments: Any) -> ClientSettings:
        """Read settings from arguments, else from the environment; an argument that is None is ignored.

        Parameters
        ----------
        environ : mapping, optional
            The environment; `os.environ` by default.
        **arguments
            As for `Client`.

        Raises
        ------
        InvalidSetting
            With an issue for every invalid or unknown setting.
        TypeError
            For an argument of a wrong type.
        """
        environ = os.environ if environ is None else environ
        arguments = {name: checked_argument(name, value) for name, value in arguments.items()}
        unknown = [name for name in arguments if name not in SETTINGS]
        unknown += [name for name in environ if name.startswith("ASSAY_CLIENT_") and name not in KNOWN_VARIABLES]
        issues = [Issue(name, "unknown_setting", f"no such setting{similar_to(name)}") for name in unknown]
        values = {name: environ[variable] for variable, name in VARIABLES.items() if environ.get(variable)}
        values.update({name: value for name, value in arguments.items() if value is not None and name in SETTINGS})
        variables = {name: variable for variable, name in VARIABLES.items() if arguments.get(name) is None}
        resolve_mode(values, arguments)
        read: dict[str, Any] = {}
        for name, value in values.items():
            try:
                read[FIELD_NAMES.get(name, name)] = SETTINGS[name].parse(value)
            except (TypeError, ValueError, OverflowError) as error:  # noqa: PERF203
                detail = error.issues[0].detail if isinstance(error, InvalidSetting) else str(error)
                issues.append(Issue(variables.get(name, name), "invalid_setting", detail))
        if issues:
            raise InvalidSetting(invalid(issues).args[0], issues=issues)
        if "addresses" not in read and read.get("mode", "remote") == "remote":
            read["addresses"] = (replace(address_of(DEFAULT_URL), is_default=True),)
        return cls(**read)

    def merged(self, overrides: Mapping[str, Any] | None, task: str | tuple[str, ...] = SCORE) -> str:
        """Return the `config` of a request with the settings of a call merged into it, as canonical JSON.

        The settings of a call belong to its task; if it has a list of tasks, they have the form of `config`. Raise
        InvalidSetting.
        """
        if not overrides:
            return config_of_task(self.config, task)
        try:
            merged = json.loads(config_of_task(self.config, task))
            for name, value in overrides.items():
                is_options = not isinstance(task, str) and name in REWARD_TASKS and isinstance(value, Mapping)
                merged[name] = {**merged.get(name, {}), **value} if is_options else value
            return canonical_json(merged)
        except (AttributeError, TypeError, ValueError):
            raise invalid_setting("config", "must be an object of numbers, booleans and strings") from None


@lru_cache(maxsize=64)
def config_of_task(config: str, task: str | tuple[str, ...]) -> str:
    """Return the part of a client's `config` for a request of one task; all of it for a list of tasks."""
    if not isinstance(task, str):
        return config
    settings = json.loads(config)
    if task == SCORE:
        return canonical_json({name: value for name, value in settings.items() if name not in REWARD_TASKS})
    return canonical_json(settings.get(task, {}))


def checked_argument(name: str, value: Any) -> Any:
    """Return an argument, with several URLs as a list; raise TypeError if its type is wrong."""
    _, types, expected = SETTINGS.get(name, (None, (object,), ""))
    each = [value]
    if name == "base_url" and isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        each = value = list(value)
    wrong = [element for element in each if not isinstance(element, types)]
    if value is not None and wrong:
        raise TypeError(f"{name}= must be {expected}, not {type(wrong[0]).__name__}")
    return value


def similar_to(name: str) -> str:
    """Return `; did you mean timeout?` if a setting or variable is spelled like this, else nothing."""
    from difflib import get_close_matches  # only after a mistake

    return "".join(f"; did you mean {match}?" for match in get_close_matches(name, [*SETTINGS, *KNOWN_VARIABLES], 1))


def resolve_mode(values: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Handle `base_url="local"`, and let an address argument override a mode from the environment."""
    if arguments.get("uds") is not None:
        values["base_url"] = [f"unix:{os.fspath(values.pop('uds'))}"]
        values.setdefault("mode", "remote")
    if arguments.get("mode") is None and (arguments.get("base_url") is not None or arguments.get("uds") is not None):
        values["mode"] = "remote"
    if values.get("base_url") == "local":
        values["mode"] = "local"
    if values.get("mode") == "local":
        values.pop("base_url", None)


def canonical_json(config: Any) -> str:
    return json.dumps(config, sort_keys=True, allow_nan=False, separators=(",", ":"))


def parse_addresses(value: str | Sequence[str]) -> tuple[Address, ...]:
    urls = value.split(",") if isinstance(value, str) else list(value)
    addresses = tuple(address_of(url.strip()) for url in urls if url.strip())
    if not addresses:
        raise ValueError("must have a URL")
    return addresses


def parse_mode(value: str) -> str:
    if value not in MODES:
        raise ValueError(f"must be one of: {', '.join(MODES)}")
    return value


def parse_command(value: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(map(os.fspath, value))


def parse_config(value: str | Mapping[str, Any]) -> str:
    try:
        config = json.loads(value) if isinstance(value, str) else dict(value)
        if not isinstance(config, dict):
            raise TypeError
        return canonical_json(config)
    except (TypeError, ValueError):
        raise ValueError("must be a JSON object of settings") from None


def parse_key(value: str) -> str:
    if not value or not all("!" <= character <= "~" for character in value):
        raise ValueError("must be visible ASCII characters without spaces")
    return value


def parse_run(value: str) -> str:
    if not 0 < len(value) <= MAX_RUN or value != value.strip() or not all(" " <= mark <= "~" for mark in value):
        raise ValueError(f"must be 1 to {MAX_RUN} printable ASCII characters, without spaces around them")
    return value


def parse_positive(value: Any) -> float:
    if isinstance(value, bool) or not (isfinite(float(value)) and float(value) > 0):
        raise ValueError("must be a finite number above 0")
    return float(value)


def parse_seconds(value: Any) -> float:
    return 0.0 if not isinstance(value, bool) and float(value) == 0 else parse_positive(value)


def parse_count(value: Any) -> int:
    if isinstance(value, bool) or int(value) < 1 or float(value) != int(value):
        raise ValueError("must be an integer of at least 1")
    return int(value)


class Setting(NamedTuple):
    parse: Callable[[Any], Any]
    types: tuple[type, ...]
    expected: str
    """The end of an error's sentence "must be …"."""


NUMBER: Any = (Real, str), "a number"  # numbers may be text, as in the environment
PATH = Setting(os.fspath, (str, os.PathLike), "a path")

SETTINGS = {
    "base_url": Setting(parse_addresses, (str,), "a URL, a list of URLs or 'local'"),
    "uds": PATH,
    "mode": Setting(parse_mode, (str,), "'remote' or 'local'"),
    "api_key": Setting(parse_key, (str,), "a string"),
    "command": Setting(parse_command, (str, Sequence), "a command, or a list of its arguments"),
    "config": Setting(parse_config, (str, Mapping), "a mapping of settings, or its JSON"),
    "runtime_dir": PATH,
    "run": Setting(parse_run, (str,), "a string"),
    **dict.fromkeys(("window", "linger"), Setting(parse_seconds, *NUMBER)),
    **dict.fromkeys(("max_batch", "max_connections"), Setting(parse_count, *NUMBER)),
    **dict.fromkeys(
        ("timeout", "attempt_timeout", "connect_timeout", "backoff", "max_backoff", "start_timeout"),
        Setting(parse_positive, *NUMBER),
    ),
}

FIELD_NAMES = {"base_url": "addresses"}
KNOWN_VARIABLES = {*VARIABLES, *ADAPTER_VARIABLES}
assert {FIELD_NAMES.get(name, name) for name in SETTINGS} - {"uds"} == {field.name for field in fields(ClientSettings)}
