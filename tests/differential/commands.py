"""Command lines of `assay`, each in a folder of its own, with what they print and write."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import samples
from .samples import CODE, KEY, PERFECT, PROGRAM, REFERENCES, RESPONSES, STEPS, SWAPPED

LINES = Path(__file__).with_name("commands.txt")

UNSTEADY = r"(?<=in )[\d.]+(?= s\b)|(?<=after )[\d.]+(?= s\b)|\d{4}-\d\d-\d\d \d\d:\d\d|(?<=kernels-)\w+"
"""Times, and the digest of the kernels."""


def tables() -> dict[str, list[Any]]:
    """Return the rows of every file that a command line reads, by its name."""
    rollouts = samples.example("rollouts.jsonl")
    answers = {}
    for name in ("pqa", "ord", "err"):
        reference = next(record for record in REFERENCES[f"bioprobench.{name}"] if isinstance(record, dict))
        responses = enumerate(RESPONSES[f"bioprobench.{name}"])
        answers[name] = [
            {**reference, "generated_response": text, "type": f"t{k % 2}", "id": k} for k, text in responses
        ]
    dumps = [{"input": "?", "output": row["response"], "gts": row["reference"], "score_task": 0} for row in rollouts]
    programs = enumerate(RESPONSES["bioplanner"])
    return {
        **samples.PUBLISHED,
        **answers,
        "rollouts": rollouts,
        "own": samples.example("grpo_tiny/protocols.jsonl"),
        "other": [{**row, "response": rollouts[k - 1]["response"]} for k, row in enumerate(rollouts)],
        "labelled": [{**row, "human": k % 4} for k, row in enumerate(rollouts)],
        "mixed": samples.mixed_rows(),
        "verl": [{**row, "score": 0.5, "step": 1} for row in dumps],
        "renamed": [{"output": row["output"], "gold": row["gts"], "meta": {"gold": row["gts"]}} for row in dumps],
        "gen": [{**row, "generated_response": "1. Weigh it.\n2. Pour."} for row in samples.PUBLISHED["gen-records"]],
        "bioplanner": [{"ground_truth": PROGRAM, "id": k, **CODE, "prediction_code": text} for k, text in programs],
        "llam": [{"criterion": "Coherence", "responses": ["4", "5", "- Coherence: 3", "?"]}, {"criterion": "x"}],
        "references": [KEY, PERFECT, STEPS, "x"],
        "empty": [],
    }


REQUEST = {"responses": [PERFECT, SWAPPED], "references": [KEY], "include": ["components", "advantages"]}
BROKEN = [{"response": SWAPPED, "reference": KEY}, {"response": 5, "reference": KEY}, {"reference": "x"}, [], None]
DOCUMENTS: dict[str, Any] = {
    "request": REQUEST | {"config": {"order": "lcs"}},
    "bad-request": REQUEST | {"responses": [5], "references": ["x", {}], "config": {"ordr": 1}, "task": "nope"},
    "mixed-request": samples.MIXED,
    "explain": {"response": SWAPPED, "reference": KEY, "config": {"order": "lcs"}, "suggestions": 1},
    "grid": [{"name": "lenient", "min_coverage": 0.5}, {"order": ["strict", "lcs"], "position_decay": [1, 1.5]}],
    "bad": [{"ordr": 1, "min_coverage": [2, 0.5]}],
}
TEXTS = {
    "broken.jsonl": "\n".join([*map(json.dumps, BROKEN), "{", '{"response": "\\ud83d", "reference": "x"}', "", "[]"]),
    "grid.toml": '[[configs]]\nname = "raw"\nreward_scale = "raw"\n\n[[configs]]\nmax_steps = [2, 9]\n',
    "settings.toml": '[score]\norder = "lcs"\n\n[server]\nport = 9000\n',
    "bad.toml": 'order = "lcs"\n[score]\nordr = 1\nport = 1\n[sever]\n',
    "rollouts.txt": "x",
    "old.jsonl": '{"old": 1}\n',
    "cut.jsonl": '{"old": 1',
}


def write_files(folder: Path) -> None:
    for name, rows in tables().items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        if name in ("rollouts", "mixed", "own"):
            table = pa.Table.from_pylist(rows)
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=7)
            for suffix, writer in {"arrow": pa.ipc.new_file, "arrows": pa.ipc.new_stream}.items():
                with writer(folder / f"{name}.{suffix}", table.schema) as file:
                    file.write_table(table, max_chunksize=7)
    for name, document in DOCUMENTS.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")


def entry_point() -> Any:
    """Return the function behind the console script of the checkout under test."""
    import assay

    assert assay.__file__
    scripts = tomllib.loads(Path(assay.__file__).with_name("pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["assay"].partition(":")
    return getattr(import_module(module), function)


def run(start: Any, line: str, folder: Path) -> int:
    """Run a command line in a forked process, where nothing has to be loaded again; return its exit code."""
    words = shlex.split(line)
    environ = {}
    while "=" in words[0]:
        name, _, environ[name] = words.pop(0).partition("=")
    source = words[-1] if "<" in words else os.devnull
    arguments = words[: words.index("<")] if "<" in words else words
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        os.chdir(folder)
        os.environ.update(environ)
        writing = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        for number, path in enumerate((source, "../stdout", "../stderr")):
            os.dup2(os.open(path, writing if number else os.O_RDONLY), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "rww"[number], closefd=False) for number in range(3))
        sys.argv = ["assay", *arguments]
        sys.modules["__main__"].__package__ = None  # for messages, which name the program
        try:
            start()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def content(path: Path, folder: Path) -> str:
    """Return a file as text without times, or the bytes of a table."""
    data = path.read_bytes()
    if path.suffix in (".parquet", ".arrow", ".feather", ".arrows"):
        return f"{len(data)} bytes: {data.hex()}"
    text = data.decode("utf-8", "backslashreplace")
    return re.sub(UNSTEADY, "…", text).replace(str(folder), "FOLDER").replace(sys.executable, "PYTHON")


def record_commands() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every command line with its exit code, what it prints, and every file that it writes."""
    import assay

    for name in [name for name in os.environ if name.startswith("ASSAY_") and name != "ASSAY_CACHE_DIR"]:
        del os.environ[name]
    os.environ |= {"COLUMNS": "120", "NO_COLOR": "1", "TZ": "UTC"}
    assay.Scorer()  # loads the kernels once instead of in every command
    for library in ("datasketch", "jinja2", "nltk", "pyarrow.parquet", "rich.table"):
        import_module(library)
    start = entry_point()
    with TemporaryDirectory() as top:
        files = Path(top) / "files"
        files.mkdir()
        write_files(files)
        for suffix in ("jsonl", "parquet"):
            run(start, f"score rollouts.jsonl -q --include components -o scored.{suffix}", files)
        before = {path: path.read_bytes() for path in files.iterdir()}
        folder = Path(top) / "work"
        for line in filter(None, LINES.read_text(encoding="utf-8").split("\n")):
            shutil.copytree(files, folder)
            code = run(start, line, folder)
            written = {
                str(path.relative_to(folder)): content(path, Path(top))
                for path in sorted(folder.rglob("*"))
                if path.is_file() and path.read_bytes() != before.get(files / path.name)
            }
            printed = {name: content(Path(top) / name, Path(top)) for name in ("stdout", "stderr")}
            yield line, {"code": code, **printed, "files": written}
            shutil.rmtree(folder)
            for name in printed:
                (Path(top) / name).unlink()
