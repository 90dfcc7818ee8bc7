"""The documentation lists what the code has: settings, commands, reasons, components, metrics and units."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click

from assay.kernels.rules import KEY_NUMBERING, REASONS
from assay.kernels.score import COMPONENTS
from assay.kernels.text.words import UNITS
from assay.service.cli.main import main
from assay.service.config import ServerSettings
from assay.service.settings import NULLABLE, RULES_VERSION, ScoreSettings, usable_cores
from assay.service.tasks.thoth import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "rules.md").read_text(encoding="utf-8")
OPEN = (DOCS / "decisions" / "what-the-paper-leaves-open.md").read_text(encoding="utf-8")
COMPONENT_PAGES = sorted((DOCS / "reward").glob("*.md"))


def section(title: str) -> str:
    """Return the text under a heading, up to the next one of its level."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, title
    return match[1]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of the tables in a text, without headers."""
    lines = text.split("\n")
    for line, before in zip(lines, ["", *lines], strict=False):
        if line.startswith("| ") and before.startswith("|"):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def shown(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool | None) else value}`"


def bounds(field: Any) -> str:
    """Return the bounds of a number as the page says them."""
    limits = {
        name: getattr(each, name) for each in field.metadata for name in ("ge", "gt", "le") if hasattr(each, name)
    }
    if {"gt", "le"} <= limits.keys():
        return f"above {limits['gt']}, at most {limits['le']}"
    if "le" in limits:
        return f"{limits['ge']} to {limits['le']}"
    return f"above {limits['gt']}" if "gt" in limits else f"at least {limits['ge']}"


def values(name: str) -> str:
    """Return the values of a setting as the page says them."""
    field = ScoreSettings.model_fields[name]
    if field.annotation is bool:
        return f"{shown(field.default)}, {shown(not field.default)}"
    if name in NULLABLE:
        return f"{shown(None)}, {bounds(field)}"
    choices = get_args(field.annotation) or ((1, 0) if name == "advantage_ddof" else ())
    return ", ".join(map(shown, choices)) if choices else bounds(field)


def test_the_version_is_that_of_the_code() -> None:
    assert re.findall(r"\*\*Rules version (\w+)\.\*\*", PAGE) == [RULES_VERSION]
    assert f"**Version {RULES_VERSION}**" in section("Changes of the rules")


def test_every_setting_is_described_with_its_default_and_values() -> None:
    described = [(name, default, valid) for name, default, valid, _ in rows(section("Settings"))]
    fields = ScoreSettings.model_fields
    assert described == [(f"`{name}`", shown(field.default), values(name)) for name, field in fields.items()]


def test_every_reason_is_described_by_its_code_and_gate() -> None:
    described = [(code, reason, gate) for code, reason, gate, _ in rows(section("Reasons"))]
    gates = ["", *("format" if k < KEY_NUMBERING else "consistency" for k in range(1, len(REASONS)))]
    assert described == [(str(k), f"`{name}`", gates[k]) for k, name in enumerate(REASONS)]


def test_every_component_metric_unit_and_decision_is_described() -> None:
    components = [cells[0] for cells in rows(section("Score and reward")) if len(cells) == 2]
    assert components == [f"`{name}`" for name in COMPONENTS]
    metrics = re.findall(r"`(\w+)`", " ".join(cells[0] for cells in rows(section("Evaluation metrics"))))
    assert metrics == list(METRICS)
    units = {}
    for cells in rows(section("Words")):
        for unit, names in zip(cells[::2], cells[1::2], strict=True):
            units[unit.strip("`")] = (unit.strip("`"), *filter(None, names.split(", ")))
    assert units == UNITS
    mark = r"\[\*\*\[(D\d+)\]\*\*\]\(decisions/what-the-paper-leaves-open\.md\)"
    marks = re.findall(mark, PAGE.split("| symbol |")[1])
    listed = [cells[0].strip("*") for cells in rows(OPEN)]
    assert sorted(marks, key=lambda mark: int(mark[1:])) == listed == [f"D{k}" for k in range(1, len(listed) + 1)]


def test_the_pages_of_the_parts_name_every_setting() -> None:
    """Each page links to the table of the rules, which has defaults, values and meaning."""
    text = "".join(page.read_text(encoding="utf-8") for page in COMPONENT_PAGES)
    assert {name for name in ScoreSettings.model_fields if f"`{name}" not in text} == set()


def shown_default(field: Any) -> str:
    if field.default_factory is not None:
        return "all cores" if field.default_factory is usable_cores else "by cores"
    return "none" if field.default in (None, ()) else shown(field.default)


def test_the_table_of_settings_of_the_service_is_complete() -> None:
    listed = {cells[0].strip("`"): cells[1] for cells in rows((DOCS / "settings.md").read_text(encoding="utf-8"))}
    assert listed == {name: shown_default(field) for name, field in ServerSettings.model_fields.items()}


def test_the_tables_of_commands_and_of_reasons_are_complete() -> None:
    commands = re.findall(r"^\| `assay (\w+)` \|", (DOCS / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(commands) == sorted(main.list_commands(click.Context(main)))
    reasons = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", (DOCS / "faq.md").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(reasons))) == {*REASONS} - {"no_steps"}


def test_contributing_names_every_file_that_a_trainer_touches() -> None:
    """A file that names two trainers as different as AReaL and SkyRL probably lists all of them."""
    root = DOCS.parent
    page = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^\*\*A trainer\*\*.*?(?=^\*\*A framework)", page, re.MULTILINE | re.DOTALL)
    named = tuple(re.findall(r"`([\w./-]+/|[\w./-]+\.\w+)`", section))
    assert "mkdocs.yml" in named
    folders = ("clients", "docs", "examples", "research", "service", "tests")
    files = [*root.glob("*.*"), *(path for folder in folders for path in (root / folder).rglob("*.*"))]
    own = "CHANGELOG.md", "CONTRIBUTING.md", "tests/packaging/test_docs.py"
    built = re.compile(r"/build/|\.egg-info/")  # what building a package leaves, as `make test-environments` does
    for path in files:
        name = path.relative_to(root).as_posix()
        if path.suffix in {".md", ".py", ".toml", ".txt", ".yml"} and name not in own and not built.search(name):
            text = path.read_text(encoding="utf-8").lower()
            assert not ("areal" in text and "skyrl" in text) or name.startswith(named), name
    assert [name for name in named if "/" in name and not (root / name).exists()] == []
