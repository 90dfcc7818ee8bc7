"""The dashboard as Grafana reads it."""

from __future__ import annotations

import re


def test_panels_lie_beside_each_other_and_never_over_each_other(grafana_dashboard):
    taken = set()
    for panel in grafana_dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    numbers = [panel["id"] for panel in grafana_dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_every_panel_says_what_it_shows(grafana_dashboard):
    titles = [panel["title"] for panel in grafana_dashboard["panels"]]
    assert len(set(titles)) == len(titles)
    for panel in grafana_dashboard["panels"]:
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"]
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_it_shows_what_a_trainer_and_an_operator_look_for(grafana_dashboard):
    asked = " ".join(target["expr"] for panel in grafana_dashboard["panels"] for target in panel.get("targets", []))
    for metric in (
        "assay_responses_total",
        "assay_request_duration_seconds_bucket",
        "assay_reward_bucket",
        "assay_responses_passed_total",
        "assay_component_sum",
        "assay_groups_without_spread_total",
        "assay_stage_duration_seconds",
        "assay_process_resident_memory_bytes",
    ):
        assert metric in asked
    kinds = {panel["title"]: panel["type"] for panel in grafana_dashboard["panels"]}
    assert kinds["Reward distribution"] == "heatmap"
    assert kinds["Reasons"] == "timeseries"


def test_what_counts_by_run_is_shown_for_the_chosen_runs(grafana_dashboard):
    shown = [target["expr"] for panel in grafana_dashboard["panels"] for target in panel.get("targets", [])]
    selectors = re.findall(r"(assay_(?:responses|reward|component|group)\w*)\{([^}]*)\}", " ".join(shown))
    assert len(selectors) > 10
    assert [name for name, labels in selectors if 'run=~"$run"' not in labels] == []


def test_its_variables_choose_what_is_shown(grafana_dashboard):
    names = [variable["name"] for variable in grafana_dashboard["templating"]["list"]]
    assert names == ["datasource", "job", "instance", "run", "task"]
