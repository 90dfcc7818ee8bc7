"""Code of Ray workers, tested without Ray: slices of a batch, tables of a data set, settings of a replica."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, InvalidRequest, InvalidSetting, Scorer
from assay.kernels.column import column_of
from assay.service.errors import NotInstalled
from assay.service.ray.pool import PoolActor, ScorerPool, pieces_of
from assay.service.rewards.batch import Batch
from assay.service.rewards.registry import TASK_COMPONENTS
from assay.service.scoring.references import ReferenceTexts
from assay.service.scoring.texts import strings_of

pa = pytest.importorskip("pyarrow", reason="needs assay[arrow]")


ADD = '{"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
REFERENCE = f"Step 1: {ADD}"
PERFECT = f"<think>…</think><key>\n{REFERENCE}\n</key><orc>\nStep 1: Add 5 ml of lysis buffer.\n</orc><note>-</note>"


@given(count=st.integers(0, 300), references=st.integers(1, 20), most=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_slices_cover_every_response_once_and_every_reference(count, references, most, seed):
    dice = np.random.default_rng(seed)
    texts = [b"%d," % row * repeats for row, repeats in enumerate(dice.integers(0, 9, count).tolist())]
    index = dice.integers(0, references, count)
    names = [b"%d" % number for number in range(references)]
    batch = Batch(responses=column_of(texts), references=ReferenceTexts(column_of(names)), reference_index=index)
    pieces = pieces_of(batch, most)
    assert 1 <= len(pieces) <= max(1, min(most, count // 64))
    assert [text for piece in pieces for text in strings_of(piece.responses)] == [text.decode() for text in texts]
    for piece in pieces:
        assert piece.reference_numbers[piece.reference_index].tolist() == index[piece.rows].tolist()
        assert len(np.unique(piece.reference_numbers)) == len(piece.reference_numbers)
        assert strings_of(piece.references.texts) == [str(number) for number in piece.reference_numbers.tolist()]
    assert set(np.concatenate([piece.reference_numbers for piece in pieces]).tolist()) == set(range(references))


def test_slices_give_the_rewards_of_the_whole(example_rollouts):
    responses = [rollout["response"] for rollout in example_rollouts] * 30
    references = [rollout["reference"] for rollout in example_rollouts]
    index = np.arange(len(responses)) % len(references)
    whole = Scorer(threads=1, order="lcs").score(responses, references, index)
    actor = pickle.loads(pickle.dumps(PoolActor))({"order": "lcs"}, 1)
    assert actor.ready() == Scorer(order="lcs").config_id
    column, expected = column_of([r.encode() for r in responses]), column_of([r.encode() for r in references])
    for piece in pieces_of(Batch(responses=column, references=ReferenceTexts(expected), reference_index=index), 5):
        issues, columns = actor.score(piece.responses, piece.references, piece.reference_index)
        assert issues == ()
        assert columns.rewards[0].tobytes() == whole.rewards[piece.rows].tobytes()
        assert columns.reason_codes[0].tobytes() == whole.reason_codes[piece.rows].tobytes()
        assert columns.measures[0].tobytes() == whole.measures[:, piece.rows].tobytes()


class Actor:
    """A scorer whose arguments and results travel as between processes."""

    def __init__(self, **overrides):
        self._actor = PoolActor(overrides, 1)
        self.score = SimpleNamespace(remote=self._score)

    def _score(self, *arguments):
        return pickle.loads(pickle.dumps(self._actor.score(*pickle.loads(pickle.dumps(arguments)))))


class TestPool:
    @pytest.fixture
    def pool(self, monkeypatch):
        monkeypatch.setitem(
            sys.modules, "ray", SimpleNamespace(remote=lambda _: SimpleNamespace(options=options), get=list)
        )

        def options(**_):
            return SimpleNamespace(remote=lambda overrides, _: Actor(**overrides))

        pool = ScorerPool(actors=3, order="lcs")
        return pool

    def test_alternatives_and_steps(self, pool, example_rollouts):
        responses = [rollout["response"] for rollout in example_rollouts] * 30
        texts = [rollout["reference"] for rollout in example_rollouts]
        references = [{"any_of": [texts[k - 1], text]} if k % 2 else text for k, text in enumerate(texts)]
        index = np.arange(len(responses)) % len(references)
        scores = pool.score(responses, references, index, steps=True)
        expected = Scorer(order="lcs").score(responses, references, index, steps=True)
        assert scores.rewards.tobytes() == expected.rewards.tobytes()
        assert scores.measures.tobytes() == expected.measures.tobytes()
        assert scores.alternative.tolist() == expected.alternative.tolist()
        assert 0 < scores.alternative.sum() < len(responses)
        assert list(scores.steps) == list(expected.steps)
        assert pool.score(responses[:1], references[:1]).steps is None

    def test_issues_name_the_alternative(self, pool):
        wrong = [{"any_of": [REFERENCE, "x"]}, REFERENCE, {"any_of": []}, {"any_of": ["", REFERENCE, ""]}]
        for references in (wrong, wrong[:2], wrong[3:]):
            with pytest.raises(InvalidReference) as expected:
                Scorer().score([PERFECT], references, [0])
            with pytest.raises(InvalidReference) as raised:
                pool.score([PERFECT], references, [0])
            assert raised.value.issues == expected.value.issues


class TestDatasetScorer:
    def scored(self, table, components=False, tasks=(None, None), steps=False, **overrides):
        from assay.service.ray.dataset import DatasetScorer

        return DatasetScorer("response", "reference", tasks, components, 1, overrides, steps)(table)

    def test_rows_of_several_tasks(self):
        right, order = "[ANSWER_START][1, 1, 0][ANSWER_END]", '{"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}'
        columns = {"task": ["score", "bioprobench.ord", None], "response": [PERFECT, right, "x"]}
        table = pa.table({**columns, "reference": [REFERENCE, order, REFERENCE]})
        scored_table = self.scored(table, components=True, tasks=("task", {"bioprobench.ord": {"repeats": "failed"}}))
        assert scored_table.column_names[3:-1] == ["reward", "reason", *TASK_COMPONENTS]
        scores = Scorer().score(
            *(columns["response"], [REFERENCE, order, REFERENCE]),
            task=["score", "bioprobench.ord", "score"],
            task_options={"bioprobench.ord": {"repeats": "failed"}},
        )
        assert scored_table["reward"].to_pylist() == scores.rewards.tolist() == [1.0, -1.0, 0.0]
        with pytest.raises(InvalidRequest, match="tsk"):
            self.scored(table, tasks=("tsk", None))

    def test_lists_are_alternatives_of_rows_of_score_only(self):
        columns = {"task": ["score", "bioprobench.pqa", "score"], "response": [PERFECT] * 3}
        table = pa.table({**columns, "reference": [["x", REFERENCE], ["5 ml"], [REFERENCE, REFERENCE]]})
        scored_table = self.scored(table, tasks=("task", None), steps=True)
        assert scored_table.column_names[3:] == ["reward", "reason", "steps", "alternative", "error"]
        assert scored_table["reward"].to_pylist() == [None, None, 1.0]
        assert scored_table["alternative"].to_pylist() == [None, None, 0]
        assert [None if steps is None else len(steps) for steps in scored_table["steps"].to_pylist()] == [None, None, 1]
        first, second, _ = scored_table["error"].to_pylist()
        assert first["detail"].startswith("reference.any_of[0] of score: line 1 is not of the form")
        assert second["reason"] == "bad_reference"

    def test_a_fault_is_an_error_and_never_a_reward(self):
        rows = [(PERFECT, REFERENCE), (PERFECT, "x"), (None, REFERENCE), (PERFECT, None)]
        table = pa.table({"id": range(4), "response": [r for r, _ in rows], "reference": [r for _, r in rows]})
        scored_table = self.scored(table)
        assert scored_table.column_names == ["id", "response", "reference", "reward", "reason", "error"]
        empty = self.scored(table.slice(0, 0))
        assert (
            empty.select(["reward", "reason", "error"]).schema
            == scored_table.select(["reward", "reason", "error"]).schema
        )
        assert scored_table["reward"].to_pylist() == [1.0, None, None, None]
        assert scored_table["reason"].to_pylist() == ["ok", None, None, None]
        errors = scored_table["error"].to_pylist()
        assert errors[0] is None
        assert [error["reason"] for error in errors[1:]] == ["bad_step_line", "not_a_string", "wrong_type"]

    @pytest.mark.parametrize(
        ("columns", "path"),
        [({"response": [PERFECT]}, "reference"), ({"response": ["a"], "reference": ["b"], "reward": [1.0]}, "reward")],
    )
    def test_columns_that_do_not_fit_are_named(self, columns, path):
        with pytest.raises(InvalidRequest) as caught:
            self.scored(pa.table(columns))
        assert [issue.path for issue in caught.value.issues] == [path]


def test_settings_of_a_replica_arrive_unchanged(tmp_path, monkeypatch):
    from assay.service.ray.serving import builder, effective_settings

    keys = tmp_path / "keys"
    keys.write_text("one\ntwo\n")
    monkeypatch.setenv("ASSAY_MIN_COVERAGE", "0.9")
    settings = effective_settings({"threads": 1, "order": "lcs", "max_mean_words": "20", "api_keys_file": str(keys)})
    monkeypatch.delenv("ASSAY_MIN_COVERAGE")
    keys.unlink()
    config = builder(settings)().state.service.config
    assert (config.score.order, config.score.min_coverage, config.score.max_mean_words) == ("lcs", 0.9, 20.0)
    assert config.server.threads == 1
    assert [key.get_secret_value() for key in config.server.api_keys] == ["one", "two"]
    with pytest.raises(InvalidSetting, match=r"nothing.of.the.kind"):
        effective_settings({"nothing_of_the_kind": 1})


def test_replicas_follow_the_requests_that_run_and_wait_if_asked():
    from assay.service.ray.serving import deployment_options

    assert deployment_options({}) == {"num_replicas": 1, "max_ongoing_requests": 256}
    scaling = {"min_replicas": 1, "target_ongoing_requests": 4, "max_replicas": 8}
    expected = {"max_ongoing_requests": 16, "autoscaling_config": scaling}
    assert deployment_options({"max_replicas": 8, "max_ongoing_requests": 16}) == expected
    for arguments, path in (
        ({"min_replicas": 2}, "max_replicas"),
        ({"max_replicas": 2, "num_replicas": 2}, "num_replicas"),
    ):
        with pytest.raises(InvalidSetting) as caught:
            deployment_options(arguments)
        assert [issue.path for issue in caught.value.issues] == [path]


def test_settings_that_do_not_apply_are_refused():
    from assay.service.ray import application

    with pytest.raises(InvalidSetting) as caught:
        application({"port": "8000", "order": "lcs", "workers": 2})
    assert [issue.path for issue in caught.value.issues] == ["port", "workers"]


@pytest.mark.parametrize("name", ["ScorerPool", "score_dataset", "application"])
def test_without_ray_the_command_that_installs_it_is_named(monkeypatch, name):
    import assay.service.ray

    for module in [module for module in sys.modules if module.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "ray", None)
    call = getattr(assay.service.ray, name)
    with pytest.raises(NotInstalled, match=r"pip install .*ray\[data,serve\]"):
        call() if name == "ScorerPool" else call({})
