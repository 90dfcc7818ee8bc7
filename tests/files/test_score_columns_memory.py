"""`assay score` for columns: memory is bounded by a batch and a row group, not by the file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from assay.kernels.warmup import warmup
from tests.command_line import KEY_LINE, RESPONSE, environment
from tests.files.test_memory import MEASURED, MIB

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 5_000
PADDING = 20_000
"""Padding of each row in bytes; about 100 MB per row group."""


def peak_of(folder: Path, ending: str, groups: int) -> float:
    """Return the peak resident size, in MiB, of a run over a file with `groups` row groups."""
    source, target = folder / f"in.{ending}", folder / f"out.{ending}"
    columns = {"response": [RESPONSE] * ROWS, "reference": [KEY_LINE] * ROWS}
    table = pa.table({**columns, "padding": [f"{row:>{PADDING}}" for row in range(ROWS)]})
    if ending == "parquet":
        with pq.ParquetWriter(source, table.schema, use_dictionary=False, compression="none") as writer:
            for _ in range(groups):
                writer.write_table(table)
    else:
        with pa.ipc.new_stream(source, table.schema) as writer:
            for _ in range(groups):
                writer.write_table(table, max_chunksize=1_000)
    command = [sys.executable, "-c", MEASURED, "score", source, "-o", target, "--include", "components,advantages"]
    shown = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stderr
    assert f"scored       {ROWS * groups:,}" in shown
    source.unlink()
    target.unlink()
    factor = 1 if sys.platform == "darwin" else 1024
    return int(re.search(r"^peak (\d+)$", shown, re.MULTILINE)[1]) * factor / MIB


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "arrows"])
def test_a_file_of_any_size(tmp_path: Path, ending: str) -> None:
    warmup()
    few, many = peak_of(tmp_path, ending, 2), peak_of(tmp_path, ending, 6)
    print(f"peak: {few:.0f} MiB for 200 MB, {many:.0f} MiB for 600 MB")
    # Arrow's allocator keeps more or less of what it has freed, up to a group of rows; a file held would be 400 MB.
    assert many - few < 200
