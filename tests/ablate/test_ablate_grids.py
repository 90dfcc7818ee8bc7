"""The grids of the paper and those of files."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from assay.research.ablate.grids import MAX_CONFIGURATIONS, grid_named
from assay.service.errors import InvalidSetting
from assay.service.settings import ScoreSettings

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
    found = [(one.settings.order, one.settings.semantics, one.settings.total) for one in grid.configurations]
    assert sorted(found) == sorted(product(("strict", "lcs"), ("sum", "product"), ("product", "sum")))
    assert [one.name for one in grid.configurations] == [" · ".join(values) for values in found]
    assert grid.configurations[grid.base].settings == PAPER
    assert grid.base == 0
    ranges = [one.settings.reward_scale for one in grid_named("table22", PAPER).configurations]
    assert ranges == ["unit", "raw", "double", "shift"]


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
    assert {one.name: one.settings for one in of_score} == {
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
    assert {one.settings.min_coverage for one in grid.configurations} == {0.8}
    without = PAPER.checked({"use_order": False, "use_length": False})
    grid = grid_named("table3", without)
    assert [one.name for one in grid.configurations[:2]] == ["base", "Thoth"]
    assert (grid.base, grid.configurations[0].settings) == (0, without)


def test_lists_of_values_and_of_configurations(tmp_path: Path) -> None:
    grid = grid_of(tmp_path / "grid.toml", 'order = ["strict", "lcs"]\nposition_decay = [1, 1.5]\ntotal = "product"\n')
    assert [one.name for one in grid.configurations] == [
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
    assert [one.name for one in grid.configurations] == names
    assert grid.base == 3
    tables = [{"name": "lenient", "min_coverage": 0.8}, {"name": "λ", "position_decay": [1, 2]}, {}]
    for document in (tables, {"configs": tables}):
        found = grid_of(tmp_path / "grid.json", json.dumps(document))
        assert [one.settings for one in found.configurations] == [one.settings for one in grid.configurations]


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
