"""Porter's stemmer of NLTK, cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from ..import_optional import import_optional

__all__ = ["porter_stemmer"]

KEPT = 1 << 16
MAX_LENGTH = 60
"""Characters of a word whose stem is cached."""


@cache
def porter_stemmer() -> Callable[[str], str]:
    """Return the function of a word to its stem, with NLTK's extensions; raises NotInstalled without NLTK."""
    stem: Callable[[str], str] = import_optional("nltk.stem.porter", "lexical", "Stemming").PorterStemmer().stem
    kept = lru_cache(KEPT)(stem)
    return lambda word: kept(word) if len(word) <= MAX_LENGTH else stem(word)
