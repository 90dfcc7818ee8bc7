"""The cache folder of compiled kernels and the digest in its name. Nothing is compiled here."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

import assay.kernels.compiler

pytestmark = pytest.mark.attack

ROOT = Path(__file__).resolve().parents[2]
CPU = "some-cpu +features"


def cache_of(package: Path) -> ModuleType:
    """Return the module `compiler.py` of a copy of the package; it imports no other module of it."""
    spec = importlib.util.spec_from_file_location("copied_cache", package / "compiler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path) -> Path:
    return shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def cache(monkeypatch, tmp_path) -> ModuleType:
    """Return the module, with a separate home and temporary folder."""
    for name in ("ASSAY_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return assay.kernels.compiler


KERNELS = ROOT / "kernels"
SOURCES = sorted(p.relative_to(KERNELS).as_posix() for p in KERNELS.rglob("*") if p.suffix in (".py", ".npz"))


def test_every_source_and_table_is_in_the_digest(package):
    cache = cache_of(package)
    digest = cache.kernels_digest(CPU)
    for path in [package / name for name in SOURCES]:
        content = path.read_bytes()
        for changed in (content + b"\n", content[:-1]):
            path.write_bytes(changed)
            assert cache.kernels_digest(CPU) != digest, path
        path.write_bytes(content)
        os.utime(path, (0, 0))
        assert cache.kernels_digest(CPU) == digest, "content counts, not dates"


def test_new_renamed_and_moved_sources_are_in_the_digest(package):
    digests = [cache_of(package).kernels_digest(CPU)]
    (package / "extra.py").write_text("")
    digests.append(cache_of(package).kernels_digest(CPU))
    (package / "extra.py").rename(package / "other.py")
    digests.append(cache_of(package).kernels_digest(CPU))
    (package / "other.py").rename(package / "text" / "other.py")
    digests.append(cache_of(package).kernels_digest(CPU))
    assert len(set(digests)) == 4


def test_toolchain_and_cpu_are_in_the_digest(cache, monkeypatch):
    digests = [cache.kernels_digest(CPU), cache.kernels_digest("generic")]
    monkeypatch.setattr(cache.platform, "python_version", lambda: "3.99.0")
    digests.append(cache.kernels_digest(CPU))
    monkeypatch.undo()
    for tool in ("numba", "llvmlite", "numpy"):
        genuine = cache.version
        versions = {name: genuine(name) for name in ("numba", "llvmlite", "numpy")} | {tool: "0.0"}
        monkeypatch.setattr(cache, "version", versions.__getitem__)
        digests.append(cache.kernels_digest(CPU))
        monkeypatch.undo()
    assert len(set(digests)) == len(digests)


def test_folders_in_turn(cache, monkeypatch, tmp_path):
    name = f"kernels-{cache.kernels_digest(CPU)}"
    assert cache.cache_folder(CPU) == tmp_path / "home" / ".cache" / "assay" / name
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder(CPU) == tmp_path / "xdg" / "assay" / name
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert cache.cache_folder(CPU) == tmp_path / "numba" / name
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache.cache_folder(CPU) == tmp_path / "chosen" / name
    assert cache.cache_folder("generic") != tmp_path / "chosen" / name


def private(tmp_path: Path) -> Path:
    return tmp_path / "temporary" / f"assay-{os.getuid()}"


@pytest.mark.parametrize("home", ["file/below", "", "relative"])
def test_without_a_home(cache, monkeypatch, tmp_path, home):
    """A home that is not a folder, empty or unknown is replaced by a private temporary folder."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / home) if home == "file/below" else home)
    if home == "":
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without an entry in passwd
    folder = cache.cache_folder(CPU)
    assert folder == private(tmp_path) / f"kernels-{cache.kernels_digest(CPU)}"
    assert private(tmp_path).stat().st_mode & 0o777 == 0o700


def read_only(monkeypatch: pytest.MonkeyPatch, cache: ModuleType, *roots: Path) -> None:
    """Make everything below `roots` read-only, as in an image; modes would not stop a superuser."""
    genuine = tempfile.TemporaryFile

    def refusing(*, dir: Path) -> object:
        if any(Path(dir).is_relative_to(root) for root in roots):
            raise OSError(30, "Read-only file system", str(dir))
        return genuine(dir=dir)

    monkeypatch.setattr(cache.tempfile, "TemporaryFile", refusing)


def test_kernels_of_a_read_only_image_are_used(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "image"))
    baked = cache.cache_folder(CPU)
    (baked / "score.kernel").write_bytes(b"code")
    read_only(monkeypatch, cache, tmp_path / "image")
    assert cache.cache_folder(CPU) == baked
    other = f"kernels-{cache.kernels_digest('generic')}"
    assert cache.cache_folder("generic") == private(tmp_path) / other, "there are no kernels of that target"


def test_nothing_can_be_written(cache, monkeypatch, tmp_path):
    read_only(monkeypatch, cache, tmp_path)
    assert cache.cache_folder(CPU) is None


def test_no_temporary_folder_at_all(cache, monkeypatch, tmp_path):
    """`tempfile` itself raises if it finds no usable folder."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))

    def none_found() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(cache.tempfile, "gettempdir", none_found)
    assert cache.cache_folder(CPU) is None


owners = pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes here")


def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every existing file belong to another user."""
    uid = os.getuid() or 1_000
    genuine = {name: getattr(Path, name) for name in ("stat", "lstat")}

    def owned(name):
        def look(path, **options):
            found = genuine[name](path, **options)
            return os.stat_result((*found[:4], uid, *found[5:]))

        return look

    for name in genuine:
        monkeypatch.setattr(Path, name, owned(name))
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)


@owners
@pytest.mark.parametrize("kind", ["link", "file", "of somebody else"])
def test_a_temporary_folder_that_is_not_private_is_not_used(cache, monkeypatch, tmp_path, kind):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    folder = private(tmp_path)
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o700)
        as_another_user(monkeypatch)
        folder.rename(private(tmp_path))
    assert cache.cache_folder(CPU) is None


@owners
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o702])
@pytest.mark.parametrize("below", [False, True], ids=["root", "folder"])
@pytest.mark.parametrize("where", ["ASSAY_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "temporary"])
def test_a_folder_that_others_can_write_to_is_not_used(cache, monkeypatch, tmp_path, caplog, where, below, mode):
    """Its content would be executed. The next folder is used instead, and the reason is logged."""
    if where == "temporary":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
    else:
        monkeypatch.setenv(where, str(tmp_path / "chosen"))
    folder = cache.cache_folder(CPU)
    (folder / "planted.kernel").write_bytes(b"anything")
    (folder if below else folder.parent).chmod(mode)
    expected = None if where == "temporary" else private(tmp_path) / folder.name
    caplog.clear()
    assert cache.cache_folder(CPU) == expected
    assert f"{folder}: others can write to it (mode {mode:04o}; chmod go-w)" in caplog.text
    (folder if below else folder.parent).chmod(0o755)
    assert cache.cache_folder(CPU) == folder, "others may read it"


@owners
@pytest.mark.parametrize("where", ["ASSAY_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_a_folder_of_another_user_is_not_used(cache, monkeypatch, tmp_path, caplog, where):
    monkeypatch.setenv(where, str(tmp_path / "chosen"))
    folder = cache.cache_folder(CPU)
    (folder / "planted.kernel").write_bytes(b"anything")
    as_another_user(monkeypatch)
    assert cache.cache_folder(CPU) is None, "everything here belongs to the other"
    assert f"{folder}: it belongs to user " in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_superuser_does_not_use_what_belongs_to_another(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "chosen"))
    folder = cache.cache_folder(CPU)
    for path in (folder, folder.parent):
        os.chown(path, 65534, 65534)
        assert cache.cache_folder(CPU) == private(tmp_path) / folder.name
        os.chown(path, 0, 0)
    assert cache.cache_folder(CPU) == folder


@owners
def test_folders_are_private_whatever_the_umask(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    before = os.umask(0)
    try:
        folder = cache.cache_folder(CPU)
    finally:
        os.umask(before)
    while folder != tmp_path:
        assert folder.stat().st_mode & 0o777 == 0o700
        folder = folder.parent


def test_a_missing_cache_is_logged(cache, monkeypatch, tmp_path, caplog):
    read_only(monkeypatch, cache, tmp_path)
    with caplog.at_level(logging.WARNING):
        assert cache.cache_folder(CPU) is None
    assert "compiled at every start" in caplog.text


def test_every_target_has_its_own_folder(compiled, tmp_path):
    """Another CPU, and code with bounds checks, never meet the same machine code."""
    code = "import json, assay.kernels.compiler; print(json.dumps(assay.kernels.compiler.CACHE))"
    folders = set()
    for extra in (
        {},
        {"NUMBA_CPU_NAME": "generic"},
        {"NUMBA_BOUNDSCHECK": "1"},
        {"NUMBA_OPT": "1"},
        {"NUMBA_DISABLE_JIT": "1"},
    ):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**kept, **extra, "ASSAY_CACHE_DIR": str(tmp_path)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        folders.add(json.loads(ran.stdout))
    assert len(folders) == 5
    assert None in folders, "plain Python keeps nothing"
    assert all(Path(folder).parent == tmp_path for folder in folders - {None})
