"""Compare two checkouts of Assay by their outer faces: HTTP, command line, files and public names.

    python -m tests.differential record FOLDER     record the checkout that `import assay` finds
    python -m tests.differential compare OLD NEW   print every difference between two such folders
    python -m tests.differential batches           the faces of one checkout against each other
    python -m tests.differential against COMMIT    all of this: a commit, this checkout, and its faces

Nothing here imports a module below `assay`, as a redesign moves them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .samples import ROOT

PARTS = ("requests", "commands")
SHOWN = 60
"""Characters of either side that are printed before and after the first difference."""


def record(folder: Path) -> None:
    """Write what every command and request gives, as a line of JSON each."""
    import assay

    from .commands import record_commands
    from .requests import record_requests

    folder.mkdir(parents=True, exist_ok=True)
    for part, recorder in {"commands": record_commands, "requests": record_requests}.items():
        with open(folder / f"{part}.jsonl", "w", encoding="utf-8") as file:
            for name, outcome in recorder():
                file.write(json.dumps({"name": name, **outcome}).replace(assay.__version__, "VERSION") + "\n")
        print(f"{part} of {assay.__file__} are recorded", flush=True)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes of a recording by name; equal names are numbered."""
    outcomes: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        outcome = json.loads(line)
        name, number = outcome.pop("name"), 0
        while (unique := f"{name} ({number})" if number else name) in outcomes:
            number += 1
        outcomes[unique] = outcome
    return outcomes


def leaves(value: Any, path: str = "") -> dict[str, str]:
    """Return the values inside an outcome by their paths; bodies and files are one value each."""
    if isinstance(value, dict):
        return {key: leaf for name in value for key, leaf in leaves(value[name], f"{path}.{name}").items()}
    return {path[1:]: value if isinstance(value, str) else json.dumps(value)}


def excerpts(old: str, new: str) -> Iterator[str]:
    """Yield both texts around their first difference."""
    start = next(k for k, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    for sign, text in (("-", old), ("+", new)):
        yield f"    {sign} {text[max(0, start - SHOWN) : start + SHOWN]!r}"


def compare(old: Path, new: Path, limit: int) -> int:
    """Print the differences between two recordings, and return how many outcomes differ."""
    total = 0
    for part in PARTS:
        before, after, differing = read(old / f"{part}.jsonl"), read(new / f"{part}.jsonl"), 0
        for name in dict.fromkeys([*before, *after]):
            a, b = leaves(before.get(name, {})), leaves(after.get(name, {}))
            differing += a != b
            if a == b or differing > limit:
                continue
            print(f"{part}: {name}{'' if name in after else ' (missing)'}{'' if name in before else ' (new)'}")
            for path in dict.fromkeys([*a, *b] if name in before and name in after else []):
                if a.get(path) != b.get(path):
                    print(f"  {path}", *excerpts(a.get(path, "(nothing)"), b.get(path, "(nothing)")), sep="\n")
        print(f"{part}: {differing} of {len(before)} differ, {len(after.keys() - before.keys())} are new")
        total += differing
    return total


def against(commit: str, limit: int, count: int) -> int:
    """Record a commit, in a worktree of its own, and this checkout at the same time; compare them and all faces."""
    with TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(old), commit], cwd=ROOT, check=True)
        tool = [sys.executable, "-m", "tests.differential"]
        try:
            recorders = []
            for name, checkout in (("old", old), ("new", ROOT)):
                packages = Path(folder) / f"import-{name}"
                packages.mkdir()
                (packages / "assay").symlink_to(checkout)
                environ = {**os.environ, "PYTHONPATH": str(packages)}
                recorders.append(subprocess.Popen([*tool, "record", f"{folder}/record-{name}"], cwd=ROOT, env=environ))
            if sum(recorder.wait() for recorder in recorders):
                raise SystemExit("a recording has failed")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)
        differences = compare(Path(folder) / "record-old", Path(folder) / "record-new", limit)
        return differences + subprocess.call([*tool, "batches", "--count", str(count)], cwd=ROOT, env=environ)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("record", "compare", "against", "batches"))
    parser.add_argument("targets", nargs="*", help="a folder, two folders, or a commit")
    parser.add_argument("--limit", type=int, default=5, help="differences to print of each kind")
    parser.add_argument("--count", type=int, default=5000, help="random batches")
    parser.add_argument("--seed", type=int, default=0, help="seed of the batches")
    options = parser.parse_args()
    if options.command == "record":
        (folder,) = options.targets
        record(Path(folder))
        return 0
    if options.command == "compare":
        old, new = map(Path, options.targets)
        return min(compare(old, new, options.limit), 1)
    if options.command == "against":
        (commit,) = options.targets
        return min(against(commit, options.limit, options.count), 1)
    from .batches import compare_faces

    return min(compare_faces(options.count, options.seed, options.limit), 1)


if __name__ == "__main__":
    sys.exit(main())
