"""The client's settings, and where each comes from: arguments, then environment variables, then defaults.

Nothing is read at import.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from .errors import InvalidSetting, Issue, invalid
from .transport.addresses import Address, address_of

__all__ = ["DEFAULT_URL", "VARIABLES", "ClientSettings"]

DEFAULT_URL = "http://127.0.0.1:8000"
"""Where `assay serve` listens unless told otherwise."""

MODES = ("remote", "local")
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
}
ADAPTERS_VARIABLES = ("ASSAY_CLIENT_REFERENCE", "ASSAY_CLIENT_ON_FAILURE", "ASSAY_CLIENT_DATA_SOURCES")
"""Variables with our prefix that the adapters read themselves."""


@dataclass(frozen=True)
class ClientSettings:
    """How to reach the service and how long to try. Times in seconds. Picklable and hashable."""

    addresses: tuple[Address, ...] = ()
    """Empty in mode "local"."""
    mode: str = "remote"
    api_key: str | None = field(default=None, repr=False)
    command: tuple[str, ...] = ()
    """Mode "local": the `assay` command and its first arguments; empty: found on PATH."""
    config: str = "{}"
    """Settings of the reward for every request, as canonical JSON."""
    timeout: float = 120.0
    """A call ends by then, with its result or an error."""
    attempt_timeout: float = 40.0
    """One attempt ends by then: a little more than the service allows itself."""
    connect_timeout: float = 5.0
    backoff: float = 0.1
    """Longest pause before the first retry; it doubles with each, and the pause is drawn from nothing up to it."""
    max_backoff: float = 5.0
    window: float = 0.002
    """How long a single call waits for others to share its request; 0 sends each alone."""
    max_batch: int = 512
    """Most single calls in one request."""
    max_connections: int = 64
    """Connections that an asynchronous client has open in one event loop; further calls wait."""
    start_timeout: float = 600.0
    """Mode "local": the service's first start may have to compile its kernels."""
    linger: float = 2.0
    """Mode "local": the service ends this long after the last process that uses it."""
    runtime_dir: str | None = None
    """Mode "local": folder for sockets and locks; None: one in /tmp, for this user alone."""

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, **given: Any) -> ClientSettings:
        """Lay arguments over environment over defaults; an argument that is None counts as not given.

        `base_url` is a URL, several in a list or separated by commas, or `local`; `uds` a socket's path.
        Raises InvalidSetting naming every offender.
        """
        environ = os.environ if environ is None else environ
        issues = [unknown(name) for name in given if name not in NAMES]
        issues += [unknown(v) for v in environ if v.startswith("ASSAY_CLIENT_") and v not in KNOWN_VARIABLES]
        values = {name: environ[variable] for variable, name in VARIABLES.items() if environ.get(variable)}
        values.update({name: value for name, value in given.items() if value is not None and name in NAMES})
        places = {name: variable for variable, name in VARIABLES.items() if given.get(name) is None}
        settle_mode(values, given)
        read: dict[str, Any] = {}
        for name, value in values.items():
            try:
                read[TARGETS.get(name, name)] = READERS[name](value)
            except (TypeError, ValueError, OverflowError) as error:  # noqa: PERF203
                detail = error.issues[0].detail if isinstance(error, InvalidSetting) else str(error)
                issues.append(Issue(places.get(name, name), "invalid_setting", detail))
        if issues:
            raise InvalidSetting(invalid(issues).args[0], issues=issues)
        return cls(**read)

    def merged(self, overrides: Mapping[str, Any] | None) -> str:
        """`config` with a call's own settings laid over it, as canonical JSON; raises InvalidSetting."""
        if not overrides:
            return self.config
        try:
            return canonical({**json.loads(self.config), **overrides})
        except (TypeError, ValueError):
            detail = "an object of numbers, switches and names is needed"
            raise InvalidSetting(detail, issues=[Issue("config", "invalid_setting", detail)]) from None


def settle_mode(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """`base_url="local"` means mode "local"; an address given as an argument outweighs a mode of the environment."""
    if given.get("uds") is not None:
        values["base_url"] = [f"unix:{values.pop('uds')}"]
        values.setdefault("mode", "remote")
    if given.get("mode") is None and (given.get("base_url") is not None or given.get("uds") is not None):
        values["mode"] = "remote"
    if values.get("base_url") == "local":
        values["mode"] = "local"
    if values.get("mode") == "local":
        values.pop("base_url", None)
    else:
        values.setdefault("base_url", DEFAULT_URL)


def canonical(config: Any) -> str:
    return json.dumps(config, sort_keys=True, allow_nan=False, separators=(",", ":"))


def read_addresses(given: str | Sequence[str]) -> tuple[Address, ...]:
    urls = given.split(",") if isinstance(given, str) else list(given)
    found = tuple(address_of(url.strip()) for url in urls if url.strip())
    if not found:
        raise ValueError("no URL is named")
    return found


def read_mode(given: str) -> str:
    if given not in MODES:
        raise ValueError(f"must be one of: {', '.join(MODES)}")
    return given


def read_command(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(given)) if isinstance(given, str) else tuple(map(os.fspath, given))


def read_config(given: str | Mapping[str, Any]) -> str:
    try:
        config = json.loads(given) if isinstance(given, str) else dict(given)
        if not isinstance(config, dict):
            raise TypeError
        return canonical(config)
    except (TypeError, ValueError):
        raise ValueError("a JSON object of settings is needed") from None


def read_key(given: str) -> str:
    if not given or not all("!" <= character <= "~" for character in given):
        raise ValueError("a key is made of visible ASCII characters without spaces")
    return given


def read_positive(given: Any) -> float:
    if isinstance(given, bool) or not (isfinite(float(given)) and float(given) > 0):
        raise ValueError("a finite number above 0 is needed")
    return float(given)


def read_seconds(given: Any) -> float:
    return 0.0 if not isinstance(given, bool) and float(given) == 0 else read_positive(given)


def read_count(given: Any) -> int:
    if isinstance(given, bool) or int(given) < 1 or float(given) != int(given):
        raise ValueError("a whole number of at least 1 is needed")
    return int(given)


def unknown(name: str) -> Issue:
    return Issue(name, "unknown_setting", "there is no setting of this name")


READERS: dict[str, Any] = {
    "base_url": read_addresses,
    "mode": read_mode,
    "api_key": read_key,
    "command": read_command,
    "config": read_config,
    "window": read_seconds,
    "linger": read_seconds,
    "max_batch": read_count,
    "max_connections": read_count,
    "runtime_dir": os.fspath,
    **dict.fromkeys(
        ("timeout", "attempt_timeout", "connect_timeout", "backoff", "max_backoff", "start_timeout"), read_positive
    ),
}
TARGETS = {"base_url": "addresses"}
NAMES = {*READERS, "uds"}
KNOWN_VARIABLES = {*VARIABLES, *ADAPTERS_VARIABLES}
assert {TARGETS.get(name, name) for name in READERS} == {setting.name for setting in fields(ClientSettings)}
