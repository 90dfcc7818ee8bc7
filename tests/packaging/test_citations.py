"""Documents that the repository's files cite exist, and so do the headings that are cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ".github",
    "clients",
    "deploy",
    "docs",
    "environments",
    "examples",
    "kernels",
    "loadtests",
    "research",
    "service",
    "tests",
)
ENDINGS = {"", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}
BUILT = {"__pycache__", "build", "dist", "node_modules", ".venv"}

PATH = re.compile(r"(?<![\w/.-])(docs/[\w./-]+\.md)(#[\w-]+)?")
CAPITALS = re.compile(r"(?<![\w/.*-])([A-Z_]{3,}\.md)\b")
"""Names such as README.md; only the changelog may name what was removed."""
HEADINGS_CITED = re.compile(r"docs/rules\.md(?:, | and | to )(?=[A-Z])")
JOINT = re.compile(r"(?:, | and | to )(?=[A-Z])")
LINE_BREAK = re.compile(r"\s*\n\s*(?:# |// |\* )?")


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each text file of the repository, by its path from the root."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")] + list(ROOT.iterdir())
    for path in sorted(found):
        name = path.relative_to(ROOT)
        if path.is_file() and path.suffix in ENDINGS and not BUILT & set(name.parts):
            try:
                yield name, LINE_BREAK.sub(" ", path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue


@cache
def headings(path: Path) -> tuple[str, ...]:
    """Return the headings of a page, the longest first."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return tuple(sorted(re.findall(r"^#+ (.*)$", text, re.MULTILINE), key=len, reverse=True))


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MkDocs make it."""
    return "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def wrong_headings(text: str) -> Iterator[str]:
    """Yield cited headings that the rules do not have."""
    known = headings(ROOT / "docs" / "rules.md")
    for cited in HEADINGS_CITED.finditer(text):
        rest = text[cited.end() :]
        while True:
            heading = next((name for name in known if rest.startswith(name)), None)
            if heading is None:
                yield rest[:40]
                break
            joint = JOINT.match(rest, len(heading))
            if joint is None:
                break
            rest = rest[joint.end() :]


def wrong_citations(name: Path, text: str) -> Iterator[str]:
    for path, anchor in PATH.findall(text):
        if not (ROOT / path).is_file():
            yield path
        elif anchor and anchor not in map(anchor_of, headings(ROOT / path)):
            yield path + anchor
    for document in CAPITALS.findall(text):
        if not ((ROOT / document).is_file() or (ROOT / name.parent / document).is_file() or name.stem == "CHANGELOG"):
            yield document
    yield from wrong_headings(text)


def test_what_is_cited_exists() -> None:
    files = dict(texts())
    assert {Path("README.md"), Path("kernels/score.py"), Path("docs/rules.md")} <= files.keys()
    assert {str(name): wrong for name, text in files.items() if (wrong := list(wrong_citations(name, text)))} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see docs/rules.md, Words, step 5", []),
        ("(docs/rules.md, Gates to Score and reward)", []),
        ("docs/rules.md, Step scale and Reasons.", []),
        ("docs/rules" + ".md, Numbers", ["Numbers"]),
        ("docs/rules" + ".md, Step scale and Nothing", ["Nothing"]),
        ("docs/rules.md#step-scale", []),
        ("docs/rules" + ".md#step-size", ["docs/rules" + ".md#step-size"]),
        ("docs/none" + ".md", ["docs/none" + ".md"]),
        ("NOTHING" + ".md section 2", ["NOTHING" + ".md"]),
    ],
)
def test_what_does_not_exist_is_found(text: str, wrong: list[str]) -> None:
    assert list(wrong_citations(Path("service/settings.py"), text)) == wrong
