"""The examples for trainers: valid scripts, existing files, rows that the adapters accept."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay_client.adapters import for_areal, for_ms_swift, for_skyrl, for_slime, for_trl, for_verl
from assay_client.adapters.common import column_of, record_of, records_of
from tests.http.samples import PERFECT, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "examples" / "trainers"
SCRIPTS = sorted(TRAINERS.glob("*.sh"))
PROGRAMS = sorted([*TRAINERS.rglob("*.py"), *(ROOT / "examples" / "grpo_tiny").glob("*.py")])
TEXTS = sorted(path for path in TRAINERS.rglob("*") if path.suffix in {".sh", ".py", ".md", ".toml", ".yaml"})


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rows = loaded(TRAINERS / "rows.py")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert path.stat().st_mode & 0o111, "must be executable"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_pass_everything_on(path: Path, tmp_path: Path) -> None:
    """Replace the trainers by commands that print their arguments."""
    for name in ("python3", "swift"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$ASSAY_URL" "$REWARD_PATH" "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "score_start.sh").write_text('python3 "$@"\n')
    (tmp_path / "model.sh").write_text("MODEL_ARGS=(--layers 2)\n")
    named = {"MODEL": "m", "THOTH": str(tmp_path), "SLIME": str(tmp_path), "MODEL_SCRIPT": "model.sh"}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ASSAY_URL": "http://reward-host:8000", **named}
    done = subprocess.run(
        [str(path), "one more"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    given = done.stdout.splitlines()
    assert "http://reward-host:8000" in given[0]
    assert given[-1] == "one more"
    files = [found for line in given for found in re.findall(r"/\S*/adapters/\S+\.py", line)]
    assert all(Path(file).is_file() for file in files)
    assert files or re.search(r"http://reward-host:8000/compat/|assay_client\.adapters\.for_slime", done.stdout)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_named_adapters_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"\b(for_[a-z_]+)\.py\b", text):
        assert (ROOT / "clients" / "assay_client" / "adapters" / f"{name}.py").is_file()
    for module, name in re.findall(r"(assay_client\.adapters\.for_[a-z_]+)[.:](\w+)", text):
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_programs_are_valid_for_old_versions_of_python(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_programs_import_no_trainer_before_they_run() -> None:
    for name in ("trl_grpo", "areal_grpo", "skyrl_grpo"):
        assert callable(loaded(TRAINERS / f"{name}.py").main)


def test_the_configuration_of_nemo_gym() -> None:
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((TRAINERS / "nemo_gym" / "configs" / "assay.yaml").read_text(encoding="utf-8"))
    (server,) = config["assay"]["resources_servers"].values()
    assert server["entrypoint"] == "app.py"
    agent = config["assay_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["resources_server"] == {"type": "resources_servers", "name": "assay"}


SOURCE = [{"prompt": "p1", "system": "s", "reference": REFERENCE, "id": "a"}, {"query": "p2", "reference": PERFECT}]


def rows_for(trainer: str, folder: Path, ending: str = "jsonl") -> list[dict[str, Any]]:
    source, target = folder / "in.jsonl", folder / f"out.{ending}"
    source.write_text("".join(json.dumps(row) + "\n" for row in [*SOURCE, SOURCE[0]]), encoding="utf-8")
    command = [sys.executable, str(TRAINERS / "rows.py"), trainer, str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True)
    if ending == "parquet":
        from pyarrow import parquet

        return parquet.read_table(target).to_pylist()
    return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def columns(found: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in found] for name in found[0]}


def test_rows_name_their_reference_and_their_record(tmp_path: Path) -> None:
    assert {"verl", "trl", "openrlhf", "slime", "nemo-gym", "ms-swift", "areal", "skyrl"} == rows.FORMS.keys()
    for trainer in ("trl", "ms-swift"):
        batch = columns(rows_for(trainer, tmp_path))
        assert column_of(batch) == [REFERENCE, PERFECT]
        assert records_of(batch, 2) == ["a", "2"]
    assert rows_for("trl", tmp_path)[0]["prompt"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "p1"},
    ]
    areal = rows_for("areal", tmp_path)[0]
    assert (column_of(areal), record_of(areal)) == (REFERENCE, "a")
    for trainer in ("openrlhf", "slime"):
        assert [row["label"] for row in rows_for(trainer, tmp_path)] == [REFERENCE, PERFECT]
    gym = rows_for("nemo-gym", tmp_path)[0]
    assert gym["reference"] == REFERENCE
    assert gym["responses_create_params"]["input"][-1] == {"role": "user", "content": "p1"}


@pytest.mark.usefixtures("at")
def test_rows_of_verl_and_skyrl_are_scored(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    row = rows_for("verl", tmp_path, "parquet")[0]
    truth, info = row["reward_model"]["ground_truth"], row["extra_info"]
    assert for_verl.compute_score_sync(row["data_source"], PERFECT, truth, info)["score"] == 1.0
    assert record_of(info) == "a"
    environment = for_skyrl.AssayEnv({}, rows_for("skyrl", tmp_path, "parquet")[0])
    assert environment.step(PERFECT)["reward"] == 1.0


def test_a_row_without_a_reference_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"prompt": "p", "reference": "r"}\n{"prompt": "q"}\n')
    with pytest.raises(SystemExit, match=r"in\.jsonl:2: "):
        list(rows.read_rows(source))


def test_every_adapter_has_an_example() -> None:
    named = " ".join(path.read_text(encoding="utf-8") for path in TEXTS)
    for module in (for_areal, for_ms_swift, for_skyrl, for_slime, for_trl, for_verl):
        assert module.__name__.rpartition(".")[2] in named
