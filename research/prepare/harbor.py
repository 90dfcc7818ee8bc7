"""Folders of tasks for Harbor: an agent writes an answer to a file, and a verifier in its own image scores it offline.

As a program it is that verifier: `python -m assay.research.prepare.harbor REFERENCE ANSWER REWARD`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from ...service.records.rows.forms import json_text
from ...service.records.rows.rows import reference_of
from ...service.rewards.batch import Batch
from ...service.rewards.registry import REWARD_TASKS, reward_of
from ...service.rewards.scorer import Scorer

ANSWER = "/app/answer.md"
INSTRUCTION = f"Write the whole answer, exactly in the form asked for above, to the file {ANSWER}."

AGENT = f"""\
FROM debian:trixie-slim
WORKDIR /app
# An empty answer gets a reward; a file that is missing is an error, because it may not have been copied.
RUN touch {ANSWER}
"""

VERIFIER = """\
ARG ASSAY_IMAGE=assay
FROM ${ASSAY_IMAGE}
# The image runs the service as a user of its own; Harbor needs a shell, and /logs/verifier belongs to root.
USER root
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["sleep", "infinity"]
COPY test.sh reference.json /tests/
"""

TEST = f"""\
#!/bin/bash
# Write the reward; what cannot be scored has no reward, and another exit code than 0.
set -eu
PATH=/opt/assay/bin:$PATH
exec python -P -m assay.research.prepare.harbor /tests/reference.json {ANSWER} /logs/verifier/reward.json
"""

SOLVE = f"""\
#!/bin/bash
cp "$(dirname "$0")/answer.md" {ANSWER}
"""

CONFIG = f"""\
artifacts = ["{ANSWER}"]

[verifier]
environment_mode = "separate"  # the agent reaches neither the scorer nor the reference

[verifier.environment]
network_mode = "no-network"

[metadata]
"""


def write_tasks(folder: str, rows: Iterable[tuple[Mapping[str, Any], str]]) -> None:
    """Write the task of each row with its ideal answer, as SPLIT/NUMBER in a new folder."""
    for number, (row, ideal) in enumerate(rows, 1):
        about = {name: row[name] for name in ("id", "task", "group", "level", "type")}
        task = {
            "instruction.md": "\n\n".join([*(message["content"] for message in row["prompt"]), INSTRUCTION, ""]),
            "task.toml": CONFIG + "".join(f"{name} = {toml_text(value)}\n" for name, value in about.items()),
            "environment/Dockerfile": AGENT,
            "tests/Dockerfile": VERIFIER,
            "tests/test.sh": TEST,
            "tests/reference.json": json_text({"task": row["task"], "reference": reference_of(row["reference"])}),
            "solution/answer.md": ideal,
            "solution/solve.sh": SOLVE,
        }
        for name, text in task.items():
            path = Path(folder, row["split"], f"{number:06}", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            if path.suffix == ".sh":
                path.chmod(0o755)


def toml_text(text: str) -> str:
    """Return a text as a string of TOML, which is one of JSON but for the control character DEL."""
    return json_text(text).replace("\x7f", "\\u007f")


def outcome_of(scorer: Scorer, reference: bytes, answer: bytes) -> dict[str, Any]:
    """Return the reward of an answer, its reason, components and signature; raise ValueError or AssayError without one.

    Bytes of the answer that are not UTF-8 are read as the replacement character, as an agent may write any.
    """
    label = orjson.loads(reference)
    if not isinstance(label, dict) or label.get("task") not in REWARD_TASKS:
        raise ValueError("the reference is not an object with a known task")
    scores = scorer.score([answer.decode("utf-8", "replace")], [label])
    reward = reward_of(label["task"])
    components = {name: float(scores.components[name][0]) for name in reward.components}
    signature = reward.identity(Batch(configurations={"config": scorer.columns}))["signature"]
    about = {"reason": str(scores.reasons[0]), "components": components, "signature": signature}
    return {"reward": float(scores.rewards[0]), **about}


def main(reference: str, answer: str, target: str) -> None:
    """Print the outcome and write the reward, alone: a component would be 0 in Harbor's means for tasks without it."""
    outcome = outcome_of(Scorer(), Path(reference).read_bytes(), Path(answer).read_bytes())
    print(orjson.dumps(outcome).decode())
    partial = Path(f"{target}.partial")
    partial.write_bytes(orjson.dumps({"reward": outcome["reward"]}))
    os.replace(partial, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
