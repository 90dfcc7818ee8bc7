"""Opens files of every format, on their own or in folders, and yields their records one by one.

JSONL, a JSON array, an object with an array `records`, a request of POST /v1/score, a log of Inspect, a single record,
Parquet and Arrow.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

import orjson

from ...errors import UnreadableInput, UsageError
from ...whole_files import MEBIBYTE, read_whole, shown_size
from ...wording import in_this_shell, install_command
from ..rows.forms import is_request, request_rows
from ..rows.rows import Fault, Location, Record
from .wrong_files import (
    BYTE_ORDER_MARK,
    FROM_LATIN_1,
    HEAD_BYTES,
    DocumentError,
    WrongFile,
    beginning_of,
    packed_remedy,
    require_document,
    require_end,
    require_json,
    text_fault,
)

COLUMNAR = ("parquet", "arrow", "arrows")
"""`arrow` is an IPC file, `arrows` an IPC stream; when reading, the first bytes decide."""

FORMATS = ("jsonl", "json", *COLUMNAR)

EXTENSIONS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".feather": "arrow"} | {f".{fmt}": fmt for fmt in FORMATS[1:]}

MAX_LINE_BYTES = 64 * 2**20
MAX_DOCUMENT = 2**31  # bytes of a JSON document, which is read whole
MAX_METADATA = 64 * MEBIBYTE

JSON_WHITESPACE = " \t\r\n"
SCANNER = json.JSONDecoder(parse_int=float)
"""Finds the end of a value; accepts integers of any length."""

MANIFEST = "assay.json"
"""The file that `assay prepare` writes beside its rows."""

SAVED_SPLITS, SAVED_FILES = "dataset_dict.json", "state.json"
"""Files of a data set that `datasets` saved, with the names of its splits, and of the files of a split."""

METADATA = (SAVED_SPLITS, SAVED_FILES, "dataset_info.json", "dataset_infos.json", MANIFEST)
"""Files of a folder that hold no records."""


SPLIT = re.compile(r"(?:.+[-_.])?(train|test|validation|valid|val|dev|eval)([-_.]\d+-of-\d+)?", re.IGNORECASE)
"""Names of folders and files that name a split, perhaps of a part of one, as on the Hugging Face hub: `PQA_test`."""


class SourceFile(NamedTuple):
    """A file to read; "-" is standard input."""

    path: str
    format: str
    """One of `FORMATS`; empty if the first line tells JSON from JSONL."""
    max_line_bytes: int = MAX_LINE_BYTES
    split: str | None = None
    """The split that its folder, or its name inside a folder, says; None for a file that is a source itself."""
    rows: Callable[[], Iterator[Record]] | None = None
    """Yields the records, if they are not those in the file as they are."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return source_name(self.path)

    @property
    def kind(self) -> str:
        """The word for a field of its records in messages."""
        return "column" if is_columnar(self.format) else "field"


class Records(NamedTuple):
    """The records of an open file."""

    rows: Iterator[Record]
    size: int | None
    """For `Progress`; None if it is unknown."""
    document: str = ""
    """The text of a JSON object."""
    columns: dict[str, Any] | None = None
    """The names of columns; names of structs hold the names of their fields."""
    file: Any = None
    """The open file of columns."""


def format_of(path: str, explicit: str | None, flag: str, extra: str = "arrow") -> str:
    """Return the explicit format, or else the format of the file extension; "-" is JSONL.

    Raises UsageError if the extension is unknown (names the flag) or pyarrow is missing (names the command for it).
    """
    fmt = explicit or ("jsonl" if path == "-" else EXTENSIONS.get(Path(path).suffix.lower()))
    if fmt is None:
        if (remedy := packed_remedy(path)) is not None:
            raise UnreadableInput(f"{path}: {remedy}")
        unknown = f"{path}: the extension is not one of {', '.join(EXTENSIONS)}"
        raise UsageError(f"{unknown}; name the format with {flag} ({', '.join(FORMATS)})" if flag else unknown)
    if is_columnar(fmt) and find_spec("pyarrow") is None:
        raise UsageError(f"{path}: Parquet and Arrow need pyarrow: {in_this_shell(install_command(extra))}")
    return fmt


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; raises OSError."""
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def is_columnar(fmt: str) -> bool:
    """Return whether a format is Parquet or Arrow."""
    return fmt in COLUMNAR


def source_name(source: str) -> str:
    """Return the name of a file in messages: its path, or `stdin` for standard input ("-")."""
    return "stdin" if source == "-" else source


def source_title(source: str) -> str:
    """Return the name of a file in a report: without its directory."""
    return "standard input" if source == "-" else PurePath(source).name


@contextmanager
def open_records(source: SourceFile, columns: Iterable[str] | None = None, as_json: bool = False) -> Iterator[Records]:
    """Open a file and yield its records.

    columns: names of columns that are needed, as far as the file has them; None for all. as_json: whether rows of
    columns have the values that a JSON file has: times and decimals are text, bytes are base64.
    Raises DocumentError if the file is malformed as a whole, here or while its records are read.
    """
    if source.rows is not None:
        yield Records(source.rows(), None)
        return
    if is_columnar(source.format):
        from .columns import nested_names, open_columns  # needs the extra

        with open_columns(source.path) as file:
            values = enumerate(file.records(columns), 1)
            read = json_record if as_json else Record
            rows = (read(Location("row", number), value) for number, value in values)
            yield Records(rows, file.rows, columns=nested_names(file.schema), file=file)
        return
    with open_source(source.path, source.format or None) as (stream, size):
        first = b"" if source.format else stream.readline(source.max_line_bytes + 1)
        if source.format == "jsonl" or is_row(first):
            yield Records(jsonl_rows(stream, source.max_line_bytes, first), size)
            return
        document = json_document(first + rest_of_document(stream, size))
        require_document(document, source.path)
        if document.lstrip(JSON_WHITESPACE).startswith("["):
            yield Records(array_rows(document), size)
        else:
            document = with_nulls(document.encode()).decode()
            yield Records(object_rows(document), size, document)


def is_row(line: bytes) -> bool:
    """Return whether a line is a complete row, not a document or a part of one."""
    try:
        value = orjson.loads(with_nulls(line.removeprefix(BYTE_ORDER_MARK)))
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and not is_request(value)


def with_nulls(text: bytes) -> bytes:
    """Return JSON with null in place of NaN and the infinities, which Python and pandas write beside texts.

    Any other text is returned as it is, also one that is no JSON for another reason.
    """
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    with suppress(orjson.JSONDecodeError):
        orjson.loads(text)
        return text  # a string has the word
    try:
        return orjson.dumps(json.loads(text, parse_constant=lambda _: None))
    except (ValueError, TypeError, RecursionError):
        return text


def json_record(location: Location, row: dict[str, Any]) -> Record:
    """Return a row of columns as a JSON file has it."""
    from .columns import json_text_of  # needs the extra

    text = json_text_of(row)
    return Record(location, orjson.loads(text), text=text)


@contextmanager
def open_source(source: str, fmt: str | None) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open a file of JSON or JSONL, or standard input ("-"); yield the binary stream and its size, None if unknown.

    fmt: `json`, `jsonl`, or None for either. Raises DocumentError for a file that is recognized as another format.
    """
    if source == "-":
        require_json(beginning_of(sys.stdin.buffer), source, fmt)
        yield sys.stdin.buffer, None
        return
    require_end(source)
    with open(source, "rb", HEAD_BYTES) as stream:
        require_json(beginning_of(stream), source, fmt)
        yield stream, os.fstat(stream.fileno()).st_size or None


def jsonl_rows(stream: BinaryIO, max_line_bytes: int, first: bytes = b"") -> Iterator[Record]:
    """Yield the lines that are not blank; `first` is a line that has been read already.

    A line of more than `max_line_bytes` bytes, without its end, is skipped and never held in memory.
    """
    number = 0
    while line := first or stream.readline(max_line_bytes + 1):
        first = b""
        number += 1
        size = len(line)
        location = Location("line", number)
        if size > max_line_bytes and not line.endswith(b"\n"):
            while part := stream.readline(2**20):
                size += len(part)
                if part.endswith(b"\n"):
                    break
            fault = Fault("line_too_long", f"the line has more than {max_line_bytes} bytes")
            yield Record(location, None, fault, size)
            continue
        text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip()
        if text:
            yield decoded(location, text, size)


def rest_of_document(stream: BinaryIO, size: int | None) -> bytes:
    """Read a stream to its end; raises WrongFile for a document of more than MAX_DOCUMENT bytes."""
    if size is not None and size <= MAX_DOCUMENT:
        return stream.read()
    parts, length = [], 0
    while length <= MAX_DOCUMENT and size is None and (part := stream.read(MEBIBYTE)):
        parts.append(part)
        length += len(part)
    if size is not None or length > MAX_DOCUMENT:
        raise WrongFile(f"it has more than {shown_size(MAX_DOCUMENT)}; JSON Lines may have any number of rows")
    return b"".join(parts)


def json_document(content: bytes) -> str:
    """Decode a JSON document; raises DocumentError if it is not UTF-8."""
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start}; {FROM_LATIN_1}") from None


def array_rows(document: str) -> Iterator[Record]:
    """Yield the elements of the array in a JSON document as they are written, each on one line.

    Raises DocumentError if the array or an element is malformed.
    """
    start = _skip_whitespace(document, document.index("[") + 1)
    end = start
    if document[start : start + 1] != "]":
        for number in itertools.count(1):
            end = _end_of_value(document, start, number)
            text = document[start:end].replace("\n", " ").replace("\r", " ").encode()
            yield decoded(Location("record", number), text, len(text))
            end = _skip_whitespace(document, end)
            if document[end : end + 1] == "]":
                break
            if document[end : end + 1] != ",":
                raise DocumentError(f"expected a comma or a closing bracket after record {number}")
            start = _skip_whitespace(document, end + 1)
    if document[end + 1 :].strip(JSON_WHITESPACE):
        raise DocumentError("unexpected text after the array")


def _end_of_value(document: str, start: int, number: int) -> int:
    try:
        _, end = SCANNER.raw_decode(document, start)
    except (ValueError, RecursionError):
        raise DocumentError(f"record {number} is not JSON") from None
    return end


def _skip_whitespace(document: str, pos: int) -> int:
    while pos < len(document) and document[pos] in JSON_WHITESPACE:
        pos += 1
    return pos


def object_rows(document: str) -> Iterator[Record]:
    """Yield the records of a JSON object: those in its array `records`, the rows of a request, or the object itself.

    Of a log of Inspect, they are its samples.
    """
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    if not isinstance(value, dict):
        raise DocumentError("neither an array of records nor an object with an array `records`")
    listed = value.get("samples" if is_inspect_log(value) else "records")
    if not isinstance(listed, list):
        listed = request_rows(value) if is_request(value) else [value]
    for number, record in enumerate(listed, 1):
        size = len(document) // len(listed)
        yield Record(Location("record", number), record, None, size, orjson.dumps(record))


def is_inspect_log(value: Any) -> bool:
    """Return whether a JSON value is a log of Inspect with samples."""
    return isinstance(value, dict) and isinstance(value.get("samples"), list) and "eval" in value


def decoded(location: Location, text: bytes, size: int) -> Record:
    """Return the record in a row, or its fault: parsed strictly (RFC 8259, no lone surrogates), but NaN is null."""
    text = with_nulls(text)
    try:
        return Record(location, orjson.loads(text), None, size, text)
    except orjson.JSONDecodeError as error:
        recognized = text_fault(text) or f"is not JSON ({error.msg}, column {error.colno})"
        fault = Fault("not_json", f"{location.kind} {location.number} {recognized}")
        return Record(location, None, fault, size, text)


def expand(sources: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES) -> list[SourceFile]:
    """Return the files of the sources; the files of a folder are sorted by name.

    A folder is a data set that `datasets` saved, or holds files of records at any depth; its other files are ignored.
    Raises UsageError for a source that does not exist or has no records, and for a file that two sources have.
    """
    files: list[SourceFile] = []
    for source in sources:
        path = Path(source)
        if not path.exists():
            raise UsageError(f"{source}: there is no such file or folder")
        in_source = files_in(path, None) if path.is_dir() else [source_file(path, None)]
        if not in_source:
            raise UsageError(f"{source}: no file in this folder ends in {', '.join(EXTENSIONS)}")
        files += (file._replace(max_line_bytes=max_line_bytes) for file in in_source)
    targets: set[Path] = set()
    for file in files:
        if (target := Path(file.path).resolve()) in targets:
            raise UsageError(f"{file.path}: this file is named twice")
        targets.add(target)
    return files


def source_file(path: Path, split: str | None) -> SourceFile:
    return SourceFile(str(path), format_of(str(path), None, ""), split=split)


def files_in(folder: Path, split: str | None) -> list[SourceFile]:
    """Return the files of records in a folder; raises UsageError as `source_file` and `saved_files` do."""
    if (folder / SAVED_SPLITS).is_file():
        splits = metadata(folder / SAVED_SPLITS, "splits", str)
        return [file for name in sorted(splits) for file in files_in(folder / name, name)]
    if (folder / SAVED_FILES).is_file():
        return saved_files(folder, split)
    files: list[SourceFile] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in METADATA:
            continue
        if path.is_dir() and not path.is_symlink():
            files += files_in(path, split_named(path.name) or split)
        elif path.is_file() and path.suffix.lower() in EXTENSIONS:
            files.append(source_file(path, split_named(path.stem) or split))
    return files


def saved_files(folder: Path, split: str | None) -> list[SourceFile]:
    """Return the files that `Dataset.save_to_disk` wrote, in the order of their rows.

    Raises UsageError if one is missing, or if a file of indices chooses rows of them, as old versions wrote it.
    """
    state = folder / SAVED_FILES
    names = [entry.get("filename") for entry in metadata(state, "_data_files", dict)]
    if any(metadata(state, name, dict) for name in ("_indices_data_files", "_indices_files")):
        raise UsageError(f"{folder}: its rows are chosen by a file of indices; save it after flatten_indices()")
    files = []
    for name in names:
        if not isinstance(name, str) or not (folder / name).is_file():
            raise UsageError(f"{state}: it names a file that is missing")
        files.append(source_file(folder / name, split))
    return files


def metadata(path: Path, name: str, kind: type) -> list[Any]:
    """Return a list in a JSON file of `datasets`, empty if it is missing; raises UsageError if it is malformed."""
    try:
        listed = orjson.loads(read_whole(path, MAX_METADATA)).get(name) or []
    except (orjson.JSONDecodeError, AttributeError):
        raise UsageError(f"{path}: it is not a JSON object") from None
    if not isinstance(listed, list) or not all(isinstance(entry, kind) for entry in listed):
        raise UsageError(f"{path}: {name} is not as datasets writes it")
    return listed


def split_named(name: str) -> str | None:
    """Return the split that the name of a folder or of a file without its extension says, None if it says none."""
    match = SPLIT.fullmatch(name)
    return match[1].lower() if match else None
