"""NeMo Gym's own servers and its collection of rollouts, with a stand-in for the model and a real service.

The environment of `make test-trainers` has NeMo Gym on any Python; NeMo Gym itself asks for a recent one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.cases.mixed import OPTIONS
from tests.environments import stand_in
from tests.environments.readmes import blocks, command
from tests.environments.samples import BAD_REFERENCE, SAMPLES, Sample, rewards_of
from tests.servers import LiveServer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "trainers" / "nemo_gym"
SERVERS = (
    "resources_servers/assay",
    "responses_api_agents/simple_agent",
    "responses_api_models/vllm_model",
    "environment_servers/legacy_agent",
)
README = blocks("assay_nemo_gym", Path(__file__).name)[0]
REPEATS = 4
"""Of each prompt in the README's command."""
LABELS = ("id", "task", "type", "level", "group", "split")
"""The fields of a row that come back beside its reward."""
SECONDS = 300


class Gym(NamedTuple):
    """Running servers of NeMo Gym."""

    folder: Path
    flags: list[str]

    def run(self, name: str, samples: list[Sample]) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
        """Collect rollouts of these rows; return the finished command and the results."""
        rows, results = self.folder / f"{name}.jsonl", self.folder / f"{name}.results.jsonl"
        rows.write_text("".join(json.dumps(row_of(sample)) + "\n" for sample in samples), encoding="utf-8")
        words = command(README, "gym eval run", {"rows/test.jsonl": rows.name, "results.jsonl": results.name})
        done = subprocess.run(
            [*words, "--no-health-check", *self.flags],
            cwd=self.folder,
            env=environ_of(self.folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done, [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]


def row_of(sample: Sample) -> dict[str, Any]:
    """Return the row as `assay prepare --trainer nemo-gym` writes it."""
    rest = {name: value for name, value in sample.row.items() if name != "prompt"}
    return {"responses_create_params": {"input": sample.row["prompt"]}, **rest}


def environ_of(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def query() -> str:
    """Return the settings of the samples as in an address."""
    names = {"task_field": "task"}
    for name, value in OPTIONS.items():
        names |= {f"{name}.{option}": v for option, v in value.items()} if isinstance(value, dict) else {name: value}
    return urlencode(names)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def prepare(folder: Path, url: str) -> None:
    """Put the example's server into a folder, with an environment for each server that is this one."""
    shutil.copytree(EXAMPLE, folder / "resources_servers" / "assay")
    config = folder / "resources_servers" / "assay" / "configs" / "assay.yaml"
    text = config.read_text(encoding="utf-8")
    for old, new in (
        ("assay_url: http://127.0.0.1:8000", f"assay_url: {url}"),
        ("query: task_field=task", f"query: {query()}"),
    ):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text, encoding="utf-8")
    for server in SERVERS:
        link = folder / "venvs" / server / ".venv"
        link.parent.mkdir(parents=True)
        link.symlink_to(sys.prefix)


@pytest.fixture(scope="module")
def gym(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gym]:
    folder = tmp_path_factory.mktemp("gym")
    prepare(folder, server.url)
    flags = ["+allow_openai_version_skew=true", "+head_server.host=127.0.0.1", f"+head_server.port={free_port()}"]
    reuse = [f"+uv_venv_dir={folder / 'venvs'}", "+skip_venv_if_present=true"]
    answers = {sample.question: [sample.answer] for sample in [*SAMPLES, BAD_REFERENCE]}
    log = folder / "log"
    with pytest.MonkeyPatch.context() as patch, log.open("wb") as sink:
        patch.setattr(stand_in, "completion", without_usage)
        with stand_in.stand_in(answers) as url:
            meant = {"http://MODEL-HOST:8001/v1": url, " MODEL ": f" {stand_in.MODEL} "}
            process = subprocess.Popen(
                [*command(README, "gym env start", meant), *reuse, *flags],
                cwd=folder,
                env=environ_of(folder),
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                wait_for(process, log)
                yield Gym(folder, flags)
            finally:
                stop(process)


def without_usage(content: str, whole: Any = stand_in.completion) -> dict[str, Any]:
    """Leave out what is optional, and what Gym converts only with its own version of the package openai."""
    return {name: value for name, value in whole(content).items() if name != "usage"}


def wait_for(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while "4 / 4 servers ready" not in log.read_text(encoding="utf-8"):
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < end, log.read_text(encoding="utf-8")
        time.sleep(0.2)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Let Gym stop its servers and Ray; then end what is left of its session."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_rollouts_of_several_tasks_have_the_rewards_of_the_service_and_metrics_by_task(
    gym: Gym, server: LiveServer
) -> None:
    """Each mean is over the rows of its task: the others have 0 in the place of what they lack."""
    done, results = gym.run("mixed", SAMPLES)
    assert done.returncode == 0, done.stdout
    assert len(results) == REPEATS * len(SAMPLES)
    rewards = rewards_of(server.url)
    for result in results:
        reward, reason, passed, components = rewards[result["_ng_task_index"]]
        assert (result["reward"], result["score_readable"], result["score_passed"]) == (reward, reason == "ok", passed)
        assert {name: result[f"score_{name}"] for name in components} == components
        row = SAMPLES[result["_ng_task_index"]].row
        assert {name: result.get(name) for name in LABELS} == {name: row[name] for name in LABELS}
    (entry,) = json.loads((gym.folder / "mixed.results_aggregate_metrics.json").read_text(encoding="utf-8"))
    expected: dict[str, list[float]] = {}
    for sample, (reward, _, passed, components) in zip(SAMPLES, rewards, strict=True):
        numbers = {"reward": reward, "score_passed": passed}
        numbers |= {f"score_{name}": value for name, value in components.items()}
        for name, value in numbers.items():
            expected.setdefault(f"mean/{name}", []).append(value)
            expected.setdefault(f"{sample.row['task']}/mean/{name}", []).append(value)
    metrics, means = entry["key_metrics"], {name: fmean(values) for name, values in expected.items()}
    assert {name: metrics[name] for name in means} == pytest.approx(means)
    brier = [name for name in metrics if name.endswith("/score_brier")]
    assert [name for name in brier if not name.startswith(("mean", "bioprobench.pqa"))] == []
    repeats = [repeat["mean/score_brier"] for repeat in entry["repeat_level_metrics"]]
    assert repeats == pytest.approx([means["mean/score_brier"]] * REPEATS)


def test_an_invalid_reference_ends_the_run_without_a_reward(gym: Gym) -> None:
    done, results = gym.run("bad", [BAD_REFERENCE])
    assert done.returncode != 0
    assert results == []
    assert "bad_reference" in (gym.folder / "log").read_text(encoding="utf-8")
