"""REA-ERR's judge over HTTP, replies kept in a file, and that no request makes the service ask a judge."""

from __future__ import annotations

import numpy as np
import pytest

from assay.service.errors import InvalidRequest
from assay.service.tasks import evaluate
from assay.service.tasks import judges as endpoint
from tests.evaluate.judge_server import completion, standing_in
from tests.http.samples import errors_of, problem_of

STEP = {
    "is_correct": False,
    "corrupted_text": "Spin at 3 g.",
    "corrected_text": "Spin at 300 g.",
    "error_description": "The speed is too low.",
    "generated_response": "<think>{hm}</think>[INST]Is it right?[/INST] Too slow. [ANSWER_START]False[ANSWER_END]",
}
RIGHT_STEP = {"is_correct": True, "generated_response": "True"}
PROTOCOLS = [{"reference": "Wash the cells.", "generated_response": text} for text in ("Spin.", "Wash.", "Spin.")]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Make the pauses between tries a hundred times shorter."""
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.0025)


def by_marker(body, _number):
    """Agree with answers that are too slow; give no verdict on those that are odd, and fail on those that break."""
    prompt = body["messages"][0]["content"]
    if "break" in prompt:
        return 500, {}, b""
    if "odd" in prompt:
        return 200, {}, completion("I cannot say.")
    return 200, {}, completion(f"[ANSWER_START]{'Too slow' in prompt}[ANSWER_END]")


def test_rea_err_asks_the_judge_about_every_step_without_a_judgement(monkeypatch):
    monkeypatch.setenv("ASSAY_JUDGE_KEY", "k-1")
    records = [
        STEP,
        {**STEP, "generated_response": "Another buffer. False"},
        {**STEP, "LLM_judge": None},
        {**STEP, "generated_response": None},
        {**STEP, "corrected_text": None, "is_correct": True},
        RIGHT_STEP,
    ]
    with standing_in(by_marker) as judge:
        found = evaluate("bioprobench.rea_err", records, base_url=judge.base_url, model="m", seed=1)
    assert set(judge.keys) == {"Bearer k-1"}
    sent = [{name: value for name, value in body.items() if name != "messages"} for body in judge.bodies]
    assert sent == [{"model": "m", "max_tokens": 8192, "seed": 1}] * 3
    prompts = [body["messages"][0]["content"] for body in judge.bodies]
    first = next(prompt for prompt in prompts if "300 g" in prompt and "Too slow." in prompt)
    assert all(STEP[name] in first for name in ("corrupted_text", "corrected_text", "error_description"))
    assert "{hm}" not in first
    assert "Is it right?" not in first
    assert found.per_record["consistency"].tolist()[:2] == [1, 0]
    assert np.isnan(found.per_record["judge_failed"]).tolist() == [False] * 5 + [True]
    assert found.per_record["judge_failed"].tolist()[:5] == [0, 0, 1, 1, 0]
    assert found.aggregate["consistency"] == pytest.approx(2 / 3)
    assert found.aggregate["consistency_eq8"] == 1 / 4
    assert found.signature.startswith("bioprobench.rea_err|model:m|seed:1|strict_markers:false|")
    assert not found.unavailable


def by_number(body, number):
    """Give other scores each time, of which only a kept reply can repeat the earlier ones."""
    return 200, {}, completion(*(str(1 + (number + k) % 5) for k in range(body["n"])))


def test_kept_replies_are_not_asked_for_again(tmp_path):
    """Interrupted and resumed, and then computed without any judge; the first and the last prompt are the same."""
    path = tmp_path / "replies.jsonl"
    options = {"samples": 2, "runs": 2, "replies": str(path), "model": "m", "concurrency": 1}
    with standing_in(by_number) as judge:
        evaluate("llam_eval", PROTOCOLS[:1], base_url=judge.base_url, **options)
        assert len(judge.bodies) == 12
        with path.open("ab") as stream:
            stream.write(path.read_bytes()[:70])  # as a process that was killed leaves it
        found = evaluate("llam_eval", PROTOCOLS, base_url=judge.base_url, **options)
        assert len(judge.bodies) == 36
    again = evaluate("llam_eval", PROTOCOLS, **options)
    assert again.aggregate == found.aggregate
    assert again.per_record["score"].tolist() == found.per_record["score"].tolist()
    assert len(path.read_bytes().splitlines()) == 36
    with pytest.raises(InvalidRequest, match="does not answer"):
        evaluate("llam_eval", [{"prompt": "new"}], base_url=judge.base_url, retries=0, **options)
    with pytest.raises(InvalidRequest, match="not among the replies"):
        evaluate("llam_eval", PROTOCOLS, **options | {"model": "another"})


@pytest.mark.parametrize("content", ['{"reference": "x"}', "[]\n"])
def test_another_file_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(InvalidRequest, match=r"options\.replies.*line 1 is not a judge's reply"):
        evaluate("llam_eval", PROTOCOLS, replies=str(path))
    assert path.read_text() == content
    for wrong in (tmp_path, "/dev/zero", tmp_path / "none" / "replies.jsonl"):
        with pytest.raises(InvalidRequest, match=r"options\.replies"):
            evaluate("llam_eval", PROTOCOLS, replies=str(wrong))


def test_requests_cannot_name_a_judge_a_file_or_weights(client, tmp_path, monkeypatch):
    """Each of these options alone is refused as well: tests/http/test_local_options.py."""
    monkeypatch.chdir(tmp_path)
    listed = {task["name"]: task["options"]["properties"] for task in client.get("/v1/tasks").json()["tasks"]}
    with standing_in(by_marker) as judge:
        for task, properties in listed.items():
            names = [name for name, schema in properties.items() if schema.get("local")]
            options = dict.fromkeys(names, "replies.jsonl") | dict.fromkeys({"base_url"} & {*names}, judge.base_url)
            document = {"task": task, "records": [{**STEP, **PROTOCOLS[0]}], "options": options}
            if options:
                found = errors_of(problem_of(client.post("/v1/evaluate", json=document), 422))
                assert {(f"options.{name}", "local_option") for name in options} <= set(found)
    assert not judge.bodies
    assert not list(tmp_path.iterdir())
    for task in ("llam_eval", "bioprobench.rea_err"):
        marked = {name for name, schema in listed[task].items() if schema.get("local")}
        assert marked == {"base_url", "model", "concurrency", "timeout", "retries", "replies"}
        assert "judge" not in listed[task]
