"""`assay config`: every setting with its value and origin."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from assay.service.config import ServerSettings
from assay.service.settings import ScoreSettings


def test_every_setting_is_shown_with_its_origin(call, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "assay.toml"
    file.write_text("[score]\norder = 'lcs'\nsemantics = 'product'\n[server]\nport = 9000\n")
    monkeypatch.setenv("ASSAY_SEMANTICS", "sum")
    monkeypatch.setenv("ASSAY_MIN_COVERAGE", "0.5")
    result = call(
        "config", "--json", "--config", file, "--min-coverage", "0.75", "--no-use-order", "--advantage-ddof", "0"
    )
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert set(shown["server"]) == set(ServerSettings.model_fields)
    assert set(shown["score"]) == set(ScoreSettings.model_fields)
    assert shown["server"]["port"] == {"value": 9000, "origin": str(file)}
    assert shown["score"]["order"] == {"value": "lcs", "origin": str(file)}
    assert shown["score"]["semantics"] == {"value": "sum", "origin": "environment ASSAY_SEMANTICS"}
    assert shown["score"]["min_coverage"] == {"value": 0.75, "origin": "flag --min-coverage"}
    assert shown["score"]["use_order"] == {"value": False, "origin": "flag --use-order"}
    assert shown["score"]["advantage_ddof"] == {"value": 0, "origin": "flag --advantage-ddof"}
    assert shown["score"]["total"] == {"value": "product", "origin": "default"}
    settings = {"order": "lcs", "min_coverage": 0.75, "use_order": False, "advantage_ddof": 0}
    assert shown["config_id"] == ScoreSettings(**settings).config_id
    assert shown["signature"] == ScoreSettings(**settings).signature
    tables = json.loads(call("config", "--schema").stdout)["properties"]
    assert {name: set(table["properties"]) for name, table in tables.items()} == {
        name: set(shown[name]) for name in ("server", "score")
    }


@pytest.mark.parametrize("limit", ["none", "2"])
def test_the_text_is_toml_that_can_be_given_back(call, tmp_path: Path, limit: str) -> None:
    first = call("config", "--order", "lcs", "--port", "0", "--uds", "/run/assay.sock", "--max-added-numbers", limit)
    file = tmp_path / "assay.toml"
    file.write_text(first.stdout)
    tables = tomllib.loads(first.stdout)
    assert (tables["server"]["uds"], str(tables["score"]["max_added_numbers"])) == ("/run/assay.sock", limit)
    second = call("config", "--config", file)
    values = [line.split("  #")[0] for line in first.stdout.splitlines()]
    assert [line.split("  #")[0] for line in second.stdout.splitlines()] == values


def test_a_number_or_none(call) -> None:
    result = call("config", "--max-added-numbers", "some")
    assert (result.exit_code, "'some' is neither an integer nor none" in result.stderr) == (2, True)


def test_a_key_is_never_shown(call) -> None:
    for arguments in ([], ["--json"]):
        result = call("config", "--api-keys", "opensesame", *arguments)
        assert result.exit_code == 0
        assert "opensesame" not in result.output
