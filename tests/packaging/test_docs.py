"""The pages of the documentation are complete, and what they and the code cite exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from assay.kernels.rules import REASONS
from assay.service.cli.main import main
from assay.service.config import ServerSettings
from assay.service.settings import ScoreSettings, usable_cores
from tests.packaging.snippets import FOLDERS, PAGES, ROOT

SOURCES = (*FOLDERS, "kernels", "research", "service", "tests", ".github")
ENDINGS = {"", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}
BUILT = {"__pycache__", "build", "dist", "node_modules"}

FENCES = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s#:]*)(#[^()\s]+)?\)")
CITED_PAGE = re.compile(r"(?<![\w/.-])(docs/[\w./-]+\.md)(#[\w-]+)?")
CITED_RULES = re.compile(r"docs/rules\.md(?:, | and | to )(?=[A-Z])")
NEXT_RULE = re.compile(r"(?:, | and | to )(?=[A-Z])")
LINE_BREAK = re.compile(r"\s*\n\s*(?:# |// |\* )?")


@cache
def headings(path: Path) -> tuple[str, ...]:
    """Return the headings of a page, the longest first."""
    text = FENCES.sub("", path.read_text(encoding="utf-8"))
    return tuple(sorted(re.findall(r"^#+ (.*)$", text, re.MULTILINE), key=len, reverse=True))


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings(path))
    return {"#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def links_of(page: str) -> list[tuple[Path, str]]:
    """Return the files that a page links, and the anchors in them."""
    text = FENCES.sub("", (ROOT / page).read_text(encoding="utf-8"))
    folder = (ROOT / page).parent
    return [((folder / target).resolve() if target else ROOT / page, anchor) for target, anchor in LINK.findall(text)]


def exists(path: Path, anchor: str) -> bool:
    return path.exists() and (not anchor or anchor in anchors(path))


def test_links_lead_to_files_and_headings_of_the_repository() -> None:
    """The site's build checks those of docs/ as well; here GitHub's rules count, for all pages."""
    inside = [(page, *link) for page in PAGES for link in links_of(page) if link[0].is_relative_to(ROOT)]
    assert [link for link in inside if not exists(*link[1:])] == []


def test_links_from_the_readme_lead_to_every_page() -> None:
    linked, seen = {"README.md"}, set()
    while new := linked - seen:
        seen |= new
        linked |= {
            path.relative_to(ROOT).as_posix() for page in new for path, _ in links_of(page) if path.suffix == ".md"
        }
    assert {page for page in PAGES if page.startswith("docs/")} - seen == set()


def cited_rules(text: str) -> Iterator[str]:
    """Yield the citations of rules by their headings, such as `docs/rules.md, Words`, that have no such heading."""
    for cited in CITED_RULES.finditer(text):
        at: int | None = cited.end()
        while at is not None:
            heading = next((name for name in headings(ROOT / "docs/rules.md") if text.startswith(name, at)), None)
            if heading is None:
                yield text[at : at + 40]
                break
            following = NEXT_RULE.match(text, at + len(heading))
            at = following.end() if following else None


def test_pages_and_headings_that_are_cited_exist() -> None:
    wrong: dict[str, list[str]] = {}
    paths = [path for folder in SOURCES for path in (ROOT / folder).rglob("*")] + list(ROOT.iterdir())
    for path in paths:
        name = path.relative_to(ROOT)
        if path.is_file() and path.suffix in ENDINGS and not BUILT & set(name.parts):
            text = LINE_BREAK.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
            cited = [page + anchor for page, anchor in CITED_PAGE.findall(text) if not exists(ROOT / page, anchor)]
            wrong[str(name)] = [*cited, *cited_rules(text)]
    assert {"README.md", "kernels/score.py", "docs/rules.md"} <= wrong.keys()
    assert {name: citations for name, citations in wrong.items() if citations} == {}


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


def test_the_speedup_of_the_readme_is_the_one_that_was_measured() -> None:
    (claimed,) = rows_of("README.md", r"some (\d+) times as fast as plain Python")
    (measured,) = rows_of("docs/performance.md", r"speedup over plain Python \| ([\d.]+)")
    assert abs(int(claimed) - float(measured)) < 0.1 * float(measured)
