"""Synonyms by WordNet 3.0, read from NLTK's data or from Debian's package.

A word's meanings are those of its base forms: the word itself, and its exceptions (`mice`) or the word with one ending
replaced (morphy(7WN), once, as NLTK does).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from ..import_optional import import_optional
from ..optional_dependencies import not_installed

__all__ = ["FOLDERS", "Synonyms", "WordNet", "synonyms_by_wordnet"]

Synonyms = Callable[[str], frozenset[str]]
"""Takes a word and returns it and the single words that share a meaning with it."""

FOLDERS = (Path("/usr/share/wordnet"),)
"""Folders of system packages of WordNet; Debian's is wordnet-base."""
KEPT = 1 << 16
PARTS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
"""Parts of speech, each with the endings that are replaced, in order."""
MARKER = re.compile(rb"\(.*\)$")
"""The position of an adjective: `(a)`, `(p)` or `(ip)` after its name."""

Folder = Path | zipfile.Path


class WordNet:
    """The files of one WordNet in memory; safe to use from several threads."""

    def __init__(self, folder: Folder) -> None:
        self.data = {part: (folder / f"data.{part}").read_bytes() for part in PARTS}
        self.offsets = {part: dict(indexed((folder / f"index.{part}").read_bytes())) for part in PARTS}
        self.exceptions = {part: dict(excepted((folder / f"{part}.exc").read_bytes())) for part in PARTS}
        self.endings = {
            part: [tuple(ending.split(":")) for ending in endings.split()] for part, endings in PARTS.items()
        }

    def base_forms(self, word: str, part: str) -> list[str]:
        """Return the listed ones of a lower-case word and its exceptions, or itself with one ending replaced."""
        replaced = [word[: -len(old)] + new for old, new in self.endings[part] if word.endswith(old)]
        forms = [word, *self.exceptions[part].get(word, replaced)]
        return [form for form in dict.fromkeys(forms) if form in self.offsets[part]]

    def names(self, offset: int, part: str) -> list[str]:
        """Return the words of one meaning, whose line begins at `offset`."""
        line = self.data[part][offset : self.data[part].index(b"\n", offset)]
        fields = line.split(b" ")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        return [MARKER.sub(b"", word).decode() for word in words]

    def synonyms(self, word: str) -> frozenset[str]:
        """Return the word and the single words of all its meanings, as spelled in the files."""
        found = {word}
        for part in PARTS:
            for form in self.base_forms(word.lower(), part):
                for offset in self.offsets[part][form]:
                    found.update(name for name in self.names(offset, part) if "_" not in name)
        return frozenset(found)


def indexed(text: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each listed word with the offsets of its meanings; lines that begin with a space are the licence."""
    for line in text.decode().splitlines():
        if not line.startswith(" "):
            fields = line.split()
            yield fields[0], tuple(map(int, fields[-int(fields[2]) :]))


def excepted(text: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield each irregular form with its base forms."""
    for line in text.decode().splitlines():
        form, *bases = line.split()
        yield form, bases


@cache
def synonyms_by_wordnet() -> Synonyms:
    """Return the cached function of a word to its synonyms; raises NotInstalled without the files."""
    for folder in candidates():
        if (folder / "index.noun").is_file():
            return lru_cache(KEPT)(WordNet(folder).synonyms)
    raise not_installed(
        "task",
        "METEOR needs WordNet 3.0: python -m nltk.downloader wordnet, let NLTK_DATA name a folder that has it, "
        "or install Debian's wordnet-base",
    )


def candidates() -> Iterator[Folder]:
    """Yield where WordNet may be, in order: NLTK's data, unpacked or not, then system packages."""
    for root in map(Path, import_optional("nltk.data", "lexical", "METEOR").path):
        yield root / "corpora" / "wordnet"
        archive = root / "corpora" / "wordnet.zip"
        if archive.is_file():
            yield zipfile.Path(archive, "wordnet/")
    yield from FOLDERS
