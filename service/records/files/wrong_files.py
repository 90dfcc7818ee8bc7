"""Recognizes files that are not in the format that they are read as, and says which command makes them readable."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from ...whole_files import open_nonblocking

HEAD_BYTES = 2**16
"""Bytes of a file that are looked at, at most."""

PACKED = {
    b"\x1f\x8b": ("gzip", ".gz", "gunzip"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst", "unzstd"),
    b"BZh": ("bzip2", ".bz2", "bunzip2"),
    b"\xfd7zXZ\x00": ("xz", ".xz", "unxz"),
}
"""Compressions by what their files begin with: the name, the extension, and the command that unpacks its input."""

ENCODED = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"{\x00": "UTF-16LE",
    b"[\x00": "UTF-16LE",
    b"\x00{": "UTF-16BE",
    b"\x00[": "UTF-16BE",
}
"""Encodings by what their files begin with: a byte order mark, or a bracket."""

COLUMNAR = {
    b"PAR1": ("Parquet", "parquet"),
    b"ARROW1": ("Arrow", "arrow"),
    b"\xff\xff\xff\xff": ("an Arrow stream", "arrows"),
}

OTHERS = {
    b"PK\x03\x04": "a zip archive: unzip it, and name the file inside",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: run `git lfs pull` where it was cloned",
    b"<!DOCTYPE html": "a web page, not the file itself: download the raw file",
    b"<html": "a web page, not the file itself: download the raw file",
}

FROM_LATIN_1 = "if the file is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class DocumentError(ValueError):
    """A file is malformed as a whole, so that it has no rows."""


class WrongFile(DocumentError):
    """A file is in another format, encoding or compression; the sentence ends with the command to type."""


def require_end(source: str) -> None:
    """Raise WrongFile for a device, such as /dev/zero, which may have no end; a terminal and /dev/null have one."""
    status = os.stat(source)
    if stat.S_ISBLK(status.st_mode) or (stat.S_ISCHR(status.st_mode) and not os.path.samefile(source, os.devnull)):
        descriptor = open_nonblocking(source, os.O_RDONLY)
        is_terminal = os.isatty(descriptor)
        os.close(descriptor)
        if not is_terminal:
            raise WrongFile("it is a device, which may have no end")


def beginning_of(stream: BinaryIO) -> bytes:
    """Return up to `HEAD_BYTES` of a stream, which stay unread."""
    if hasattr(stream, "peek"):
        return bytes(stream.peek(HEAD_BYTES)[:HEAD_BYTES])
    if not stream.seekable():
        return b""
    start = stream.tell()
    head = stream.read(HEAD_BYTES)
    stream.seek(start)
    return head


def require_json(head: bytes, source: str, fmt: str | None) -> None:
    """Raise WrongFile unless a file that begins like this may be JSON or JSONL.

    source: its path; "-" for standard input. fmt: `json`, `jsonl`, or None for either.
    """
    if (sentence := unreadable(head, source)) is not None:
        raise WrongFile(sentence)
    for magic, (name, columnar) in COLUMNAR.items():
        if head.startswith(magic):
            raise WrongFile(f"it is {name}, not {fmt.upper() if fmt else 'JSON'}: {read_as(source, columnar)}")
    if b"\x00" in (head if is_control(head[:1]) else head.partition(b"\n")[0]):
        shown = "" if source == "-" else f"; `file {quote(source)}` says what it is"
        raise WrongFile(f"it is a binary file, not {fmt.upper() if fmt else 'JSON'}{shown}")
    if fmt == "jsonl":
        _require_lines(head.removeprefix(BYTE_ORDER_MARK).lstrip(), source)


def require_document(document: str, source: str) -> None:
    """Raise WrongFile for a JSON document that is empty or has objects on lines of their own."""
    if not (start := document.lstrip()):
        raise WrongFile("it is empty")
    if _begins_with_lines(start):
        raise WrongFile(f"it is JSONL, one object a line: {read_as(source, 'jsonl')}")


def require_columnar(head: bytes, source: str) -> None:
    """Raise WrongFile unless a file that begins like this may be Parquet or Arrow."""
    if not head:
        raise WrongFile("it is empty, and so neither Parquet nor Arrow")
    if (sentence := unreadable(head, source)) is not None:
        raise WrongFile(sentence)
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
    if start in (b"{", b"["):
        fmt = "json" if start == b"[" else "jsonl"
        raise WrongFile(f"it is {fmt.upper()}, neither Parquet nor Arrow: {read_as(source, fmt)}")


def is_control(start: bytes) -> bool:
    """Return whether a byte neither is ASCII that is printed nor whitespace."""
    return bool(start) and not (start.isspace() or 0x20 <= start[0] < 0x7F)


def unreadable(head: bytes, source: str) -> str | None:
    """Return what is wrong with a file that begins like this in any format; None if that is not known."""
    for magic, (name, _, unpack) in PACKED.items():
        if head.startswith(magic):
            return f"it is compressed with {name}: {_through(unpack, source, 'unpacked')}"
    for mark, encoding in ENCODED.items():
        if head.startswith(mark):
            return f"it is {encoding}, not UTF-8: {_through(f'iconv -f {encoding} -t UTF-8', source, 'utf8')}"
    return next((f"it is {what}" for magic, what in OTHERS.items() if head.startswith(magic)), None)


def text_fault(text: bytes) -> str | None:
    """Return what is wrong with a row that is not JSON, as the end of a sentence, and what to do; None if unknown."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (its byte {error.start + 1}); {FROM_LATIN_1}"
    if several_values(decoded):
        return "has several JSON objects; write one on each line: jq -c . FILE > NEW_FILE"
    return None


def several_values(text: str) -> bool:
    """Return whether a text is a JSON object that another one follows, perhaps after a comma."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text.startswith("{") and text[end:].lstrip(" \t,").startswith("{")


def read_as(source: str, fmt: str) -> str:
    """Return how to have a file read in its format: by its name, or by the flag."""
    path = Path(source)
    if source == "-" or path.suffix.lower() == f".{fmt}":
        return f"pass --input-format {fmt}"
    return f"mv {quote(source)} {quote(os.fspath(path.with_suffix(f'.{fmt}')))}"


def _require_lines(start: bytes, source: str) -> None:
    """Raise WrongFile if a file that begins like this, without whitespace, has JSON over several lines."""
    line, end, following = start.partition(b"\n")
    line = line.strip()
    if line.startswith(b"[") and line[1:].lstrip()[:1] in (b"", b"{", b"]"):
        convert = _through("jq -c '.[]'", source, "rows")
        raise WrongFile(f"it is one JSON array, not JSONL: {read_as(source, 'json')}, or {convert}")
    if line == b"{" or (line.startswith(b"{") and end and _ends_later(line, following)):
        raise WrongFile(f"its JSON objects span several lines: {_through('jq -c .', source, 'rows')}")


def _ends_later(line: bytes, following: bytes) -> bool:
    """Return whether an object that a line begins ends on a line after it."""
    if not line.endswith((b",", b"{", b"[", b":")):
        return False
    try:
        json.JSONDecoder().raw_decode((line + b"\n" + following).decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _begins_with_lines(start: str) -> bool:
    """Return whether a document begins with two objects on consecutive lines."""
    line, _, following = start.partition("\n")
    if not (line.startswith("{") and following.lstrip().startswith("{")):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def packed_remedy(path: str) -> str | None:
    """Return how to make a readable file of one whose extension says that it is packed; None for other extensions."""
    log = Path(path)
    if log.suffix.lower() == ".eval":
        target = os.fspath(log.with_suffix(".json"))
        return f"it is a log of Inspect: inspect log dump {quote(path)} > {quote(target)}"
    for name, suffix, unpack in PACKED.values():
        if Path(path).suffix.lower() == suffix:
            return f"it is compressed with {name}: {_through(unpack, path, 'unpacked')}"
    return None


def _through(command: str, source: str, name: str) -> str:
    """Return the shell command that makes a readable file of this one with a filter.

    name: added to the name of the new file, unless this file has the extension of a compression.
    """
    if source == "-":
        return f"pipe it through {command}"
    path = Path(source)
    if path.suffix.lower() in {suffix for _, suffix, _ in PACKED.values()}:
        target = path.with_suffix("")
    else:
        target = path.with_name(f"{path.stem}-{name}{path.suffix}")
    return f"{command} < {quote(source)} > {quote(os.fspath(target))}"
