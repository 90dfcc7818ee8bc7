"""Judges over HTTP: Llam-Eval and REA-ERR, replies kept in a file, and that no request makes the service ask one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.errors import InvalidRequest
from assay.service.tasks import endpoint
from assay.service.tasks.evaluation import evaluate, task_named
from assay.service.tasks.llam_eval import expected_by_logprobs, expected_by_samples, geval_score, stated_score
from assay.service.tasks.llam_eval_prompts import CRITERIA, prompt_of
from tests.evaluate.judge_server import always, completion, standing_in
from tests.http.samples import errors_of, problem_of
from tests.strategies import examples

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
        evaluation = evaluate("bioprobench.rea_err", records, base_url=judge.base_url, model="m", seed=1)
    assert set(judge.keys) == {"Bearer k-1"}
    sent = [{name: value for name, value in body.items() if name != "messages"} for body in judge.bodies]
    assert sent == [{"model": "m", "max_tokens": 8192, "seed": 1}] * 3
    prompts = [body["messages"][0]["content"] for body in judge.bodies]
    first = next(prompt for prompt in prompts if "300 g" in prompt and "Too slow." in prompt)
    assert all(STEP[name] in first for name in ("corrupted_text", "corrected_text", "error_description"))
    assert "{hm}" not in first
    assert "Is it right?" not in first
    assert evaluation.per_record["consistency"].tolist()[:2] == [1, 0]
    assert np.isnan(evaluation.per_record["judge_failed"]).tolist() == [False] * 5 + [True]
    assert evaluation.per_record["judge_failed"].tolist()[:5] == [0, 0, 1, 1, 0]
    assert evaluation.aggregate["consistency"] == pytest.approx(2 / 3)
    assert evaluation.aggregate["consistency_eq8"] == 1 / 4
    assert evaluation.signature.startswith(
        "bioprobench.rea_err|model:m|seed:1|profile:bioprobench|strict_markers:false|"
    )
    assert not evaluation.unavailable


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
        evaluation = evaluate("llam_eval", PROTOCOLS, base_url=judge.base_url, **options)
        assert len(judge.bodies) == 36
    again = evaluate("llam_eval", PROTOCOLS, **options)
    assert again.aggregate == evaluation.aggregate
    assert again.per_record["score"].tolist() == evaluation.per_record["score"].tolist()
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
                issues = errors_of(problem_of(client.post("/v1/evaluate", json=document), 422))
                assert {(f"options.{name}", "local_option") for name in options} <= set(issues)
    assert not judge.bodies
    assert not list(tmp_path.iterdir())
    for task in ("llam_eval", "bioprobench.rea_err"):
        marked = {name for name, schema in listed[task].items() if schema.get("local")}
        assert marked == {"base_url", "model", "concurrency", "timeout", "retries", "replies"}
        assert "judge" not in listed[task]


PROTOCOL = {"reference": "Wash the cells.", "generated_response": "Spin the cells."}
ONE = {**PROTOCOL, "criterion": "Coherence"}


def judged(answer, *records, **options):
    """Evaluate records with a judge that answers so; return the result and the judge."""
    with standing_in(answer) as judge:
        return evaluate("llam_eval", list(records), base_url=judge.base_url, **options), judge


@given(st.lists(st.sampled_from(["1", " 2", "3.", "4/5", "5 stars", "6", "0", "4.5", "", "four", "- Coherence: 2"])))
@examples(60)
def test_expected_score_is_the_sum_of_scores_by_their_frequency(texts):
    scores = [int(text.strip()[0]) for text in texts if text not in ("6", "0", "4.5", "", "four", "- Coherence: 2")]
    expected = sum(s * Fraction(scores.count(s), len(scores)) for s in range(1, 6)) if scores else None
    value, valid = expected_by_samples(texts)
    assert valid == len(scores)
    assert (value is None) if expected is None else value == pytest.approx(float(expected), abs=1e-12)


STATED = {"4": 4, "- Coherence: 4": 4, "coherence : 3/5": 3, " -Coherence:5": 5, "5": 5, "1": 1}
NOT_STATED = ["\n4", "- Fluency: 4", "Coherence 4", "4.5", "10", "0", "6", "1.2.3", "4" * 1000, ""]


def test_stated_scores():
    assert {text: stated_score(text, "Coherence") for text in STATED} == STATED
    assert [stated_score(text, "Coherence") for text in NOT_STATED] == [None] * len(NOT_STATED)
    any_number = {"4.5": 4.5, "10": 10.0, "-3": 0.0, "..": 0.0, "9" * 300: float("9" * 300)}
    assert {text: geval_score(text) for text in any_number} == any_number


@given(st.dictionaries(st.sampled_from(["1", "2", " 3", "4", "5", "6", "the", "5\n"]), st.floats(-20, 0)))
@examples(40)
def test_expected_score_by_probabilities(logprobs):
    p = {s: sum(math.exp(v) for token, v in logprobs.items() if token.strip() == str(s)) for s in range(1, 6)}
    normalized, raw, mass = expected_by_logprobs(logprobs)
    assert mass == pytest.approx(sum(p.values()))
    assert raw == pytest.approx(sum(s * share for s, share in p.items()))
    assert (normalized is None) == (mass == 0)
    if normalized is not None:
        assert normalized == pytest.approx(raw / mass)
        assert 1 <= normalized <= 5 + 1e-9


def test_a_judge_is_asked_for_every_criterion(monkeypatch):
    monkeypatch.setenv("ASSAY_JUDGE_KEY", "k-1")
    evaluation, judge = judged(always("- x", "4", "5", "2"), PROTOCOL, ONE, samples=4, model="m", seed=7)
    assert len(judge.bodies) == 7
    assert set(judge.paths) == {"/v1/chat/completions"}
    assert set(judge.keys) == {"Bearer k-1"}
    assert {(body["model"], body["n"], body["seed"]) for body in judge.bodies} == {("m", 4, 7)}
    prompts = [body["messages"][0]["content"] for body in judge.bodies]
    assert sorted(prompts) == sorted(prompt_of(name, *PROTOCOL.values()) for name in [*CRITERIA, "Coherence"])
    assert all(text in prompt for prompt in prompts for text in PROTOCOL.values())
    assert evaluation.per_record["score"].tolist() == pytest.approx([11 / 3, 11 / 3])
    assert evaluation.per_record["valid_samples"].tolist() == [0.75, 0.75]
    assert evaluation.aggregate["average"] == evaluation.aggregate["coverage"] == pytest.approx(11 / 3)
    assert np.isnan(evaluation.per_record["fluency"][1])
    assert not evaluation.failed


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_paper_s_prompt_has_its_parts_in_order(criterion):
    """Appendix A.2: the task, the criterion, five steps that end with what each score means, both texts, the form."""
    prompt = prompt_of(criterion, "Wash the cells.", "wash(cells)")
    definition = CRITERIA[criterion]
    ratings = ("1 (Poor)", "2 (Fair)", "3 (Good)", "4 (Very good)", "5 (Excellent)")
    parts = [
        f"{criterion} (1-5): {definition.meaning}",
        *(question[1:] for question in definition.questions),
        *(f"{rating}: {anchor}." for rating, anchor in zip(ratings, definition.anchors, strict=True)),
        "Wash the cells.",
        "wash(cells)",
        f"- {criterion}:",
    ]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)
    assert prompt.endswith(f"\n- {criterion}:")
    assert prompt != prompt_of(criterion, "Wash the cells.", "wash(cells)", prompt="assay")
    of_another = prompt_of("Safety", "{a}", "b")
    assert "Safety (1-5)\n" in of_another
    assert "{a}" in of_another


def by_seed(body, number):
    """Give a score that depends on the seed and on the prompt."""
    text = body["messages"][0]["content"]
    return 200, {}, completion(str(1 + (7 * body["seed"] + len(text) + text.count("Fluency")) % 5))


def test_the_table_has_deviations_of_its_values_and_of_single_scores():
    """The paper's ±, such as 4.98 ± 0.23: means over five runs cannot spread that far below a highest score of 5."""
    records = [PROTOCOL, {**PROTOCOL, "generated_response": "Spin."}, {"id": "not judged"}]
    with standing_in(by_seed) as judge:
        options = {"base_url": judge.base_url, "samples": 1, "rounds": 1}
        several = evaluate("llam_eval", records, seed=0, runs=3, by=["id"], **options)
        alone = [evaluate("llam_eval", records, seed=seed, **options) for seed in range(3)]
    for name in ("score", "average", "precision"):
        values = [run.aggregate[name] for run in alone]
        assert several.aggregate[name] == pytest.approx(np.mean(values))
        assert several.aggregate[f"{name}_std"] == pytest.approx(np.std(values, ddof=1))
        assert several.aggregate[f"{name}_std"] > 0
    for name in ("score", "coherence", "precision"):
        scores = np.concatenate([run.per_record[name][:2] for run in alone])
        assert len(scores) == 6
        assert several.aggregate[f"{name}_std_single"] == pytest.approx(scores.std(ddof=1))
        assert alone[0].aggregate[f"{name}_std_single"] == pytest.approx(alone[0].per_record[name][:2].std(ddof=1))
        assert f"{name}_std_single" not in several.per_record
        assert several.by["id"]["not judged"][f"{name}_std_single"] is None
    assert evaluate("llam_eval", [{"criterion": "Fluency", "responses": ["4"]}]).aggregate["fluency_std_single"] is None


def test_samples_are_asked_for_until_there_are_enough_and_one_states_a_score():
    evaluation, judge = judged(lambda body, _: (200, {}, completion(*["3", "5"][: body["n"]])), ONE, samples=5)
    assert [body["n"] for body in judge.bodies] == [5, 3, 1]
    assert evaluation.per_record["score"][0] == pytest.approx((3 + 5 + 3 + 5 + 3) / 5)
    late = [completion("well", text) for text in (None, None, "2")]
    evaluation, judge = judged(lambda _, number: (200, {}, late[number]), ONE, samples=2)
    assert (len(judge.bodies), evaluation.per_record["score"][0]) == (3, 2)
    evaluation, judge = judged(always("no"), ONE, samples=2, rounds=3)
    assert len(judge.bodies) == 3
    assert [failure.reason for failure in evaluation.failed] == ["no_score"]
    assert evaluation.aggregate["score"] is None


def test_log_probabilities():
    probabilities = {"4": 0.5, "2": 0.25, "the": 0.25}
    reply = completion("4", logprobs={token: math.log(share) for token, share in probabilities.items()})
    evaluation, judge = judged(lambda *_: (200, {}, reply), ONE, method="logprobs")
    (body,) = judge.bodies
    assert (body["logprobs"], body["top_logprobs"], body["n"]) == (True, 20, 1)
    assert evaluation.per_record["score"][0] == evaluation.per_record["coherence"][0] == pytest.approx(2.5 / 0.75)
    assert evaluation.per_record["score_logprobs_raw"][0] == pytest.approx(2.5)


def test_faults_that_pass_are_tried_again_and_others_are_not():
    """Only a fault of the first question is an error of the request."""
    faults = [(503, {"Retry-After": "0"}, b""), (429, {}, b"{}"), (200, {}, b"not json"), (200, {}, {"choices": 3})]
    replies = [*faults, (200, {}, completion("5"))]
    evaluation, judge = judged(lambda _, number: replies[number], ONE, samples=1, retries=4)
    assert (len(judge.bodies), evaluation.per_record["score"][0]) == (5, 5)
    with standing_in(lambda *_: (401, {}, b"the key k-1 is wrong")) as judge:
        with pytest.raises(InvalidRequest, match="HTTP status 401") as caught:
            evaluate("llam_eval", [ONE], base_url=judge.base_url)
        assert "k-1" not in str(caught.value)
    assert len(judge.bodies) == 1
    with pytest.raises(InvalidRequest, match="does not answer: ConnectionRefusedError, 2 tries"):
        evaluate("llam_eval", [ONE], base_url=judge.base_url, retries=1)  # it is there no more

    def picky(body, number):
        bad = "poison" in body["messages"][0]["content"]
        return (500, {}, b"") if bad else (200, {}, completion("3"))

    evaluation, _ = judged(picky, ONE, {**ONE, "generated_response": "poison"}, ONE, samples=1, retries=1)
    (failure,) = evaluation.failed
    assert (failure.record, failure.reason, failure.of_response) == (1, "judge_fault", False)
    assert evaluation.per_record["score"][[0, 2]].tolist() == [3, 3]
    assert np.isnan(evaluation.per_record["score"][1])


def test_an_interrupted_evaluation_stops_asking():
    def stop(done):
        raise KeyboardInterrupt

    task = task_named("llam_eval")
    with standing_in(always("3", pause=0.01)) as judge:
        options = task.checked({"base_url": judge.base_url, "samples": 1, "concurrency": 2})
        with pytest.raises(KeyboardInterrupt):
            task.evaluate([{"prompt": f"{k}"} for k in range(200)], options, stop)
    assert len(judge.bodies) < 20


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/v1", "http://user:secret@x/v1", "x", "http://a b"])
def test_addresses_of_judges_are_http(address):
    with pytest.raises(InvalidRequest, match=r"options\.base_url") as caught:
        evaluate("llam_eval", [ONE], base_url=address)
    assert "secret" not in str(caught.value)
