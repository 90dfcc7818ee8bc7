"""The pages of the documentation are complete: their navigation, their tables of settings, their commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from assay.service.cli.main import main
from assay.service.config import ServerSettings
from assay.service.settings import ScoreSettings, usable_cores
from tests.packaging.snippets import PAGES, ROOT


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_navigation_names_every_page() -> None:
    named = re.findall(r"^ +- (?:.+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == len(set(named))
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert pages - set(named) == set()


EXAMPLES = [str(path.relative_to(ROOT)) for path in (ROOT / "examples/trainers").iterdir() if path.is_file()]


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES])
def test_pages_with_assay_prepare_name_its_extra(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    if re.search(r"assay prepare \S+ .*-o ", text):
        assert re.search(r"extra\s(\[?`prepare`|prepare)", text), page


LINK = re.compile(r"\]\(([^()\s#:]*)(#[^()\s]+)?\)")
FENCES = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def links_of(page: str) -> list[tuple[Path, str]]:
    """Return the files that a page links, and the anchors in them."""
    text = FENCES.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return [
        ((ROOT / page).parent.joinpath(target).resolve() if target else ROOT / page, (anchor or "").removeprefix("#"))
        for target, anchor in LINK.findall(text)
    ]


def anchors_of(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCES.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def test_links_lead_to_files_and_headings_of_the_repository() -> None:
    """The site's build checks those of docs/ as well; here GitHub's rules count, for all pages."""
    wrong = []
    for page in PAGES:
        for path, anchor in links_of(page):
            inside = path.is_relative_to(ROOT)  # ../../actions is GitHub's
            if inside and (not path.exists() or (anchor and anchor not in anchors_of(path))):
                wrong.append(f"{page}: {path.relative_to(ROOT)}#{anchor}")
    assert wrong == []


def test_links_from_the_readme_lead_to_every_page() -> None:
    linked, found = {"README.md"}, set()
    while new := linked - found:
        found |= new
        linked |= {
            path.relative_to(ROOT).as_posix() for page in new for path, _ in links_of(page) if path.suffix == ".md"
        }
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
    from assay.kernels.rules import REASONS

    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", text_of("faq.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == {*REASONS} - {"no_steps"}
