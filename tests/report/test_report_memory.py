"""A report on a file larger than memory: its memory does not grow with the file."""

from __future__ import annotations

import json

import pytest

from assay.kernels.warmup import warmup
from tests.command_line import KEY_LINE, RESPONSE
from tests.files.test_memory import peak_of

PADDED = RESPONSE.replace("<note>n", "<note>" + "n" * 90_000)
LINE = json.dumps({"response": PADDED, "reference": KEY_LINE, "prompt": "p" * 10_000}).encode() + b"\n"


@pytest.mark.usefixtures("compiled")
def test_memory(tmp_path) -> None:
    warmup()
    flags = ["--report", str(tmp_path / "report.html"), "--group-field", "prompt"]
    assert peak_of(200, LINE, *flags) - peak_of(60, LINE, *flags) < 40
