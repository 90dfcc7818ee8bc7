"""Detection of NLTK's model of sentences and of WordNet; no test downloads them."""

from __future__ import annotations

import pytest

from assay.service.errors import NotInstalled
from assay.service.evaluate.text.word_tokens import word_tokenizer
from assay.service.evaluate.text.wordnet import synonyms_by_wordnet


def here(load) -> bool:
    try:
        load()
    except NotInstalled:
        return False
    return True


SENTENCES = here(lambda: word_tokenizer("3.9"))
WORDNET = here(synonyms_by_wordnet)

needs_sentences = pytest.mark.skipif(not SENTENCES, reason="NLTK's punkt_tab is not on this machine: make word-lists")
needs_wordnet = pytest.mark.skipif(not WORDNET, reason="WordNet 3.0 is not on this machine: make word-lists")
