"""Kernels with which an installation comes: used where the CPU can run them and nobody else could write to them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCPUCodegen

from assay import Scorer
from assay.kernels import compiler
from assay.kernels.compiler import KERNELS, CodeFolder, KernelCache, kernels_digest
from assay.kernels.warmup import warmup
from examples.rollouts import generate
from tests.kernels.test_cache import as_another_user
from tests.kernels.test_start import ROOT, Installation, outcome

pytestmark = pytest.mark.usefixtures("compiled")

START = """
import json, sys
from assay.kernels.compiler import FUNCTIONS
from assay.kernels.warmup import warmup
cache = warmup().cache
from assay import Scorer
scores = Scorer(length_penalty="relative").score(*json.load(open("batch.json")))
columns = [scores.rewards, *scores.components.values()]
compiled = sum(bool(function.signatures) for function in FUNCTIONS)
json.dump([cache, compiled, [column.tobytes().hex() for column in columns]], sys.stdout)
"""
INTEL = "+avx2,+bmi,+bmi2,+crc32,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sahf,+sse4.2,+xsave,-avx512f"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """Return one with a batch to score, whose cache is in an empty home."""
    installation = Installation(tmp_path)
    installation.cache = tmp_path / ".cache" / "assay"
    rows = list(generate(300, 7))
    batch = [row["response"] for row in rows], [row["reference"] for row in rows]
    (tmp_path / "batch.json").write_text(json.dumps(batch), encoding="utf-8")
    return installation


def columns_here(installation: Installation) -> list[str]:
    batch = json.loads((installation.folder / "batch.json").read_text(encoding="utf-8"))
    scores = Scorer(length_penalty="relative").score(*batch)
    assert np.unique(scores.rewards).size > 30
    return [column.tobytes().hex() for column in (scores.rewards, *scores.components.values())]


def ship(installation: Installation, cpu: str) -> Path:
    """Put the kernels of this process into the installation as code for `cpu`."""
    own = Path(warmup().cache or "")
    folder = installation.package / "kernels" / "compiled" / f"kernels-{kernels_digest(cpu)}"
    folder.mkdir(parents=True, mode=0o755)
    for function in KERNELS:
        kernel = KernelCache(function.py_func)
        name, purpose = kernel._entry(function.signatures[0], CodeFolder(own))
        content = CodeFolder(own).read(name, purpose)
        assert content is not None
        CodeFolder(folder).write(*kernel._entry(function.signatures[0], CodeFolder(folder)), content)
    return folder


@pytest.mark.parametrize("k", [0, 1], ids=["this CPU", "all usual CPUs"])
def test_a_first_start_compiles_nothing(installation: Installation, k: int) -> None:
    if k == len(compiler._targets()):
        pytest.skip("kernels for all usual CPUs do not run on this one")
    folder = ship(installation, compiler._targets()[k])
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert outcome(installation.start(START)) == [str(folder), len(KERNELS), columns_here(installation)]
    assert not installation.cache.exists()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_what_is_missing_or_damaged_is_compiled_into_the_cache(installation: Installation) -> None:
    folder = ship(installation, compiler._targets()[-1])
    missing, damaged = (next(folder.glob(f"*.{name}-*")) for name in ("find_strings", "exact_sums"))
    missing.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said = f"recompiled: {damaged} cannot be used: it is damaged"
    cache, _, columns = outcome(installation.start(START), said=said)
    assert Path(cache).parent == installation.cache
    assert columns == columns_here(installation)
    assert sorted(path.name for path in Path(cache).iterdir()) == sorted([missing.name, damaged.name])
    assert not missing.exists()
    again = outcome(installation.start(START), said=said)
    assert again == [cache, len(KERNELS), columns], "the cache has what the folder lacks"


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that returns the targets of a CPU."""

    def targets_of(features: str = INTEL, architecture: str = "x86_64", **settings: str) -> list[str]:
        monkeypatch.setattr(JITCPUCodegen, "magic_tuple", lambda _: (f"{architecture}-linux-gnu", "skylake", features))
        for name in ("CPU_NAME", "CPU_FEATURES"):
            monkeypatch.setattr(numba.config, name, settings.get(name))
        return compiler._targets()

    return targets_of


def test_a_cpu_that_lacks_a_feature_does_not_run_code_that_needs_it(targets: Callable[..., list[str]]) -> None:
    own, portable = targets()
    assert own.startswith(f"x86_64-linux-gnu skylake {INTEL} ")
    assert portable.startswith("x86_64-linux-gnu x86-64-v3  ")
    for name in INTEL.split(",")[:-1]:
        assert len(targets(INTEL.replace(f"{name},", f"{name},".replace("+", "-")))) == 1, name
        assert len(targets(INTEL.replace(f"{name},", ""))) == 1, name
    assert [name.split()[:2] for name in targets("+neon", "aarch64")][1] == ["aarch64-linux-gnu", "generic"]
    for setting in ({"CPU_NAME": "skylake"}, {"CPU_FEATURES": ""}, {"CPU_NAME": "generic", "CPU_FEATURES": ""}):
        assert targets(**setting) == [own], "who names a target gets code for it"


@pytest.mark.attack
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes here")
def test_a_folder_that_others_can_write_to_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "compiled"
    monkeypatch.setattr(compiler, "SHIPPED", root)
    folders = [root / f"kernels-{kernels_digest(cpu)}" for cpu in compiler._targets()]
    find = compiler.shipped.__wrapped__
    assert find() is None
    for folder in folders:
        folder.mkdir(parents=True, mode=0o755)
    assert find().path == folders[0]
    folders[0].chmod(0o775)
    if folders[1:]:
        assert find().path == folders[1]
        folders[1].chmod(0o757)
    assert find() is None
    assert f"the kernels in {folders[0]} are not used: others can write to it (mode 0775" in caplog.text
    for folder in folders:
        folder.chmod(0o755)
    root.chmod(0o777)
    assert find() is None
    root.chmod(0o755)
    as_another_user(monkeypatch)
    assert find() is None
    assert "it belongs to user " in caplog.text


@pytest.mark.slow
def test_all_usual_cpus_get_the_same_numbers(installation: Installation) -> None:
    """Compiled for them, and shipped, by the script of `make wheel` and the image."""
    if len(compiler._targets()) == 1:
        pytest.skip("kernels for all usual CPUs do not run on this one")
    own = ship(installation, compiler._targets()[0])
    with installation.start((ROOT / "deploy" / "kernels.py").read_text(encoding="utf-8")) as process:
        process.communicate(timeout=600)
    (shipped,) = {path for path in own.parent.iterdir() if path != own}
    assert [path.stat().st_mode & 0o777 for path in (shipped, *shipped.iterdir())] == [0o755] + [0o644] * len(KERNELS)
    code = {path.name: path.read_bytes() for path in own.iterdir()}
    assert sorted(code) == sorted(path.name for path in shipped.iterdir())
    assert any(path.read_bytes() != code[path.name] for path in shipped.iterdir())
    shutil.rmtree(own)
    assert outcome(installation.start(START)) == [str(shipped), len(KERNELS), columns_here(installation)]
