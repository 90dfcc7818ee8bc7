"""Compare the replies of `assay serve` to thousands of requests with those of another commit.

    python -m tests.differential COMMIT [--count 5000]

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

from .requests import record_requests
from .samples import ROOT

SHOWN = 60
"""Characters of either side that are printed before and after the first difference."""


def record(path: Path, count: int) -> None:
    """Write the reply of the imported checkout to every request, as a line of JSON each."""
    import assay

    with open(path, "w", encoding="utf-8") as file:
        for name, reply in record_requests(count):
            file.write(json.dumps({"name": name, **reply}).replace(assay.__version__, "VERSION") + "\n")
    print(f"replies of {assay.__file__} are recorded", flush=True)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the replies of a recording by name; equal names are numbered."""
    replies: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        reply = json.loads(line)
        name, number = reply.pop("name"), 0
        while (unique := f"{name} ({number})" if number else name) in replies:
            number += 1
        replies[unique] = reply
    return replies


def leaves(value: Any, path: str = "") -> dict[str, str]:
    """Return the values inside a reply by their paths; a body is one value."""
    if isinstance(value, dict):
        return {key: leaf for name in value for key, leaf in leaves(value[name], f"{path}.{name}").items()}
    return {path[1:]: value if isinstance(value, str) else json.dumps(value)}


def excerpts(old: str, new: str) -> Iterator[str]:
    """Yield both texts around their first difference."""
    start = next(k for k, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    for sign, text in (("-", old), ("+", new)):
        yield f"    {sign} {text[max(0, start - SHOWN) : start + SHOWN]!r}"


def compare(old: Path, new: Path, limit: int) -> int:
    """Print the differences between two recordings, and return how many replies differ."""
    before, after, differing = read(old), read(new), 0
    for name in dict.fromkeys([*before, *after]):
        a, b = leaves(before.get(name, {})), leaves(after.get(name, {}))
        differing += a != b
        if a == b or differing > limit:
            continue
        print(f"{name}{'' if name in after else ' (missing)'}{'' if name in before else ' (new)'}")
        for path in dict.fromkeys([*a, *b] if name in before and name in after else []):
            if a.get(path) != b.get(path):
                print(f"  {path}", *excerpts(a.get(path, "(nothing)"), b.get(path, "(nothing)")), sep="\n")
    print(f"{differing} of {len(before)} replies differ, {len(after.keys() - before.keys())} are new")
    return differing


def compare_with(commit: str, limit: int, count: int) -> int:
    """Record a commit, in a worktree of its own, and this checkout at the same time; compare them."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        old = folder / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(old), commit], cwd=ROOT, check=True)
        try:
            recorders = []
            for side, checkout in (("old", old), ("new", ROOT)):
                packages = folder / side
                packages.mkdir()
                (packages / "assay").symlink_to(checkout)
                command = [sys.executable, "-m", "tests.differential", str(folder / f"{side}.jsonl"), "--record"]
                command += ["--count", str(count)]
                environ = {**os.environ, "PYTHONPATH": str(packages)}
                recorders.append(subprocess.Popen(command, cwd=ROOT, env=environ))
            if sum(recorder.wait() for recorder in recorders):
                raise SystemExit("a recording has failed")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)
        return compare(folder / "old.jsonl", folder / "new.jsonl", limit)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--limit", type=int, default=5, help="differences to print")
    parser.add_argument("--count", type=int, default=5000, help="random batches")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(Path(options.commit), options.count)
        return 0
    return min(compare_with(options.commit, options.limit, options.count), 1)


if __name__ == "__main__":
    sys.exit(main())
