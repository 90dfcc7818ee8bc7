"""The pages of the documentation are complete, and what they link exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from assay.kernels.rules import REASONS
from assay.service.cli.main import main
from assay.service.config import ServerSettings
from assay.service.settings import ScoreSettings, usable_cores
from tests.packaging.snippets import PAGES, ROOT

FENCES = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s#:]*)(#[^()\s]+)?\)")


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCES.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {"#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def links_of(page: str) -> list[tuple[Path, str]]:
    """Return the files that a page links, and the anchors in them."""
    text = FENCES.sub("", (ROOT / page).read_text(encoding="utf-8"))
    folder = (ROOT / page).parent
    return [((folder / target).resolve() if target else ROOT / page, anchor) for target, anchor in LINK.findall(text)]


def test_links_lead_to_files_and_headings_of_the_repository() -> None:
    """The site's build checks those of docs/ as well; here GitHub's rules count, for all pages."""
    for page in PAGES:
        for path, anchor in links_of(page):
            assert not path.is_relative_to(ROOT) or path.exists(), (page, path)
            assert not anchor or anchor in anchors(path), (page, path, anchor)


def shown_default(field: Any) -> str:
    if field.default_factory is not None:
        return "all cores" if field.default_factory is usable_cores else "by cores"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return "none" if field.default in (None, ()) else f"`{field.default}`"


def rows_of(page: str, pattern: str) -> list[Any]:
    return re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("model", [ScoreSettings, ServerSettings])
def test_the_tables_of_settings_are_complete(model: type[Any]) -> None:
    rows = dict(rows_of("docs/settings.md", r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$"))
    for name, field in model.model_fields.items():
        assert rows.get(name) == shown_default(field), name
    assert set(rows) <= {*ScoreSettings.model_fields, *ServerSettings.model_fields}


def test_the_tables_of_commands_and_of_reasons_are_complete() -> None:
    commands = rows_of("docs/cli.md", r"^\| `assay (\w+)` \|")
    assert sorted(commands) == sorted(main.list_commands(click.Context(main)))
    reasons = rows_of("docs/faq.md", r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|")
    assert set(re.findall(r"`(\w+)`", "".join(reasons))) == {*REASONS} - {"no_steps"}
