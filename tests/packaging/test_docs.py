"""The pages of the documentation are complete: their navigation, their tables of settings, their commands."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from assay.service.cli.main import main
from assay.service.config import ServerSettings
from assay.service.scoring.threads import usable_cores
from assay.service.settings import ScoreSettings
from tests.packaging.snippets import PAGES, ROOT


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_navigation_names_every_page() -> None:
    named = re.findall(r"^ +- (?:.+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == len(set(named))
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert pages - set(named) == set()


def test_every_page_is_found_from_another() -> None:
    """Readers of the repository have no navigation: links lead from README to every page."""
    linked, found = {"README.md", "docs/index.md"}, set()
    while new := linked - found:
        for page in new:
            text = (ROOT / page).read_text(encoding="utf-8")
            for target in re.findall(r"\]\(([^()\s#:]+\.md)(?:#[^()]*)?\)", text):
                path = (ROOT / page).parent.joinpath(target).resolve()
                linked |= {path.relative_to(ROOT).as_posix()} if path.is_file() else set()
        found |= new
    assert {page for page in PAGES if page.startswith("docs/")} - found == set()


def shown_default(field: Any) -> str:
    if field.default_factory is not None:
        return "all cores" if field.default_factory is usable_cores else "by cores"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return "none" if field.default in (None, ()) else f"`{field.default}`"


@pytest.mark.parametrize("model", [ScoreSettings, ServerSettings])
def test_the_tables_of_settings_are_complete(model: type[Any]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", text_of("settings.md"), re.MULTILINE))
    for name, field in model.model_fields.items():
        assert rows.get(name) == shown_default(field), name
    assert set(rows) <= {*ScoreSettings.model_fields, *ServerSettings.model_fields}


def test_the_table_of_commands_is_complete() -> None:
    rows = re.findall(r"^\| `assay (\w+)` \|", text_of("cli.md"), re.MULTILINE)
    assert sorted(rows) == sorted(main.list_commands(click.Context(main)))


def test_the_faq_has_the_reasons() -> None:
    from assay.kernels.status import REASONS

    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", text_of("faq.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == {*REASONS} - {"no_steps"}
