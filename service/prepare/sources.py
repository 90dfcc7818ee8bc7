"""Finds the files of a source, which may be a folder, and reads their records as examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ..errors import UnreadableInput, UsageError
from ..files.formats import EXTENSIONS, format_of, is_columnar
from ..files.records import FileRecord, open_records
from ..files.rows.rows import BYTE_ORDER_MARK, DocumentError, Fault, Location, Place, json_document, open_source
from ..files.rows.wrong_files import packed_remedy, require_document
from .example import Example
from .forms import read_example, split_named
from .options import Options

__all__ = ["MANIFEST", "SourceFile", "expand", "open_examples"]

MANIFEST = "prepared.json"
"""What this command writes beside its rows."""

SAVED_SPLITS, SAVED_FILES = "dataset_dict.json", "state.json"
"""What `datasets` writes beside the files of a saved data set: the names of its splits, and of the files of a split."""

METADATA = (SAVED_SPLITS, SAVED_FILES, "dataset_info.json", "dataset_infos.json", MANIFEST)
"""Files of a folder that hold no records."""


READ_BYTES = 4096


class SourceFile(NamedTuple):
    """One file of a source."""

    path: str
    name: str
    """Its name in messages."""
    format: str
    split: str | None = None
    """The split that its folder, or its name inside a folder, says; None for a file that is a source itself."""


def expand(sources: Sequence[str]) -> list[SourceFile]:
    """Return the files of the sources, those of a folder sorted by name.

    A folder is a data set that `datasets` saved, or holds files of records at any depth; its other files are ignored.
    Raises UsageError for a source that does not exist or has no records, and for a file that two sources have.
    """
    files: list[SourceFile] = []
    for source in sources:
        path = Path(source)
        if not path.exists():
            raise UsageError(f"{source}: there is no such file or folder")
        found = files_in(path, None) if path.is_dir() else [source_file(path, None)]
        if not found:
            raise UsageError(f"{source}: no file in this folder ends in {', '.join(EXTENSIONS)}")
        files += found
    known: set[Path] = set()
    for file in files:
        if (target := Path(file.path).resolve()) in known:
            raise UsageError(f"{file.path}: this file is named twice")
        known.add(target)
    return files


def source_file(path: Path, split: str | None) -> SourceFile:
    """Return a file of records; raises UsageError if its format is unknown, or the package for it is missing."""
    if path.suffix.lower() not in EXTENSIONS:
        if (remedy := packed_remedy(str(path))) is not None:
            raise UnreadableInput(f"{path}: {remedy}")
        raise UsageError(f"{path}: the extension is not one of {', '.join(EXTENSIONS)}")
    return SourceFile(str(path), str(path), format_of(str(path), None, ""), split)


def files_in(folder: Path, split: str | None) -> list[SourceFile]:
    """Return the files of records in a folder; raises UsageError as `source_file` and `saved_files` do."""
    if (folder / SAVED_SPLITS).is_file():
        splits = metadata(folder / SAVED_SPLITS, "splits", str)
        return [file for name in sorted(splits) for file in files_in(folder / name, name)]
    if (folder / SAVED_FILES).is_file():
        return saved_files(folder, split)
    found: list[SourceFile] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in METADATA:
            continue
        if path.is_dir() and not path.is_symlink():
            found += files_in(path, split_named(path.name) or split)
        elif path.is_file() and path.suffix.lower() in EXTENSIONS:
            found.append(source_file(path, split_named(path.stem) or split))
    return found


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
        listed = orjson.loads(path.read_bytes()).get(name) or []
    except (orjson.JSONDecodeError, AttributeError):
        raise UsageError(f"{path}: it is not a JSON object") from None
    if not isinstance(listed, list) or not all(isinstance(entry, kind) for entry in listed):
        raise UsageError(f"{path}: {name} is not as datasets writes it")
    return listed


@contextmanager
def open_examples(
    file: SourceFile, options: Options, max_line_bytes: int
) -> Iterator[Iterator[Example | tuple[Place, Fault]]]:
    """Open a file; yield an example of each record, or its place and the fault that prevents it.

    Raises DocumentError, here or while the records are read, if the file is malformed as a whole, and OSError.
    """
    single = single_record(file)
    if single is not None:
        yield examples(file, iter([single]), options)
        return
    with open_records(file.path, file.format, max_line_bytes) as (records, _):
        yield examples(file, records, options)


def examples(
    file: SourceFile, records: Iterator[FileRecord], options: Options
) -> Iterator[Example | tuple[Place, Fault]]:
    """Yield what `open_examples` does."""
    for record in records:
        place = Place(file.name, record.location)
        value = json_value(record.value) if is_columnar(file.format) else record.value
        found = record.fault or read_example(value, place, options)
        yield (place, found) if isinstance(found, Fault) else found


def json_value(value: Any) -> Any:
    """Return a row of columns as a JSON file has it: times and decimals are text, bytes are base64."""
    from ..files.columns.source import json_text_of  # needs the extra

    return orjson.loads(json_text_of(value))


def single_record(file: SourceFile) -> FileRecord | None:
    """Return the record of a JSON file that is one object without an array `records`; None for any other file."""
    if file.format != "json":
        return None
    if not begins_with_object(file.path):
        return None
    content = Path(file.path).read_bytes()
    document = json_document(content)
    require_document(document, file.path)
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    if isinstance(value.get("records"), list):
        return None
    return FileRecord(Location("record", 0), value, None, len(content))


def begins_with_object(path: str) -> bool:
    """Return whether a JSON file begins with an object; of an array, which may be large, only the beginning is read."""
    with open_source(path, "json") as (stream, _):
        start = stream.read(READ_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip()
        while not start and (more := stream.read(READ_BYTES)):
            start = more.lstrip()
    return start.startswith(b"{")
