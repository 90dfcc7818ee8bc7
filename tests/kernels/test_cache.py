"""The cache folder of compiled kernels, the digest in its name, and its files of machine code. Nothing is compiled."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import assay.kernels.compiler
from assay.kernels.compiler import CodeFolder

pytestmark = pytest.mark.attack

ROOT = Path(__file__).resolve().parents[2]
CPU = "some-cpu +features"


@pytest.fixture
def cache(monkeypatch, tmp_path) -> ModuleType:
    """Return the module, with a separate home and temporary folder."""
    for name in ("ASSAY_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return assay.kernels.compiler


def test_every_source_the_toolchain_and_the_cpu_are_in_the_digest(cache, monkeypatch, tmp_path):
    """Contents and names, but not dates."""
    package = shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "_KERNELS", package)
    digest = cache.kernels_digest(CPU)
    sources = [path for path in package.rglob("*") if path.suffix in (".py", ".npz")]
    assert len(sources) > 20
    for path in sources:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"#")
        assert cache.kernels_digest(CPU) != digest, path
        path.write_bytes(content)
        os.utime(path, (0, 0))
        assert cache.kernels_digest(CPU) == digest
    (package / "extra.py").write_text("")
    digests = [digest, cache.kernels_digest(CPU), cache.kernels_digest("generic")]
    for before, after in (("extra.py", "other.py"), ("other.py", "text/other.py")):
        (package / before).rename(package / after)
        digests.append(cache.kernels_digest(CPU))
    genuine = cache.version
    for tool in ("numba", "llvmlite", "numpy"):
        with monkeypatch.context() as patch:
            patch.setattr(cache, "version", lambda name: "0.0" if name == tool else genuine(name))  # noqa: B023
            digests.append(cache.kernels_digest(CPU))
    monkeypatch.setattr(cache.platform, "python_version", lambda: "3.99.0")
    digests.append(cache.kernels_digest(CPU))
    assert len(set(digests)) == len(digests) == 9


def test_folders_in_turn(cache, monkeypatch, tmp_path):
    name = f"kernels-{cache.kernels_digest(CPU)}"
    assert cache.cache_folder(CPU) == tmp_path / "home" / ".cache" / "assay" / name
    for variable, folder in (("XDG_CACHE_HOME", "xdg/assay"), ("NUMBA_CACHE_DIR", "n"), ("ASSAY_CACHE_DIR", "a")):
        monkeypatch.setenv(variable, str(tmp_path / folder.removesuffix("/assay")))
        assert cache.cache_folder(CPU) == tmp_path / folder / name
    assert cache.cache_folder("generic").name != name


def private(tmp_path: Path) -> Path:
    return tmp_path / "temporary" / f"assay-{os.getuid()}"


@pytest.mark.parametrize("home", ["file/below", "", "relative"])
def test_without_a_home(cache, monkeypatch, tmp_path, home):
    """A home that is not a folder, empty or unknown is replaced by a private temporary folder."""
    monkeypatch.setenv("HOME", str(tmp_path / home) if home == "file/below" else home)
    before = os.umask(0)
    if home == "":
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without an entry in passwd
    try:
        folder = cache.cache_folder(CPU)
    finally:
        os.umask(before)
    assert folder == private(tmp_path) / f"kernels-{cache.kernels_digest(CPU)}"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700] * 2, "whatever the umask"


def make_read_only(monkeypatch: pytest.MonkeyPatch, cache: ModuleType, root: Path) -> None:
    """Make everything below `root` read-only, as in an image; modes would not stop a superuser."""
    genuine = tempfile.TemporaryFile

    def refusing(*, dir: Path) -> object:
        if Path(dir).is_relative_to(root):
            raise OSError(30, "Read-only file system", str(dir))
        return genuine(dir=dir)

    monkeypatch.setattr(cache.tempfile, "TemporaryFile", refusing)


def test_kernels_of_a_read_only_image_are_used(cache, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "image"))
    baked = cache.cache_folder(CPU)
    (baked / "score.kernel").write_bytes(b"code")
    make_read_only(monkeypatch, cache, tmp_path / "image")
    assert cache.cache_folder(CPU) == baked
    other = f"kernels-{cache.kernels_digest('generic')}"
    assert cache.cache_folder("generic") == private(tmp_path) / other, "there are no kernels of that target"
    make_read_only(monkeypatch, cache, tmp_path)
    assert cache.cache_folder("generic") is None
    assert "compiled at every start" in caplog.text


owners = pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes here")


def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every existing file belong to another user."""
    uid = os.getuid() or 1_000

    def owned(look: Any) -> Any:
        def looked(path: Path, **options: Any) -> os.stat_result:
            status = look(path, **options)
            return os.stat_result((*status[:4], uid, *status[5:]))

        return looked

    for name in ("stat", "lstat"):
        monkeypatch.setattr(Path, name, owned(getattr(Path, name)))
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)


@owners
def test_a_temporary_folder_that_is_not_private_is_not_used(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    folder = private(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert cache.cache_folder(CPU) is None
    folder.unlink()
    folder.write_text("")
    assert cache.cache_folder(CPU) is None
    folder.unlink()
    folder.mkdir(mode=0o700)
    as_another_user(monkeypatch)
    folder.rename(private(tmp_path))
    assert cache.cache_folder(CPU) is None


@owners
@pytest.mark.parametrize("mode", [0o1777, 0o770, 0o702])
@pytest.mark.parametrize("below", [False, True], ids=["root", "folder"])
@pytest.mark.parametrize("where", ["ASSAY_CACHE_DIR", "HOME", "temporary"])
def test_a_folder_that_others_can_write_to_is_not_used(cache, monkeypatch, tmp_path, caplog, where, below, mode):
    """Its content would be executed. The next folder is used instead, and the reason is logged."""
    if where == "temporary":
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
    else:
        monkeypatch.setenv(where, str(tmp_path / "chosen"))
    folder = cache.cache_folder(CPU)
    (folder / "planted.kernel").write_bytes(b"anything")
    (folder if below else folder.parent).chmod(mode)
    caplog.clear()
    assert cache.cache_folder(CPU) == (None if where == "temporary" else private(tmp_path) / folder.name)
    assert f"{folder}: others can write to it (mode {mode:04o}; chmod go-w)" in caplog.text
    (folder if below else folder.parent).chmod(0o755)
    assert cache.cache_folder(CPU) == folder, "others may read it"


@owners
def test_a_folder_of_another_user_is_not_used(cache, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "chosen"))
    folder = cache.cache_folder(CPU)
    (folder / "planted.kernel").write_bytes(b"anything")
    if os.getuid() == 0:  # only root can give files away
        for path in (folder, folder.parent):
            os.chown(path, 65534, 65534)
            assert cache.cache_folder(CPU) == private(tmp_path) / folder.name
            os.chown(path, 0, 0)
        assert cache.cache_folder(CPU) == folder
    as_another_user(monkeypatch)
    assert cache.cache_folder(CPU) is None, "everything here belongs to the other"
    assert f"{folder}: it belongs to user " in caplog.text


def test_every_target_has_its_own_folder(compiled, tmp_path):
    """Another CPU, and code with bounds checks, never meet the same machine code."""
    code = "import json; from assay.kernels.compiler import cached as c; print(json.dumps(c() and str(c().path)))"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    folders = set()
    for variable in ("", "NUMBA_CPU_NAME=generic", "NUMBA_BOUNDSCHECK=1", "NUMBA_OPT=1", "NUMBA_DISABLE_JIT=1"):
        name, _, value = (variable or "ASSAY=").partition("=")
        environment = {**inherited, name: value, "ASSAY_CACHE_DIR": str(tmp_path)}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, capture_output=True)
        folders.add(json.loads(ran.stdout))
    assert len(folders) == 5
    assert None in folders, "plain Python keeps nothing"
    assert all(Path(folder).parent == tmp_path for folder in folders - {None})


# Files of machine code: only undamaged files are loaded, and no fault stops a start.

CONTENT = b"machine code " * 10


@pytest.fixture
def folder(tmp_path) -> CodeFolder:
    folder = CodeFolder(tmp_path)
    folder.write("a.kernel", b"purpose", CONTENT)
    return folder


def test_what_was_written_is_read_and_no_damage_is(folder, tmp_path, caplog):
    """Every byte, every length, a pickle without a seal, another purpose, and a file that others could write."""
    assert CodeFolder(tmp_path).read("a.kernel", b"purpose") == CONTENT
    assert folder.read("b.kernel", b"purpose") is None
    assert not caplog.records
    path = tmp_path / "a.kernel"
    whole = path.read_bytes()
    damaged = [whole[:size] for size in range(len(whole))] + [whole + b"\0", pickle.dumps(CONTENT)]
    damaged += [whole[:k] + bytes([whole[k] ^ 1 << k % 8]) + whole[k + 1 :] for k in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        assert folder.read("a.kernel", b"purpose") is None
    assert len(caplog.records) == len(damaged)
    assert "a.kernel cannot be used: it is damaged" in caplog.text
    folder.write("a.kernel", b"purpose", b"other")
    assert folder.read("a.kernel", b"purpose") == b"other"
    assert folder.read("a.kernel", b"another") is None
    path.chmod(0o666)
    assert folder.read("a.kernel", b"purpose") is None
    assert "mode 0666" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == ["a.kernel"]


def test_a_folder_in_the_place_of_a_file(folder, tmp_path, caplog):
    (tmp_path / "b.kernel").mkdir()
    assert folder.read("b.kernel", b"purpose") is None
    folder.write("b.kernel", b"purpose", CONTENT)
    assert "b.kernel cannot be used" in caplog.text
    assert "the kernels are not cached" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kernel", "b.kernel"]


def test_a_full_disk_is_told_once_and_leaves_nothing(tmp_path, caplog, monkeypatch):
    """A whole process with a full disk is in test_start.py."""
    folder = CodeFolder(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    for name in ("a.kernel", "b.kernel"):
        folder.write(name, b"purpose", CONTENT)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the kernels are not cached in {tmp_path}: No space left" in caplog.text
    assert not list(tmp_path.iterdir())
