"""NLTK's model of sentences, which no test downloads: `make word-lists` runs this. And a small WordNet."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from assay.service.tasks.text.meteor import meteor_scorer, synonyms_by_wordnet

NLTK_FOLDER = Path(sys.prefix) / "nltk_data"


SENTENCES = find_spec("nltk") is not None and (NLTK_FOLDER / "tokenizers" / "punkt_tab").is_dir()

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
    """Download NLTK's model of sentences if it is missing; say so if it cannot be had."""
    import nltk

    if not SENTENCES and not nltk.download("punkt_tab", download_dir=str(NLTK_FOLDER)):
        line = "=" * 88
        print(f"\n{line}\nNO PUNKT_TAB: TESTS THAT NEED IT ARE SKIPPED.\n{line}")


if __name__ == "__main__":
    main()
