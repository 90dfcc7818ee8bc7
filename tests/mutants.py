"""Change the code one operator at a time, and list the changes that no test vector and no test notices.

    python -m tests.mutants --sample 400 --jobs 2                400 mutants of the kernels and of scoring
    python -m tests.mutants kernels/sequences.py                 every mutant of a file
    python -m tests.mutants research/select --json select.json   of a folder, also as a document

A *mutant* is the code with one change, such as `<` to `<=`. It is judged in a temporary copy of the checkout, with
kernels as plain Python: by the test vectors, then by the tests of the changed file. A survivor, which neither notices,
needs judgement: it may show a rule that nothing tests, or alter no result, such as the size of a cache.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_PATHS = (
    "kernels",
    "service/scoring",
    "service/rewards",
    "service/tasks/thoth.py",
    "service/tasks/paper.py",
)
COMPILER = ("kernels/compiler.py", "kernels/warmup.py")
"""Files that have no effect while kernels are plain Python: they have no mutants."""

TESTS = (
    ("kernels/score.py", ("tests/kernels", "tests/http/wire")),
    ("kernels/json_", ("tests/kernels", "tests/http/wire")),
    ("kernels/reading/references.py", ("tests/kernels", "tests/http/wire")),
    ("kernels/protocol_metrics.py", ("tests/kernels", "tests/evaluate/test_evaluate_score.py")),
    ("kernels/", ("tests/kernels", "tests/scoring")),
    ("service/rewards/", ("tests/rewards", "tests/scoring")),
    ("service/scoring/", ("tests/scoring", "tests/conformance/test_vectors.py", "tests/rewards/test_mixed.py")),
    ("service/tasks/thoth.py", ("tests/evaluate/test_evaluate_score.py",)),
    ("service/tasks/paper.py", ("tests/evaluate/test_evaluate_score.py",)),
)
"""The tests of a file, by the first entry that its path begins with; `tests_of` finds those of other files."""

LEFT_OUT = re.compile(r"tests/(browser|environments|on_ray|trainers)/|tests/scoring/test_scorer_extreme_settings")
"""Tests that need another environment, or take minutes with kernels as plain Python."""

SLOW_SECONDS = 2.0
"""A test that takes longer on the unchanged code judges no mutants."""
SLOWER, GRACE_SECONDS = 6, 10
"""A vector or test hangs if it takes so many times its time on the unchanged code, and these seconds more."""
START_SECONDS = 120
MEMORY = 8 << 30
"""Bytes of address space of a process that judges."""

ARITHMETIC = {"+": "-", "-": "+", "*": "//", "/": "*", "//": "*", "%": "+", "**": "*"}
BITS = {"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"}
SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"in": "not in", "not in": "in", "is": "is not", "is not": "is", "and": "or", "or": "and"},
    **ARITHMETIC | BITS,
    **{f"{before}=": f"{after}=" for before, after in (ARITHMETIC | BITS).items()},
}
OUTCOMES = ("vectors", "tests", "hangs", "survived")


class Mutant(NamedTuple):
    """One change of a file: its bytes from `start` to `stop` become `after`."""

    path: str
    line: int
    start: int
    stop: int
    kind: str
    before: str
    after: str
    source: str  # the line, trimmed
    occurrence: int  # how many equal changes of equal lines come before it in the file

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) or "nothing" for text in (self.before, self.after))
        return f"{self.path}:{self.line}: {before} → {after}   {self.source}"

    def applied(self, content: bytes) -> bytes:
        """Return the content of the file with this change."""
        return content[: self.start] + self.after.encode() + content[self.stop :]

    def rank(self, seed: int) -> str:
        """Return the place of this mutant in a sample, which does not depend on the number of its line."""
        key = [seed, self.path, self.source, self.kind, self.before, self.after, self.occurrence]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()


class Source:
    """The text of one file, by offsets in bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.lines = content.split(b"\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        tokens = tokenize.tokenize(io.BytesIO(content).readline)
        self._tokens = [
            (self._offset(*token.start), self._offset(*token.end), token.string)
            for token in tokens
            if token.type in (tokenize.OP, tokenize.NAME)
        ]

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self.lines[line - 1].decode()[:column].encode())

    def span(self, node: Any) -> tuple[int, int]:
        """Return start and stop of a node."""
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def swaps(self, operands: Sequence[ast.AST]) -> Iterator[tuple[int, int, str]]:
        """Yield the operator between each two neighbours of some operands: start, stop, and what replaces it."""
        for left, right in pairwise(operands):
            first, last = (bisect_left(self._tokens, (pos,)) for pos in (self.span(left)[1], self.span(right)[0]))
            operator = [token for token in self._tokens[first:last] if token[2] not in "()"]
            if after := SWAPS.get(" ".join(text for _, _, text in operator)):
                yield operator[0][0], operator[-1][1], after


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is in it, without types, decorators, messages, and branches for compiled kernels."""
    match node:
        case ast.JoinedStr() | ast.Assign(targets=[ast.Name(id="__all__")]) | ast.keyword(arg="strict"):
            return
        case ast.If(test=ast.Name(id="JIT" | "TYPE_CHECKING")) | ast.IfExp(test=ast.Name(id="JIT")):
            return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "decorator_list", "returns", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from running(child)


def changes(source: Source, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
    """Yield the changes of a node: kind, start, stop and the new text."""
    match node:
        case ast.Compare():
            yield from (("comparison", *swap) for swap in source.swaps([node.left, *node.comparators]))
        case ast.BoolOp():
            yield from (("logic", *swap) for swap in source.swaps(node.values))
        case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
            if not (is_sequence(left) or is_sequence(right)):
                yield from (("arithmetic", *swap) for swap in source.swaps([left, right]))
        case ast.UnaryOp(op=ast.Not()):
            start, stop = source.span(node)
            operand = source.content[start:stop].removeprefix(b"not").lstrip()
            yield "negation", start, stop - len(operand), ""
        case ast.Constant(value=bool()):
            yield "constant", *source.span(node), str(not node.value)
        case ast.Constant(value=int() | float()) if node.value + 1 != node.value:
            start, stop = source.span(node)
            form = "#X" if source.content.startswith(b"0x", start) else ""
            yield "constant", start, stop, format(node.value + 1, form).replace("0X", "0x")
        case ast.Break() | ast.Continue():
            yield "loop", *source.span(node), "continue" if isinstance(node, ast.Break) else "break"
    conditions = [node.test] if isinstance(node, (ast.If, ast.IfExp, ast.While)) else getattr(node, "ifs", [])
    for condition in conditions:
        if isinstance(condition, (ast.Attribute, ast.Call, ast.Name, ast.Subscript)):
            start, stop = source.span(condition)
            yield "condition", start, stop, f"not {source.content[start:stop].decode()}"


def is_sequence(node: ast.AST) -> bool:
    """Return whether an operand is written as a text or a list, for which most operators are not defined."""
    if isinstance(node, ast.BinOp):
        return is_sequence(node.left) or is_sequence(node.right)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    return is_text or isinstance(node, (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple))


def mutants_of(path: str, content: bytes) -> list[Mutant]:
    """Return the mutants of a file, from top to bottom."""
    source = Source(content)
    mutants, occurrences = [], Counter[tuple[str, ...]]()
    nodes = running(ast.parse(content))
    for kind, start, stop, after in sorted(change for node in nodes for change in changes(source, node)):
        line = content.count(b"\n", 0, start) + 1
        text = source.lines[line - 1].decode().strip()
        key = text, kind, content[start:stop].decode(), after
        mutants.append(Mutant(path, line, start, stop, kind, key[2], after, text, occurrences[key]))
        occurrences[key] += 1
    return sorted(mutants, key=lambda mutant: mutant.start)


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return `count` of the mutants in a random order, from each file in proportion to its mutants."""
    ranked: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: mutant.rank(seed)):
        ranked[mutant.path].append(mutant)
    count = min(count, len(mutants))
    shares = {path: count * len(group) / len(mutants) for path, group in ranked.items()}
    quotas = {path: int(share) for path, share in shares.items()}
    by_remainder = sorted(shares, key=lambda path: (quotas[path] - shares[path], path))
    for path in by_remainder[: count - sum(quotas.values())]:
        quotas[path] += 1
    drawn = [mutant for path, group in ranked.items() for mutant in group[: quotas[path]]]
    return sorted(drawn, key=lambda mutant: mutant.rank(seed))


def tests_of(path: str, root: Path) -> dict[str, bool]:
    """Return the test files of a file, and of each whether it names the module or is named after it.

    Without an entry in TESTS, they are all that name the module, and the folder of tests that has the name of the file
    or of its room.
    """
    module = Path(path).with_suffix("")
    places = next((tests for room, tests in TESTS if path.startswith(room)), None)
    folders = ["/".join(("tests", *module.parts[1:end])) for end in range(len(module.parts), 1, -1)]
    default = [folder for folder in folders if (root / folder).is_dir()][:1]
    dotted_name = re.compile(rf"\bassay\.{'.'.join(module.parts).removesuffix('.__init__')}\b")
    selection = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        test = file.relative_to(root).as_posix()
        in_place = any(test == place or test.startswith(f"{place}/") for place in places or default)
        names_module = dotted_name.search(file.read_text(encoding="utf-8")) is not None
        if (in_place or (names_module and places is None)) and LEFT_OUT.match(test) is None:
            selection[test] = names_module or module.name in file.stem
    return selection


class Unchanged(NamedTuple):
    """What the unchanged code does."""

    vectors: dict[str, float]  # seconds by id
    tests: dict[str, float]
    imported: frozenset[str]  # files that the vectors need
    selections: dict[str, list[str]]  # test files of each file, near ones first, then quick ones


class Result(NamedTuple):
    """What became of a mutant: one of OUTCOMES, and the vector or test that noticed it."""

    mutant: Mutant
    outcome: str
    noticed_by: str
    seconds: float


class Copy:
    """A copy of the checkout, in which one process at a time judges one change."""

    def __init__(self, folder: Path) -> None:
        self.root, self._folder = folder / "checkout", folder
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for path in filter(None, listing.split("\0")):
            if (ROOT / path).is_file():
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, self.root / path)
        for name in ("packages", "tmp"):
            (folder / name).mkdir()
        (folder / "packages" / "assay").symlink_to(self.root)  # comes before an installed package
        variables = {"PYTHONPATH": str(folder / "packages"), "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(folder / "tmp")}
        self._environment = {**os.environ, **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._changes = 0

    def judge(self, mutant: Mutant, unchanged: Unchanged) -> Result:
        """Give a mutant to the vectors, unless they do not import its file, and to the tests."""
        stages = {"vectors": {"seconds": unchanged.vectors}, "tests": {"seconds": unchanged.tests, "fail_fast": True}}
        stages["tests"]["files"] = unchanged.selections[mutant.path]
        if mutant.path not in unchanged.imported:
            del stages["vectors"]
        started = time.monotonic()
        with self._changed(mutant):
            for stage, request in stages.items():
                noticed_by = self.run(request)["noticed_by"]
                if noticed_by:
                    outcome = "hangs" if noticed_by == ["hangs"] else stage
                    return Result(mutant, outcome, noticed_by[0], time.monotonic() - started)
        return Result(mutant, "survived", "", time.monotonic() - started)

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.path
        content, status = path.read_bytes(), path.stat()
        path.write_bytes(mutant.applied(content))
        self._changes += 1
        os.utime(path, (self._changes, self._changes))  # Python recognises the bytecode of a file by its time
        try:
            yield
        finally:
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of a new process to a request; `noticed_by` is a list, ["hangs"] if there is no reply."""
        reply, log = self._folder / "reply.json", self._folder / "log.txt"
        reply.unlink(missing_ok=True)
        (self._folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-c", "from tests.mutants import work; work()", self._folder / "request.json", reply]
        streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with log.open("wb") as output:
            self._process = process = subprocess.Popen(
                command, cwd=self.root, env=self._environment, stdout=output, start_new_session=True, **streams
            )
        seconds = sum(request["seconds"].values())
        try:
            if not self._is_stopped:
                process.wait(START_SECONDS + GRACE_SECONDS + SLOWER * seconds if seconds else None)
        except subprocess.TimeoutExpired:
            return {"noticed_by": ["hangs"]}
        finally:
            self._end(process)
        if reply.exists():
            return json.loads(reply.read_text(encoding="utf-8"))
        if process.returncode == -signal.SIGALRM:
            return {"noticed_by": ["hangs"]}
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return {"noticed_by": [f"exit code {process.returncode}: {' '.join(lines[-1:])}"]}

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started, also processes with a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.fsencode(f"{self._folder}/") in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End the process that runs; its result, and those of all later ones, mean nothing."""
        self._is_stopped = True
        if self._process is not None and self._process.poll() is None:
            self._end(self._process)


def work() -> None:
    """Answer the request in the file that the command line names: run test files, or the vectors if it has none."""
    request, reply = map(Path, sys.argv[1:])
    signal.alarm(START_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    options = json.loads(request.read_text(encoding="utf-8"))
    answer = run_tests(**options) if "files" in options else run_vectors(**options)
    reply.write_text(json.dumps(answer), encoding="utf-8")


def allow(unchanged_seconds: float) -> None:
    """End this process by SIGALRM if what it does next takes many times the seconds that the unchanged code takes."""
    signal.setitimer(signal.ITIMER_REAL, SLOWER * unchanged_seconds + GRACE_SECONDS)


def run_vectors(seconds: dict[str, float]) -> dict[str, Any]:
    """Give the vectors to Assay in a random order, but the long ones last, up to the first that differs."""
    from assay.research.conformance import compare, own_answer, read_vectors

    cases = sorted(read_vectors(), key=lambda case: hashlib.sha256(case.id.encode()).digest())
    measured: dict[str, float] = {}
    for case in sorted(cases, key=lambda case: seconds.get(case.id, 0.0) > 0.05):
        allow(seconds.get(case.id, START_SECONDS))
        started = time.perf_counter()
        is_exact = case.row["kind"] != "advantages"  # whose sums the twin rounds in another order
        try:
            differs = bool(compare([case], {case.id: own_answer(case.row)}, is_exact).differences)
        except Exception:
            differs = True
        if differs:
            return {"noticed_by": [case.id]}
        measured[case.id] = time.perf_counter() - started
    files = [Path(module.__file__).resolve() for module in [*sys.modules.values()] if getattr(module, "__file__", None)]
    imported = [file.relative_to(Path.cwd()).as_posix() for file in files if file.is_relative_to(Path.cwd())]
    return {"noticed_by": [], "seconds": measured, "imported": imported}


def run_tests(seconds: dict[str, float], files: list[str], fail_fast: bool) -> dict[str, Any]:
    """Run test files in this order, without what is slow."""
    watch = Watch(seconds)
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=quick", "--hypothesis-seed=0", "-m", "not slow"]
    code = pytest.main([*options, *(["-x"] if fail_fast else []), *files], [watch]) if files else 0
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not watch.failed:
        watch.failed.append(f"pytest: {code!r}")
    return {"noticed_by": watch.failed, "seconds": watch.seconds}


class Watch:
    """A plugin of pytest that measures tests, leaves out slow ones, and ends the process if one hangs."""

    def __init__(self, unchanged: dict[str, float]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.failed: list[str] = []
        self._unchanged = unchanged

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)  # a failing example need not be small
        settings.register_profile("mutants", settings.get_profile("quick"), phases=phases, database=None)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._unchanged.get(item.nodeid, 0.0) <= SLOW_SECONDS]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        allow(self._unchanged.get(nodeid, START_SECONDS))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def run_unchanged(copy: Copy, mutants: Sequence[Mutant]) -> Unchanged:
    """Measure the unchanged code; raise SystemExit if a vector or a test fails."""
    selections = {path: tests_of(path, copy.root) for path in {mutant.path for mutant in mutants}}
    vectors = copy.run({"seconds": {}})
    tests = copy.run({"seconds": {}, "files": sorted({*chain(*selections.values())}), "fail_fast": False})
    if failed := vectors["noticed_by"] + tests["noticed_by"]:
        sys.exit("\n".join(["The unchanged code fails with kernels as plain Python:", *failed]))
    seconds: Counter[str] = Counter()
    for test, duration in tests["seconds"].items():
        seconds[test.partition("::")[0]] += duration
    ordered = {
        path: sorted(selection, key=lambda test: (not selection[test], seconds[test]))
        for path, selection in selections.items()
    }
    return Unchanged(vectors["seconds"], tests["seconds"], frozenset(vectors["imported"]), ordered)


def judge_all(
    mutants: Sequence[Mutant], copies: Sequence[Copy], unchanged: Unchanged, seconds: float
) -> Iterator[Result]:
    """Yield the results as they come; begin with no mutant after some seconds."""
    deadline = time.monotonic() + seconds
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant) -> Result | None:
        copy = free.get()
        try:
            return copy.judge(mutant, unchanged) if time.monotonic() < deadline else None
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        futures = [pool.submit(judge, mutant) for mutant in mutants]
        try:
            yield from filter(None, (future.result() for future in as_completed(futures)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()


def show(results: Sequence[Result]) -> None:
    """Print counts by file, the survivors, and the share that was noticed."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.mutant.path][result.outcome] += 1
        counts["total"][result.outcome] += 1
    width = max(map(len, counts), default=0)
    print(f"{'':{width}}  mutants  " + "  ".join(f"{outcome:>8}" for outcome in OUTCOMES))
    for path in sorted(counts, key=lambda path: (path == "total", path)):
        numbers = "  ".join(f"{counts[path][outcome]:8}" for outcome in OUTCOMES)
        print(f"{path:{width}}  {counts[path].total():7}  {numbers}")
    print("\nSurvivors:")
    for result in results:
        if result.outcome == "survived":
            print(result.mutant)
    share = 1 - counts["total"]["survived"] / max(len(results), 1)
    print(f"\n{share:.1%} of {len(results)} mutants were noticed.")


def files_in(paths: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the Python files of some files and folders of the checkout, relative to it."""
    files: dict[str, None] = {}
    for path in map(Path.resolve, map(Path, paths)):
        if not path.is_relative_to(ROOT) or not path.exists():
            parser.error(f"{path} is not in this checkout")
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            files[file.relative_to(ROOT).as_posix()] = None
    return [file for file in files if file not in COMPILER]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge mutants as the command line says."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: kernels and scoring)")
    parser.add_argument("--sample", type=int, metavar="N", help="judge N mutants (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which N (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes at a time (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as a document, too")
    parser.add_argument("--time", type=float, default=float("inf"), metavar="SECONDS", help="begin none after these")
    options = parser.parse_args(arguments)
    options.paths = options.paths or [str(ROOT / path) for path in DEFAULT_PATHS]
    mutants = [
        mutant for path in files_in(options.paths, parser) for mutant in mutants_of(path, (ROOT / path).read_bytes())
    ]
    mutants = sample(mutants, len(mutants) if options.sample is None else options.sample, options.seed)
    if not mutants or options.jobs < 1:
        parser.error("there is nothing to judge")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="assay-mutants-") as folder:
        copies = [Copy(Path(folder, str(job))) for job in range(options.jobs)]
        print("Running the unchanged code …", file=sys.stderr)
        unchanged = run_unchanged(copies[0], mutants)
        with suppress(KeyboardInterrupt):  # show the results so far
            for result in judge_all(mutants, copies, unchanged, options.time):
                results.append(result)
                print(f"[{len(results)}/{len(mutants)}] {result.outcome}: {result.mutant}", file=sys.stderr)
    results.sort()
    show(results)
    if options.json:
        rows = [{**result.mutant._asdict(), **result._asdict(), "mutant": str(result.mutant)} for result in results]
        document = {"seed": options.seed, "mutants": rows}
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
