"""Runs a fuzz target on inputs one after the other, each in guarded memory.

    python -m tests.fuzz.fuzz_envelope --seeded 1000         always the same inputs; nothing to install
    python -m tests.fuzz.fuzz_envelope -max_total_time=300   libFuzzer, guided by coverage (pip install atheris)
    python -m tests.fuzz.fuzz_envelope --input FILE          one input again

A target is a function that raises if the outcome of an input is wrong. An access outside an array ends the process; a
seeded run names the file with the input.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

STANDALONE = sys.argv[1:2] in (["--seeded"], ["--input"])
if not STANDALONE:
    try:
        import atheris
    except ImportError:
        sys.exit("This needs atheris (pip install atheris), or --seeded NUMBER")

with nullcontext() if STANDALONE else atheris.instrument_imports(include=["assay.service", "tests.reference"]):
    import assay.service.http.endpoints.score
    import assay.service.http.endpoints.trainers.nemo_gym  # noqa: F401
    import tests.reference.scorer  # noqa: F401

from assay.kernels.warmup import warmup  # noqa: E402
from assay.service.wire.problems import Problem  # noqa: E402
from tests.guard_pages import GuardedMemory, forget, guarded_memory  # noqa: E402

__all__ = ["Check", "fuzz", "outcome"]

Check = Callable[[bytes, GuardedMemory], None]

MAX_BYTES = 8192
"""Maximum size of an input: long enough for every path, short enough for thousands of inputs a second."""

MUTATIONS = (1, 1, 1, 2, 5)
SPLICES = [b"", *(bytes([byte]) for byte in b'"\\{}[],:\n\x00\x80\xff'), "é".encode(), "\ufdfa".encode()]


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of the function, or the Problem it raises."""
    try:
        return function(*arguments)
    except Problem as problem:
        return problem


def fuzz(check: Check, seeds: Sequence[bytes], words: Sequence[str] = ()) -> None:
    """Run `check` as the command line says. seeds: initial inputs. words: tokens that mutations insert."""
    warmup()
    with guarded_memory() as memory:
        count = 0

        def target(data: bytes) -> None:
            nonlocal count
            forget()
            memory.put_at_end(count % 2 == 0)
            count += 1
            check(data, memory)
            memory.check()

        if sys.argv[1:2] == ["--input"]:
            for _ in range(2):
                target(Path(sys.argv[2]).read_bytes())
        elif STANDALONE:
            seeded(target, seeds, words, int(sys.argv[2]))
        else:
            libfuzzer(target, seeds, words)


def seeded(target: Callable[[bytes], None], seeds: Sequence[bytes], words: Sequence[str], count: int) -> None:
    """Run `count` inputs, the same ones each time: every fourth is a seed, the others are mutated seeds."""
    faulthandler.enable()
    dice = random.Random(7)
    splices = [*SPLICES, *(word.encode() for word in words)]
    with tempfile.NamedTemporaryFile(prefix=f"{Path(sys.argv[0]).stem}-", delete=False) as kept:
        print("current input:", kept.name, file=sys.stderr, flush=True)
        for k in range(count):
            data = mutated(dice, seeds, splices) if k % 4 else seeds[k // 4 % len(seeds)]
            kept.seek(0)
            kept.truncate()
            kept.write(data)
            kept.flush()
            target(data)
    Path(kept.name).unlink()
    print(count)


def mutated(dice: random.Random, seeds: Sequence[bytes], splices: Sequence[bytes]) -> bytes:
    """Return a mutated seed; half of the mutations keep its length, on which binary formats depend."""
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.choice(MUTATIONS)):
        pos = dice.randint(0, len(data))
        kind = dice.randrange(8)
        if kind < 2 and pos < len(data):
            data[pos] = dice.randrange(256)
        elif kind < 4:
            put = dice.choice(splices)[: len(data) - pos]
            data[pos : pos + len(put)] = put
        elif kind == 4:
            data[pos:pos] = data[pos : pos + dice.choice([1, 8, 64])] * dice.randint(1, 20)
        elif kind == 5:
            other = dice.choice(seeds)
            begin = dice.randint(0, len(other))
            data[pos : pos + dice.choice([0, 8, 64])] = other[begin : begin + dice.choice([1, 8, 64, 512])]
        elif kind == 6:
            data[pos : pos + dice.choice([0, 0, 1, 8, 512])] = dice.choice(splices)
        elif dice.randrange(4) == 0:
            del data[pos:]
    return bytes(data[:MAX_BYTES])


def libfuzzer(target: Callable[[bytes], None], seeds: Sequence[bytes], words: Sequence[str]) -> None:
    """Run libFuzzer until its time limit or a failure; it saves the failing input."""
    folder = Path(tempfile.mkdtemp(prefix="assay-fuzz-"))
    for k, data in enumerate(seeds):
        (folder / f"seed-{k:04}").write_bytes(data)
    options = [f"-max_len={MAX_BYTES}"]
    if words:
        dictionary = folder.with_suffix(".dict")
        escaped = ["".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words]
        dictionary.write_text("".join(f'"{word}"\n' for word in escaped), encoding="ascii")
        options.append(f"-dict={dictionary}")
    atheris.Setup([*sys.argv, str(folder), *options], target)
    atheris.Fuzz()
