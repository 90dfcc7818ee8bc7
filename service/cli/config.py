"""`assay config`: prints all settings with their origin, or their JSON schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from ..config import SECRETS, TABLES, Config, ServerSettings
from ..settings import NONE, NULLABLE, ScoreSettings
from ..terminal import say
from .command import Command
from .files import json_target, write_json
from .options import config_option, document_options, load_config, settings_options


@click.command(cls=Command, examples=("assay config --order lcs --min-coverage 0.9", "assay config > assay.toml"))
@click.option("--schema", is_flag=True, help="The JSON schema of the settings instead.")
@document_options("json")
@config_option
@settings_options(ServerSettings, ScoreSettings)
def command(schema: bool, config_file: Path | None, **flags: Any) -> None:
    """Print every setting with its value and origin."""
    target = json_target(flags)
    if schema:
        tables = {table: model.model_json_schema() for table, model in TABLES.items()}
        write_json(target or "-", {"type": "object", "properties": tables, "additionalProperties": False})
        return
    config = load_config(flags, config_file)
    if target is not None:
        write_json(
            target, {"config_id": config.score.config_id, "signature": config.score.signature, **tables_of(config)}
        )
    else:
        say(as_text(config))


def tables_of(config: Config) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        table: {
            name: {"value": value, "origin": config.origin(name)}
            for name, value in settings.model_dump(mode="json").items()
        }
        for table, settings in (("server", config.server), ("score", config.score))
    }


def as_text(config: Config) -> str:
    """Return TOML that --config accepts (without secrets); comments give the origin of each line."""
    lines = [f"# config_id {config.score.config_id}", f"# signature {config.score.signature}"]
    for table, entries in tables_of(config).items():
        lines += ["", f"[{table}]"]
        for name, entry in entries.items():
            lines.append(f"{toml_line(name, entry['value']):<44}  # {entry['origin']}")
    return "\n".join(lines)


def toml_line(name: str, value: Any) -> str:
    if value is None:
        return f"{name} = {orjson.dumps(NONE).decode()}" if name in NULLABLE else f"# {name} is not set"
    if name in SECRETS and value:
        return f"# {name} is set, but not shown"
    return f"{name} = {orjson.dumps(value).decode()}"
