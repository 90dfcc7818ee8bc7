"""Runs of `vf-eval`, by the commands of the README of assay_verifiers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.environments.readmes import blocks, command, ran
from tests.environments.samples import CONFIG, SAMPLES, Sample, write_rows
from tests.environments.stand_in import MODEL, stand_in

PACKAGE = "assay_verifiers"

ROLLOUTS = 4
"""Of each prompt in the README's commands."""

UNANSWERED = Sample({**SAMPLES[0].row, "prompt": [{"role": "user", "content": "What else?"}], "id": "row-98"}, "")
"""The stand-in for the model answers no such prompt: its server replies 400."""


def evaluated(
    test: str, folder: Path, samples: list[Sample], *flags: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the README's command on these rows, with a home of its own and without a network.

    `environ` has the service's address, unless the environment has it. The working folder is `folder`.
    """
    answers = {one.question: [one.answer] for one in samples if one is not UNANSWERED}
    write_rows(folder / "test.jsonl", samples)
    with stand_in(answers) as url:
        meant = {"http://MODEL-HOST:8001/v1": url, "MODEL": MODEL, "prepared": str(folder)}
        words = command(blocks(PACKAGE, test)[0], "vf-eval", meant)
        variables = {"OPENAI_API_KEY": "none", "ASSAY_CLIENT_CONFIG": CONFIG, **(environ or {})}
        return ran([*words, *flags], folder, **variables)
