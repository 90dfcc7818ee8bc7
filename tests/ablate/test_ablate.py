"""`assay ablate`: rewards of one file under many configurations, figures within groups, and grids of configurations."""

from __future__ import annotations

import json
import math
import re
import sys
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import evaluate
from assay.research.ablate.ablation import METRICS, RankedGroups
from assay.research.ablate.grids import MAX_CONFIGURATIONS, grid_named
from assay.service.config import load
from assay.service.errors import InvalidSetting
from assay.service.records.rows.forms import reference_text
from assay.service.settings import ScoreSettings
from tests.command_line import KEY_LINE, ROOT, read_rows, write_rows
from tests.files.any_format import read
from tests.report.pages import Page

ROLLOUTS, LABORATORY = ROOT / "examples" / "rollouts.jsonl", ROOT / "examples" / "laboratory.toml"
EXAMPLES = read_rows(ROLLOUTS)


def test_the_columns_equal_separate_runs_bit_for_bit(call, tmp_path: Path) -> None:
    target, figures = tmp_path / "rewards.jsonl", tmp_path / "figures.json"
    result = call("ablate", ROLLOUTS, "-o", target, "--json", figures)
    assert result.exit_code == 0, result.output
    columns = read_rows(target)
    configs = json.loads(figures.read_bytes())["configs"]
    assert len(configs) == 8
    for config in configs:
        flags = [part for name, value in config["config"].items() for part in (f"--{name}", value)]
        scored = tmp_path / "scored.jsonl"
        assert call("score", ROLLOUTS, "-o", scored, *flags, "-q").exit_code == 0
        rows = read_rows(scored)
        rewards = [row["reward"] for row in rows]
        assert [row["rewards"][config["name"]] for row in columns] == rewards
        assert config["mean_reward"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-12)
        assert config["passed_gates"] == sum(row["reason"] == "ok" for row in rows) / len(rows)
        reported = call("score", ROLLOUTS, "-o", scored, *flags).stderr
        assert f"({100 * config['passed']:.1f} %)" in reported
        assert config["signature"] in reported


def test_the_metrics_are_those_of_evaluate(call, tmp_path: Path) -> None:
    target, figures, evaluated = (tmp_path / name for name in ("rewards.jsonl", "figures.json", "evaluated.json"))
    assert call("ablate", ROLLOUTS, "-o", target, "--json", figures, "--grid", "table22").exit_code == 0
    assert call("evaluate", ROLLOUTS, "--profile", "paper", "--json", evaluated).exit_code == 0
    document = json.loads(evaluated.read_bytes())
    for name in METRICS:
        assert [row["metrics"][name] for row in read_rows(target)] == document["per_record"][name]
    scales = json.loads(figures.read_bytes())["configs"]
    assert [scale["range"] for scale in scales] == [[0, 1], [0, 2.5], [0, 5], [-1.25, 1.25]]
    for scale in scales:  # another scale ranks alike
        assert scale["rank_correlation"]["base"]["mean"] == pytest.approx(1.0)
        assert scale["rank_correlation"] == scales[0]["rank_correlation"]


def test_vanilla_is_the_reward_of_texts(call, tmp_path: Path, monkeypatch) -> None:
    """Of the <orc> sections, as the paper's lexical columns are; steps have none and are compared as key lines."""

    class BERTScorer:
        def __init__(self, model_type: str, num_layers: int | None) -> None:
            pass

        def score(self, responses, references):
            return [np.array([len(response) % 10 / 10 for response in responses])] * 3

    module = ModuleType("bert_score")
    vars(module).update(BERTScorer=BERTScorer, utils=SimpleNamespace(model2layers={"roberta-large": 17}))
    monkeypatch.setitem(sys.modules, "bert_score", module)
    rows = [*EXAMPLES, {**EXAMPLES[0], "reference": {"steps": [{"action": "mix", "objects": [], "parameters": []}]}}]
    source, target, figures = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", tmp_path / "out.json"
    flags = ("--grid", "table3", "--option", "bertscore_model=roberta-large", "-o", target, "--json", figures)
    result = call("ablate", source, *flags)
    assert result.exit_code == 0, result.output
    records = [{"response": row["response"], "reference": reference_text(row["reference"])} for row in rows]
    expected = evaluate("lexical", records, section="orc", bertscore_model="roberta-large").per_record["vanilla"]
    assert [row["rewards"]["Vanilla"] for row in read_rows(target)] == expected.tolist()
    *_, vanilla = json.loads(figures.read_bytes())["configs"]
    assert vanilla["config"] == {"reward": "vanilla", "section": "orc", "bertscore_model": "roberta-large"}
    assert vanilla["mean_reward"] == pytest.approx(expected.mean())
    assert (vanilla["passed_gates"], vanilla["passed"]) == (None, None)
    assert vanilla["rank_correlation"]["order_lcs"]["mean"] is not None


def test_the_best_alternative_counts(call, tmp_path: Path) -> None:
    """The metrics are those of the alternative that counts for the base."""
    row = EXAMPLES[2]
    other, own, results = EXAMPLES[-1]["reference"], row["reference"], []
    for reference in ({"any_of": [other, own]}, own):
        source, target = write_rows(tmp_path / "in.jsonl", [{**row, "reference": reference}]), tmp_path / "out.jsonl"
        assert call("ablate", source, "-o", target).exit_code == 0
        results += read_rows(target)
    assert results[0] == results[1]
    assert results[0]["rewards"]["strict · sum · product"] > 0


def test_a_configuration_that_cannot_be_computed_has_no_numbers(call, tmp_path: Path) -> None:
    target, figures, page = tmp_path / "out.parquet", tmp_path / "out.json", tmp_path / "out.html"
    result = call("ablate", ROLLOUTS, "--grid", "table3", "-o", target, "--json", figures, "--html", page)
    assert result.exit_code == 0, result.output
    assert "--option bertscore_model=roberta-large" in result.stdout
    assert [row["rewards"]["Vanilla"] for row in read(target)] == [None] * 20
    document = json.loads(figures.read_bytes())
    assert document["configs"][-1]["mean_reward"] is document["configs"][-1]["group_std"] is None
    assert list(document["unavailable"]) == ["Vanilla"]
    assert "not computed" in page.read_text(encoding="utf-8")


def test_rows_with_errors_and_of_other_tasks(call, tmp_path: Path) -> None:
    other = {"task": "bioprobench.pqa", "reference": "5 ml", "response": "[ANSWER_START]5 ml & 80[ANSWER_END]"}
    rows = [EXAMPLES[0], b"{", {**EXAMPLES[1], "reference": "no step"}, other, {"response": 5, "reference": KEY_LINE}]
    source = write_rows(tmp_path / "in.jsonl", [*rows, EXAMPLES[2]])
    target = tmp_path / "rewards.jsonl"
    result = call("ablate", source, "-o", target, "--task-field", "task")
    assert result.exit_code == 1
    listed = re.findall(rf"^{re.escape(str(source))}:(\d+): .*\((\w+)\)$", result.stderr, re.MULTILINE)
    assert listed == [("2", "not_json"), ("3", "bad_step_line"), ("5", "not_a_string")]
    assert "bioprobench.pqa 1" in result.stderr
    reasons = [(row["line"], row.get("error", {}).get("reason")) for row in read_rows(target)]
    assert reasons == [(1, None), (2, "not_json"), (3, "bad_step_line"), (5, "not_a_string"), (6, None)]


def test_a_grid_that_cannot_be_used(call, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('ordr = "lcs"\nmin_coverage = 2\n')
    result = call("ablate", ROLLOUTS, "--grid", grid)
    assert result.exit_code == 2
    assert f"{grid}: ordr: " in result.stderr
    tables = tmp_path / "grid.json"
    tables.write_text(json.dumps([{"name": "short", "max_steps": 1}, {"order": "lcs"}]))
    many = "\n".join(KEY_LINE.replace("Step 1", f"Step {n}") for n in range(1, 1026))
    source = write_rows(tmp_path / "in.jsonl", [{"reference": many, "response": ""}])
    result = call("ablate", source, "--grid", tables, "--max-steps", 2000)
    assert result.exit_code == 1
    assert "more than 1024 steps (short) (too_long)" in result.stderr
    for arguments in (("--grid", "table2"), ("--json", "-", "--csv", "-"), ("--html", ROLLOUTS)):
        assert call("ablate", ROLLOUTS, *arguments).exit_code == 2


VALUES = st.sampled_from([-1.25, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
"""Few, so that there are ties and groups without spread."""

ROWS = st.lists(st.tuples(st.integers(0, 4), VALUES, VALUES), max_size=40)


def by_group(numbers: np.ndarray, column: np.ndarray) -> list[np.ndarray]:
    return [column[numbers == number] for number in np.unique(numbers)]


def columns_of(rows: list[tuple[int, float, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numbers = np.array([row[0] for row in rows], np.int64)
    return numbers, np.array([row[1] for row in rows]), np.array([row[2] for row in rows])


@given(ROWS)
def test_the_correlation_is_the_mean_of_those_of_scipy(rows) -> None:
    numbers, column, other = columns_of(rows)
    groups = RankedGroups(numbers)
    correlation = groups.correlation(groups.ranks(column), groups.ranks(other))
    pairs = zip(by_group(numbers, column), by_group(numbers, other), strict=True)
    spearmanr = pytest.importorskip("scipy.stats").spearmanr
    expected = [spearmanr(a, b).statistic for a, b in pairs if np.ptp(a) > 0 and np.ptp(b) > 0]
    assert correlation.groups == len(expected)
    assert correlation.mean is None if not expected else correlation.mean == pytest.approx(np.mean(expected), abs=1e-12)


@given(ROWS, st.integers(0, 1))
def test_the_spread_is_that_of_numpy(rows, ddof) -> None:
    numbers, column, _ = columns_of(rows)
    spread = RankedGroups(numbers).spread(column, ddof)
    multiple = [values for values in by_group(numbers, column) if len(values) > 1]
    if not multiple:
        assert spread is None
        return
    deviations = [0.0 if np.ptp(values) == 0 else values.std(ddof=ddof) for values in multiple]
    assert spread.deviation == pytest.approx(np.mean(deviations), abs=1e-12)
    assert spread.flat == np.mean([np.ptp(values) == 0 for values in multiple])


def test_groups_have_any_numbers_and_rounding_is_a_tie() -> None:
    groups = RankedGroups(np.array([7, 3, 7, 3, 5], np.int64))
    assert groups.sizes.tolist() == [2, 1, 2]
    assert groups.multiple == 2
    values = np.array([1.0, 0.0, 0.0, 1.0, 9.0])
    assert groups.spread(values, 1) == (math.sqrt(0.5), 0.0)
    opposite = groups.correlation(groups.ranks(values), groups.ranks(-values))
    assert opposite == (-1.0, 2)
    # 0.1 + 0.2 and 0.3 share a rank; a difference of more than 1e-9 does not.
    groups = RankedGroups(np.zeros(4, np.int64))
    ranks = groups.ranks(np.array([0.1 + 0.2, 0.3, 0.3 + 1e-8, 0.0]))
    assert ranks.centred.tolist() == [0.0, 0.0, 1.5, -1.5]
    equal = RankedGroups(np.zeros(2, np.int64))
    assert equal.spread(np.array([0.1 + 0.2, 0.3]), 1) == (0.0, 1.0)
    assert equal.ranks(np.array([0.1 + 0.2, 0.3])).squares.tolist() == [0.0]


def test_tables_groups_and_the_report(call, tmp_path: Path) -> None:
    grid, figures = tmp_path / "grid.toml", tmp_path / "figures.json"
    grid.write_text('[[configs]]\nname = "<b>lenient</b>"\nmin_coverage = 0.5\n')
    page, latex, csv = (tmp_path / name for name in ("page.html", "table.tex", "table.csv"))
    result = call("ablate", ROLLOUTS, "--grid", grid, "--html", page, "--latex", latex, "--csv", csv, "--markdown", "-")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[2].startswith(r"| base \* | 0.4669 | 0 to 1 | 80.0 | 50.0 |")
    assert r"$\rho$ Semantic-A" in latex.read_text()
    assert csv.read_text().splitlines()[1].startswith("base *,0.4669,0 to 1,80.0,50.0,0.2804,0.0,1.000,4,")
    report_page = Page(page)
    assert "<b>lenient" in report_page.text
    assert report_page.tags.count("figure") == 2
    source = write_rows(tmp_path / "in.jsonl", [{**row, "query": k % 2} for k, row in enumerate(EXAMPLES)])
    assert call("ablate", source, "--group-field", "query", "--json", figures).exit_code == 0
    assert json.loads(figures.read_bytes())["groups"] == {"number": 2, "of_two_or_more": 2}
    result = call("ablate", write_rows(source, []), "--json", figures, "--html", page)
    assert result.exit_code == 0, result.output
    assert json.loads(figures.read_bytes())["configs"][0]["mean_reward"] is None


PAPER = ScoreSettings()


def grid_of(path: Path, text: str, base: ScoreSettings = PAPER):
    path.write_text(text, encoding="utf-8")
    return grid_named(str(path), base)


def paths_of(path: Path, text: str) -> list[str]:
    with pytest.raises(InvalidSetting) as raised:
        grid_of(path, text)
    return [issue.path for issue in raised.value.issues]


def test_table_21_has_every_combination_and_the_paper_s_own_first() -> None:
    grid = grid_named("table21", PAPER)
    combinations = [
        (configuration.settings.order, configuration.settings.semantics, configuration.settings.total)
        for configuration in grid.configurations
    ]
    assert sorted(combinations) == sorted(product(("strict", "lcs"), ("sum", "product"), ("product", "sum")))
    assert [configuration.name for configuration in grid.configurations] == [
        " · ".join(values) for values in combinations
    ]
    assert grid.configurations[grid.base].settings == PAPER
    assert grid.base == 0
    ranges = [configuration.settings.reward_scale for configuration in grid_named("table22", PAPER).configurations]
    assert ranges == ["unit", "raw", "double", "shift"]


def test_rules_3_has_its_options_alone_and_together() -> None:
    grid = grid_named("rules3", PAPER)
    changes = {
        configuration.name: configuration.settings.model_dump(exclude_defaults=True)
        for configuration in grid.configurations
    }
    quantities, numbers = {"parameter_similarity": "quantities"}, {"max_added_numbers": 0}
    assert changes == {
        "words": {},
        "words · added numbers 0": numbers,
        "quantities": quantities,
        "quantities · added numbers 0": quantities | numbers,
    }
    assert grid.base == 0


def test_rules_4_has_what_each_of_its_options_adds_whatever_the_base_is() -> None:
    quantities, by_words = {"parameter_similarity": "quantities"}, {"coverage": "words"}
    factor, few = {"quantity_error_factor": 0.5}, {"max_added_numbers": 0, "max_added_words": 2}
    expected = {
        "paper": {},
        "quantities": quantities,
        "quantities · factor 0.5": quantities | factor,
        "by words": by_words,
        "by words · numbers 0": by_words | {"max_added_numbers": 0},
        "by words · numbers 0 · words 2": by_words | few,
        "laboratory": quantities | factor | by_words | few,
    }
    for base in expected:
        grid = grid_named("rules4", PAPER.overridden(expected[base]))
        changes = {row.name: row.settings.model_dump(exclude_defaults=True) for row in grid.configurations}
        assert (changes, grid.configurations[grid.base].name) == (expected, base)
    assert load({}, {}, LABORATORY).score == grid.configurations[-1].settings


def test_table_3_has_the_rows_of_the_paper_by_its_names() -> None:
    """But for KL(·), which is a penalty of the training and no part of the reward."""
    *of_score, vanilla = grid_named("table3", PAPER).configurations
    off = {
        "Thoth": (),
        "w/o f(d)": ("use_step_gap",),
        "w/o g(L̄)": ("use_length",),
        "w/o f(d)+g(L̄)": ("use_step_gap", "use_length"),
        "w/o m_ij": ("use_position",),
        "w/o Order(·)": ("use_order",),
        "w/o Order(·)+f(d)+g(L̄)": ("use_order", "use_step_gap", "use_length"),
    }
    assert {configuration.name: configuration.settings for configuration in of_score} == {
        name: PAPER.checked(dict.fromkeys(switches, False), PAPER) for name, switches in off.items()
    }
    assert (vanilla.name, vanilla.task, vanilla.options.reward, vanilla.options.section) == (
        "Vanilla",
        "lexical",
        "vanilla",
        "orc",
    )
    assert vanilla.identity["signature"].startswith("lexical|")


def test_options_are_those_of_vanilla(tmp_path: Path) -> None:
    *_, vanilla = grid_named("table3", PAPER, {"bertscore_model": "roberta-large"}).configurations
    assert vanilla.options.bertscore_model == "roberta-large"
    for name, options in (("table3", {"bertscore": "x", "bertscore_modle": 1}), ("table21", {"bertscore_model": "x"})):
        with pytest.raises(InvalidSetting) as raised:
            grid_named(name, PAPER, options)
        assert len(raised.value.issues) == len(options)
    (own,) = grid_of(tmp_path / "grid.toml", 'name = "Vanilla"\n', PAPER).configurations
    assert own.settings == PAPER


def test_the_configuration_at_hand_is_marked_or_added() -> None:
    lenient = PAPER.checked({"order": "lcs", "min_coverage": 0.8})
    grid = grid_named("table21", lenient)
    assert grid.configurations[grid.base].name == "lcs · sum · product"
    assert {configuration.settings.min_coverage for configuration in grid.configurations} == {0.8}
    without = PAPER.checked({"use_order": False, "use_length": False})
    grid = grid_named("table3", without)
    assert [configuration.name for configuration in grid.configurations[:2]] == ["base", "Thoth"]
    assert (grid.base, grid.configurations[0].settings) == (0, without)


def test_lists_of_values_and_of_configurations(tmp_path: Path) -> None:
    grid = grid_of(tmp_path / "grid.toml", 'order = ["strict", "lcs"]\nposition_decay = [1, 1.5]\ntotal = "product"\n')
    assert [configuration.name for configuration in grid.configurations] == [
        "order=strict · position_decay=1",
        "order=strict · position_decay=1.5",
        "order=lcs · position_decay=1",
        "order=lcs · position_decay=1.5",
    ]
    assert grid.base == 1
    lenient, decay = 'name = "lenient"\nmin_coverage = 0.8', 'name = "λ"\nposition_decay = [1, 2]'
    text = "\n".join(f"[[configs]]\n{table}" for table in (lenient, decay, ""))
    names = ["lenient", "λ · position_decay=1", "λ · position_decay=2", "base"]
    grid = grid_of(tmp_path / "grid.toml", text)
    assert [configuration.name for configuration in grid.configurations] == names
    assert grid.base == 3
    tables = [{"name": "lenient", "min_coverage": 0.8}, {"name": "λ", "position_decay": [1, 2]}, {}]
    for document in (tables, {"configs": tables}):
        read_grid = grid_of(tmp_path / "grid.json", json.dumps(document))
        assert [configuration.settings for configuration in read_grid.configurations] == [
            configuration.settings for configuration in grid.configurations
        ]


def test_none_in_a_grid_is_null(tmp_path: Path) -> None:
    grid = grid_of(tmp_path / "grid.toml", 'max_added_numbers = ["none", 0]\n')
    limits = {configuration.name: configuration.settings.max_added_numbers for configuration in grid.configurations}
    assert limits == {"max_added_numbers=none": None, "max_added_numbers=0": 0}


def test_every_invalid_setting_is_named(tmp_path: Path) -> None:
    text = 'order = ["strict", "subsequence"]\nposition_decai = 2\nmin_coverage = [0.9, 1.1]\ntotal = []\n'
    assert paths_of(tmp_path / "grid.toml", text) == ["order[1]", "position_decai", "min_coverage[1]", "total"]
    tables = [{"order": "lcs"}, 5, {"name": 1, "use_order": "no"}]
    path = tmp_path / "grid.json"
    assert paths_of(path, json.dumps(tables)) == ["configs[1]", "configs[2].name", "configs[2].use_order"]
    assert paths_of(path, json.dumps({"configs": [{}], "order": "lcs"})) == ["configs[0]"]
    assert paths_of(path, json.dumps([{"order": "lcs"}, {"order": "lcs"}])) == ["order=lcs"]
    for malformed in ("[", "5", "[]", "{}"):
        assert len(paths_of(path, malformed)) == 1
    most = [1 + k / 100 for k in range(MAX_CONFIGURATIONS)]
    assert len(grid_of(path, json.dumps({"position_decay": most})).configurations) >= MAX_CONFIGURATIONS
    assert paths_of(path, json.dumps({"position_decay": [*most, 9]})) == ["the grid"]
