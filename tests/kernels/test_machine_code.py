"""Files of machine code: only undamaged files are loaded, and no fault stops a start."""

from __future__ import annotations

import os
import pickle
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.kernels.compiler import CodeFolder

pytestmark = pytest.mark.attack

CONTENT = b"machine code " * 10


@pytest.fixture
def folder(tmp_path) -> CodeFolder:
    folder = CodeFolder(tmp_path)
    folder.write("a.kernel", b"purpose", CONTENT)
    return folder


def test_what_was_written_is_read(folder, tmp_path, caplog):
    assert folder.read("a.kernel", b"purpose") == CONTENT
    assert CodeFolder(tmp_path).read("a.kernel", b"purpose") == CONTENT
    assert folder.read("b.kernel", b"purpose") is None
    folder.write("a.kernel", b"purpose", b"other")
    assert folder.read("a.kernel", b"purpose") == b"other"
    assert [path.name for path in tmp_path.iterdir()] == ["a.kernel"]
    assert folder.read("a.kernel", b"another") is None
    (tmp_path / "a.kernel").rename(tmp_path / "b.kernel")
    assert folder.read("b.kernel", b"purpose of b") is None
    assert "b.kernel cannot be used: it is damaged" in caplog.text


def test_no_damage_is_read(folder, tmp_path, caplog):
    """Every bit, every length, and a pickle without a seal."""
    path = tmp_path / "a.kernel"
    whole = path.read_bytes()
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1 << index % 8]) + whole[index + 1 :])
        assert folder.read("a.kernel", b"purpose") is None
        path.write_bytes(whole[:index])
        assert folder.read("a.kernel", b"purpose") is None
    for damaged in (whole + b"\0", pickle.dumps(CONTENT)):
        path.write_bytes(damaged)
        assert folder.read("a.kernel", b"purpose") is None
    assert len(caplog.records) == 2 * len(whole) + 2
    path.write_bytes(whole)
    assert folder.read("a.kernel", b"purpose") == CONTENT


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes here")
def test_a_file_that_others_could_write_is_not_read(folder, tmp_path, caplog):
    (tmp_path / "a.kernel").chmod(0o666)
    assert folder.read("a.kernel", b"purpose") is None
    assert "mode 0666" in caplog.text


def test_a_folder_in_the_place_of_a_file(folder, tmp_path, caplog):
    (tmp_path / "b.kernel").mkdir()
    assert folder.read("b.kernel", b"purpose") is None
    folder.write("b.kernel", b"purpose", CONTENT)
    assert "b.kernel cannot be used" in caplog.text
    assert "the kernels are not cached" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kernel", "b.kernel"]


@contextmanager
def full_disk():
    """No file of this process can grow beyond 100 bytes: pytest's own output neither, so only for a moment."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_told_once_and_leaves_nothing(tmp_path, caplog):
    folder = CodeFolder(tmp_path)
    with full_disk():
        for name in ("a.kernel", "b.kernel"):
            folder.write(name, b"purpose", CONTENT)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the kernels are not cached in {tmp_path}: File too large" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_folder_that_goes_away(folder, tmp_path, caplog):
    Path(tmp_path / "a.kernel").unlink()
    tmp_path.rmdir()
    assert folder.read("a.kernel", b"purpose") is None
    folder.write("a.kernel", b"purpose", CONTENT)
    assert "No such file or directory" in caplog.text
    tmp_path.mkdir()
