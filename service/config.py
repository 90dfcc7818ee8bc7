"""Settings of the service and their sources: flags, then environment, then a TOML file, then defaults.

Nothing is read at import, only by `load`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from .errors import InvalidSetting, Issue, did_you_mean
from .settings import Real, ScoreSettings, is_null, setting_detail, usable_cores
from .whole_files import read_whole

HINT = "set by Kubernetes' service links, not as settings: use enableServiceLinks: false in the pod's specification"

URL = re.compile(r"(tcp|udp|sctp)://\S+")
NUMBER = re.compile(r"\d+")
WORD = re.compile(r"\S+")

KINDS = (
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT(?:_\d+_(?:TCP|UDP|SCTP))?"), URL),
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT_\d+_(?:TCP|UDP|SCTP)_PORT"), NUMBER),
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT_\d+_(?:TCP|UDP|SCTP)_(?:ADDR|PROTO)"), WORD),
)
"""Names, and the form of their values: a port that is set by hand is not a URL."""

OF_A_SERVICE = re.compile(r"(ASSAY_(?:[A-Z0-9_]+_)?SERVICE)_(?:HOST|PORT(?:_[A-Z0-9_]+)?)")
"""Names that could be meant as settings, except that Kubernetes always sets both host and port."""


def service_links(environ: Mapping[str, str]) -> list[str]:
    """Return the names of all such variables in `environ`, sorted."""
    return sorted(name for name in environ if name.startswith("ASSAY_") and is_link(name, environ))


def is_link(name: str, environ: Mapping[str, str]) -> bool:
    service = OF_A_SERVICE.fullmatch(name)
    if service and f"{service[1]}_HOST" in environ and NUMBER.fullmatch(environ.get(f"{service[1]}_PORT", "")):
        return True
    return any(names.fullmatch(name) and values.fullmatch(environ[name]) for names, values in KINDS)


PREFIX = "ASSAY_"
FOREIGN_VARIABLES = frozenset(
    {
        "ASSAY_CONFIG",
        "ASSAY_CACHE_DIR",
        "ASSAY_URL",
        "ASSAY_API_KEY",
        "ASSAY_JUDGE_KEY",
        "ASSAY_GENERATE_KEY",
        "ASSAY_ROWS",
    }
)
"""Variables with the prefix that are not settings: of the TOML file, the kernels' cache, the client, models that
commands ask, and the environments."""

CLIENT_PREFIX = "ASSAY_CLIENT_"
SECRETS = frozenset({"api_keys"})
"""Settings whose values are never shown."""

MAX_QUOTED = 60
WORK_BYTES_PER_CORE = 32 << 20
"""Two batches of typical size for each thread: one is read while the other is scored."""


def work_bytes(cores: int) -> int:
    """Return the default of `max_work_bytes`, at least the default of `max_body_bytes`."""
    return max(2, cores) * WORK_BYTES_PER_CORE


class ServerSettings(BaseModel):
    """How the service listens, what it accepts and how long it takes. Sizes in bytes, times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    uds: str | None = Field(None, min_length=1, description="Path of a Unix socket to listen on in place of a port.")
    backlog: int = Field(2048, ge=1, le=65_535, description="Maximum number of connections waiting to be accepted.")
    workers: int = Field(
        1, ge=1, le=240, description="Worker processes that share the port; one scrape covers them all."
    )
    worker_timeout_seconds: Real = Field(
        10.0, ge=1, le=3600, description="Restart a worker that has not responded for this long."
    )
    keep_alive_seconds: int = Field(75, ge=1, le=86_400, description="Idle time after which a connection is closed.")

    max_body_bytes: int = Field(64 << 20, ge=1, le=1 << 31, description="Maximum body, before and after decompression.")
    max_responses: int = Field(65_536, ge=1, description="Maximum number of responses in one request.")
    max_reference_bytes: int = Field(262_144, ge=1, le=1 << 23, description="Maximum size of a reference.")
    deadline_seconds: Real = Field(30.0, gt=0, le=86_400, description="Time after which a request gets 504.")

    max_head_bytes: int = Field(65_536, ge=1024, le=1 << 24, description="Maximum head: request line and headers.")
    head_seconds: Real = Field(10.0, gt=0, le=3600, description="Time for a request's head to arrive.")
    body_seconds: Real = Field(
        20.0, gt=0, le=86_400, description="Time for a request's body to arrive, and for its reply to be read."
    )

    max_work_bytes: int = Field(
        default_factory=lambda: work_bytes(usable_cores()),
        ge=1,
        description="Maximum total size of requests being read and scored; they may take six times as much memory.",
    )
    max_queued_bytes: int = Field(
        default_factory=lambda: 8 * work_bytes(usable_cores()),
        ge=0,
        description="Maximum total size of queued requests, not yet read; beyond it, requests get 429.",
    )
    inline_bytes: int = Field(
        65_536, ge=0, description="Requests up to this size are scored on the event loop instead of a worker thread."
    )
    threads: int = Field(default_factory=usable_cores, ge=1, le=1024, description="Threads that score batches.")
    max_queued: int = Field(1024, ge=1, description="Maximum number of queued batches; beyond it, requests get 429.")

    docs: bool = Field(True, description="Serve /docs and /openapi.json.")
    playground: bool = Field(True, description="Serve the playground to browsers at /.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="While listening on loopback: names allowed in `Host` besides localhost, e.g. a proxy's."
    )
    api_keys: tuple[SecretStr, ...] = Field((), description="API keys accepted on /v1; without any, no key is needed.")
    api_keys_file: str | None = Field(None, min_length=1, description="File with further keys, one per line.")

    max_runs: int = Field(32, ge=1, le=128, description="Training runs that metrics name; further ones are `other`.")
    log_format: Literal["text", "json"] = Field("text", description="Lines of text, or one JSON object per line.")
    traces: bool = Field(False, description="Send a span of every request but probes to OpenTelemetry (extra `otel`).")
    access_log: bool = Field(False, description="Log every request, not only failures.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Minimum log level.")
    drain_seconds: Real = Field(
        2.0, ge=0, le=3600, description="Time after SIGTERM in which the service is not ready, but still accepts."
    )
    shutdown_seconds: int = Field(30, ge=1, le=3600, description="Time limit after that for requests in flight.")

    @field_validator("allowed_hosts", "api_keys", mode="before")
    @classmethod
    def split_list(cls, value: Any) -> Any:
        """Accept comma-separated text, from an environment variable, or a list, from TOML."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(value) if isinstance(value, list) else value

    @field_validator("api_keys")
    @classmethod
    def check_keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        """Require visible ASCII without spaces: a key is sent in a header."""
        for key in keys:
            text = key.get_secret_value()
            if not text or not all("!" <= character <= "~" for character in text):
                raise ValueError("a key must consist of visible ASCII characters without spaces")
        return keys


@dataclass(frozen=True)
class Config:
    """The effective settings, and the source of each."""

    server: ServerSettings = field(default_factory=ServerSettings)
    score: ScoreSettings = field(default_factory=ScoreSettings)
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    keys_of_file: int = 0
    """Number of keys at the end of `api_keys` that come from `api_keys_file`."""

    @property
    def fixed_keys(self) -> tuple[SecretStr, ...]:
        """The keys that do not come from a file, and so do not change while the process runs."""
        keys = self.server.api_keys
        return keys[: len(keys) - self.keys_of_file]

    def origin(self, name: str) -> str:
        """Return the source of a setting: `default`, a flag, an environment variable or a file."""
        return self.origins.get(name, "default")


class SettingSource(NamedTuple):
    model: type[BaseModel]
    """The model of the setting; it may lack the name."""
    name: str
    value: Any
    path: str
    """The path of an issue with the value, e.g. `ASSAY_PORT`."""
    origin: str
    text: bool


TABLES: dict[str, type[BaseModel]] = {"server": ServerSettings, "score": ScoreSettings}
"""The tables of a TOML file. No name of a setting is in both."""

TABLE_OF = {name: table for table, model in TABLES.items() for name in model.model_fields}


def model_of(name: str) -> type[BaseModel]:
    return TABLES[TABLE_OF.get(name, "server")]


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Config:
    """Merge flags, environment, TOML file and defaults, in this order of precedence.

    `flags` holds settings by name, None if not given; `environ` is `os.environ` by default; `path`, or else
    `ASSAY_CONFIG`, names a TOML file with the tables `[server]` and `[score]`.
    Raises InvalidSetting naming every unknown name and every invalid value, each with its source.
    """
    environ = os.environ if environ is None else environ
    path = path or environ.get("ASSAY_CONFIG")
    issues: list[Issue] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in (*from_file(path, issues), *from_environment(environ, issues), *from_flags(flags or {})):
        model, name, value, where, origin, text = source
        if name not in model.model_fields:
            issues.append(unknown_setting(source))
            continue
        validate = model.model_validate_strings if text else model.model_validate
        try:
            values[name] = None if is_null(name, value) else getattr(validate({name: value}), name)
            origins[name] = origin
        except ValidationError as error:
            detail = setting_detail(error.errors(include_url=False, include_input=False)[0])
            detail += "" if name in SECRETS else f", got {quoted(value)}"
            issues.append(Issue(where, "invalid_setting", detail))
    keys = keys_of_file(values, origins, issues)
    if issues:
        raise InvalidSetting(issues)
    if keys:
        values["api_keys"] = (*values.get("api_keys", ()), *keys)
        origins.setdefault("api_keys", origins["api_keys_file"])
    server, score = ({n: v for n, v in values.items() if n in model.model_fields} for model in TABLES.values())
    return Config(ServerSettings(**server), ScoreSettings(**score), MappingProxyType(origins), len(keys))


def from_flags(flags: Mapping[str, Any]) -> Iterator[SettingSource]:
    for name, value in flags.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            yield SettingSource(model_of(name), name, value, flag, f"flag {flag}", text=False)


def from_environment(environ: Mapping[str, str], issues: list[Issue]) -> Iterator[SettingSource]:
    links = [name for name in service_links(environ) if not is_foreign(name)]
    if links:
        issues.append(Issue(", ".join(links), "unknown_setting", HINT))
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and not is_foreign(variable) and variable not in links:
            name = variable.removeprefix(PREFIX).lower()
            yield SettingSource(model_of(name), name, environ[variable], variable, f"environment {variable}", text=True)


def is_foreign(variable: str) -> bool:
    return variable in FOREIGN_VARIABLES or variable.startswith(CLIENT_PREFIX)


def from_file(path: str | os.PathLike[str] | None, issues: list[Issue]) -> Iterator[SettingSource]:
    if not path:
        return
    try:
        tables = tomllib.loads(read_whole(path).decode())
    except OSError as error:
        issues.append(Issue(str(path), "unreadable_file", error.strerror or type(error).__name__))
        return
    except ValueError as error:  # not TOML, or not UTF-8
        where = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "the file is not UTF-8"
        issues.append(Issue(str(path), "not_toml", where))
        return
    for table, model in TABLES.items():
        entries = tables.pop(table, {})
        if isinstance(entries, dict):
            for name, value in entries.items():
                yield SettingSource(model, name, value, f"{path}: {table}.{name}", str(path), text=False)
        else:
            issues.append(Issue(f"{path}: {table}", "invalid_setting", "this is the name of a table"))
    issues.extend(unknown_table(path, name) for name in tables)


def keys_of_file(values: Mapping[str, Any], origins: Mapping[str, str], issues: list[Issue]) -> tuple[SecretStr, ...]:
    path = values.get("api_keys_file")
    if path is None:
        return ()
    try:
        return read_keys(path)
    except OSError as error:
        detail = error.strerror or type(error).__name__
    except ValidationError:
        detail = "a key must consist of visible ASCII characters without spaces"
    except UnicodeDecodeError:
        detail = "the file is not UTF-8"
    except ValueError as error:
        detail = str(error)
    issues.append(Issue(f"api_keys_file ({origins['api_keys_file']})", "unreadable_file", detail))
    return ()


def read_keys(path: str | os.PathLike[str]) -> tuple[SecretStr, ...]:
    """Read the keys of a file: one per line, without blank lines and lines that begin with `#`.

    Raises OSError as `read_whole`, and ValueError for an invalid key and for a file without keys (the service would be
    open).
    """
    lines = [line.strip() for line in read_whole(path).decode().splitlines()]
    texts = [line for line in lines if line and not line.startswith("#")]
    keys = ServerSettings.model_validate({"api_keys": texts}).api_keys
    if not keys:
        raise ValueError("the file contains no key")
    return keys


def quoted(value: Any) -> str:
    return repr(value) if len(repr(value)) <= MAX_QUOTED else f"{repr(value)[:MAX_QUOTED]}…"


def unknown_setting(source: SettingSource) -> Issue:
    """Return the issue of a name that its model does not have, with the name or the table that may be meant."""
    name, names = source.name, list(TABLE_OF)
    if source.text:
        name, names = source.path, [PREFIX + setting.upper() for setting in names]
    elif name in TABLE_OF:
        return Issue(source.path, "unknown_setting", f"put {name} under [{TABLE_OF[name]}]")
    return Issue(source.path, "unknown_setting", "there is no setting of this name" + did_you_mean(name, names))


def unknown_table(path: object, name: str) -> Issue:
    detail = "only the tables [server] and [score] are known" + did_you_mean(name, [*TABLES, *TABLE_OF])
    if name in TABLE_OF:
        detail = f"put {name} under [{TABLE_OF[name]}]"
    return Issue(f"{path}: {name}", "unknown_setting", detail)
