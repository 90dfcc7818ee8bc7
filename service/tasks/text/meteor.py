"""METEOR (Banerjee and Lavie 2005) by NLTK, with synonyms by WordNet 3.0 of NLTK's data or of Debian's package.

Debian's wordnet-base leaves out one of WordNet's files, `lexnames`, which NLTK reads first: it is supplied here.

NLTK's reader keeps every meaning that it has read, and threads would share its position in a file. Here it keeps none:
the words that share a meaning with a word are cached instead, and read under a lock.
"""

from __future__ import annotations

import io
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from ..task import import_optional, not_installed
from .tokens import porter_stemmer

FOLDERS = (Path("/usr/share/wordnet"),)
CACHED_WORDS = 1 << 16

FILES_OF_NOUNS = """
    Tops act animal artifact attribute body cognition communication event feeling food group location motive object
    person phenomenon plant possession process quantity relation shape state substance time
"""
FILES_OF_VERBS = """
    body change cognition communication competition consumption contact creation emotion motion perception possession
    social stative weather
"""
NOUN, VERB, ADJECTIVE, ADVERB = 1, 2, 3, 4
LEXICOGRAPHER_FILES = (
    ("adj.all", ADJECTIVE),
    ("adj.pert", ADJECTIVE),
    ("adv.all", ADVERB),
    *((f"noun.{name}", NOUN) for name in FILES_OF_NOUNS.split()),
    *((f"verb.{name}", VERB) for name in FILES_OF_VERBS.split()),
    ("adj.ppl", ADJECTIVE),
)
"""WordNet's 45 lexicographer files by number, each with its part of speech: lexnames(5WN)."""


class Lemma(str):
    def name(self) -> str:
        return self


class Synset(tuple[Lemma, ...]):
    def lemmas(self) -> Synset:
        return self


class KeepsNothing(dict[int, Any]):
    def __setitem__(self, _offset: int, _synset: Any) -> None:
        """Forget the synset."""


class Synonyms:
    """One WordNet, with the method of NLTK's reader that its METEOR calls; safe to use from several threads."""

    def __init__(self, root: Any) -> None:
        library = import_optional("nltk.corpus.reader.wordnet", "lexical", "METEOR")

        class Reader(library.WordNetCorpusReader):  # type: ignore[misc, name-defined]
            """Does not map its meanings to another version's, for which it would read both again."""

            def map_wn(self, version: str = "wordnet") -> None:
                pass

            def open(self, file: str) -> IO[Any]:
                """Open a file of WordNet; `lexnames` may be missing."""
                try:
                    stream: IO[Any] = super().open(file)
                except OSError:
                    if file != "lexnames":
                        raise
                    return io.StringIO(lexnames())
                return stream

        self._reader = Reader(root, omw_reader=())  # None would warn that there are no other languages
        self._reader._synset_offset_cache = defaultdict(KeepsNothing)
        self._lock = threading.Lock()
        self.synsets = lru_cache(CACHED_WORDS)(self._read)

    def _read(self, word: str) -> tuple[Synset]:
        with self._lock:
            names = {name for synset in self._reader.synsets(word) for name in synset.lemma_names()}
        return (Synset(Lemma(name) for name in names if "_" not in name),)


def lexnames() -> str:
    rows = enumerate(LEXICOGRAPHER_FILES)
    return "".join(f"{number:02}\t{name}\t{part_of_speech}\n" for number, (name, part_of_speech) in rows)


@cache
def synonyms_by_wordnet() -> Synonyms:
    incomplete = []
    for root in roots():
        try:
            return Synonyms(root)
        except OSError as error:
            incomplete.append(f". {root} is incomplete: {error}")
    raise not_installed(
        "task",
        "METEOR needs WordNet 3.0",
        "python -m nltk.downloader wordnet, let NLTK_DATA name a folder that has it, or install Debian's wordnet-base"
        + "".join(incomplete),
    )


def roots() -> Iterator[Any]:
    data = import_optional("nltk.data", "lexical", "METEOR")
    for name in ("corpora/wordnet", "corpora/wordnet.zip/wordnet/"):
        try:
            yield data.find(name)
        except LookupError:
            continue
    for folder in filter(Path.is_dir, FOLDERS):
        if str(folder) not in data.path:
            data.path.append(str(folder))  # NLTK refuses to open files anywhere else
        yield data.FileSystemPathPointer(str(folder))


@cache
def meteor_scorer() -> Callable[[Sequence[str], Sequence[str]], float]:
    """Return the function of a reference and a hypothesis, lists of lower-case words, to METEOR."""
    synonyms = synonyms_by_wordnet()
    score = import_optional("nltk.translate.meteor_score", "lexical", "METEOR").single_meteor_score
    stemmer = SimpleNamespace(stem=porter_stemmer())
    scorer: Callable[..., float] = partial(score, preprocess=str, stemmer=stemmer, wordnet=synonyms)
    return scorer
