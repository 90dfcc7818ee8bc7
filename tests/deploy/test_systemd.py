"""The systemd unit; systemd itself checks it too, if installed."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.service.config import load

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "assay.service"


class Entries(dict[str, list[str]]):
    """A section in which a name may occur more than once."""

    def __setitem__(self, name: str, value: list[str]) -> None:
        super().__setitem__(name, [*self.get(name, []), *value] if isinstance(value, list) else value)


@pytest.fixture(scope="module")
def section() -> dict[str, list[str]]:
    parser = configparser.RawConfigParser(dict_type=Entries, strict=False)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return {name: value.split("\n") for name, value in parser["Service"].items()}


def test_it_starts_the_service_with_settings_that_it_has(section):
    assert section["ExecStart"] == ["/opt/assay/bin/assay serve --config /etc/assay/assay.toml"]
    given = dict(entry.split("=", 1) for entry in section["Environment"])
    assert given.pop("ASSAY_API_KEYS_FILE") == "%d/keys"
    assert section["LoadCredential"] == ["keys:/etc/assay/keys"]
    load(environ=given)


def test_there_is_time_to_drain(section):
    settings = load(environ={}).server
    assert int(section["TimeoutStopSec"][0]) > settings.drain_seconds + settings.shutdown_seconds


def test_the_kernels_stay_compiled(section):
    assert section["CacheDirectory"] == ["assay"]
    assert "ASSAY_CACHE_DIR=%C/assay" in section["Environment"]
    assert "MemoryDenyWriteExecute" not in section, "machine code is written at start"


def test_systemd_accepts_it(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here")
    unit = tmp_path / "assay.service"
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/assay/bin/assay", f'"{sys.executable}"'), encoding="utf-8")
    shown = subprocess.run([analyze, "verify", str(unit)], check=False, capture_output=True, text=True)
    ours = [line for line in (shown.stdout + shown.stderr).splitlines() if "assay" in line]
    assert ours == []
    assert shown.returncode == 0, shown.stderr
    security = [analyze, "security", "--offline=true", "--threshold=20", str(unit)]
    shown = subprocess.run(security, check=False, capture_output=True, text=True)
    if "unrecognized option" in shown.stderr:
        pytest.skip("this systemd cannot check files")
    assert shown.returncode == 0, shown.stdout.splitlines()[-1:]
