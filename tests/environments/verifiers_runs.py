"""Runs of `vf-eval`, by the commands of the README of assay_verifiers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.environments.harness_runs import CONFIG as ONE_SETTING
from tests.environments.harness_runs import prepared, samples, to_all, write_answers
from tests.environments.readmes import blocks, command, ran
from tests.environments.samples import CONFIG, SAMPLES, Sample, write_rows
from tests.environments.stand_in import MODEL, Answers, stand_in

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
    answers = {sample.question: [sample.answer] for sample in samples if sample is not UNANSWERED}
    write_rows(folder / "test.jsonl", samples)
    return ran_on(folder, test, folder, answers, *flags, environ={"ASSAY_CLIENT_CONFIG": CONFIG, **(environ or {})})


def ran_on(
    rows: Path, test: str, folder: Path, answers: Answers, *flags: str, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    with stand_in(answers) as url:
        meant = {"http://MODEL-HOST:8001/v1": url, "MODEL": MODEL, "prepared": str(rows)}
        words = command(blocks(PACKAGE, test)[0], "vf-eval", meant)
        return ran([*words, *flags], folder, **{"OPENAI_API_KEY": "none", **environ})


def evaluated_folder(test: str, folder: Path, *flags: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the README's command on the prepared folder; return a file with the answers too, several to each prompt."""
    answers = {prompt: [answer, "No.", *[answer] * (ROLLOUTS - 2)] for prompt, (answer,) in to_all(samples()).items()}
    plain = write_answers(folder / "answers.jsonl", answers)
    number = ("-n", str(len(answers)))
    run = ran_on(prepared(), test, folder, answers, *number, *flags, environ={"ASSAY_CLIENT_CONFIG": ONE_SETTING})
    return run, plain
