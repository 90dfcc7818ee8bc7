"""NLTK's model of sentences and WordNet, which no test downloads: `make word-lists` runs this. And a small WordNet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assay.service.errors import NotInstalled
from assay.service.tasks.text.meteor import meteor_scorer, synonyms_by_wordnet
from assay.service.tasks.text.tokens import word_tokenizer
from tests.debian import install


def here(load) -> bool:
    try:
        load()
    except NotInstalled:
        return False
    return True


SENTENCES = here(lambda: word_tokenizer("3.9"))
WORDNET = here(synonyms_by_wordnet)

needs_sentences = pytest.mark.skipif(not SENTENCES, reason="NLTK's punkt_tab is not on this machine: make word-lists")

NOUNS = ["00000000 05 n 02 cell 0 prison_cell 0 000 | a room\n", "{} 05 n 02 Mouse 0 Rodent 0 000 | an animal\n"]
SECOND = len(NOUNS[0])
FILES = {
    "lexnames": "".join(f"{k:02}\tname.{k}\t1\n" for k in range(45)),
    "data.noun": NOUNS[0] + NOUNS[1].format(f"{SECOND:08}"),
    "index.noun": f"  1 licence\ncell n 1 0 1 0 00000000  \nmouse n 1 0 1 0 {SECOND:08}  \n",
    "noun.exc": "mice mouse\n",
    "data.adj": "00000000 00 a 02 big(a) 0 tall 0 000 | great\n",
    "index.adj": "big a 1 0 1 0 00000000  \ntall a 1 0 1 0 00000000  \n",
}
"""Three meanings, with an exception and a marked adjective."""


def forget_wordnet() -> None:
    """Drop what was loaded, and close the files that NLTK's reader keeps open."""
    if synonyms_by_wordnet.cache_info().currsize:
        for file in synonyms_by_wordnet()._reader._data_file_map.values():
            file.close()
    synonyms_by_wordnet.cache_clear()
    meteor_scorer.cache_clear()


def write_wordnet(folder: Path) -> Path:
    """Write the files of a WordNet of three meanings into a new folder."""
    folder.mkdir(parents=True)
    names = [
        name for part in ("noun", "verb", "adj", "adv") for name in (f"data.{part}", f"index.{part}", f"{part}.exc")
    ]
    for name in ["lexnames", *names]:
        (folder / name).write_text(FILES.get(name, ""), encoding="utf-8")
    return folder


def main() -> None:
    """Install what is missing: WordNet from Debian as root, the rest by NLTK, online; say what could not be had."""
    import nltk

    lists = {"wordnet": WORDNET or install("wordnet-base"), "punkt_tab": SENTENCES}
    for name in [name for name, is_there in lists.items() if not is_there]:
        lists[name] = nltk.download(name, download_dir=str(Path(sys.prefix) / "nltk_data"))
    if missing := [name for name, is_there in lists.items() if not is_there]:
        line = "=" * 88
        print(f"\n{line}\nNO {' AND NO '.join(missing).upper()}: TESTS THAT NEED THEM ARE SKIPPED.\n{line}")


if __name__ == "__main__":
    main()
