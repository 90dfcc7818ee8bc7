"""Many words in one text: naive search, the automaton, and their hashes."""

from __future__ import annotations

from itertools import cycle, islice, product

import numpy as np

from .building import Rollout, adversary, filled, letters, one_step


@adversary
def one_long_word_in_one_long_text(size: int) -> Rollout:
    return one_step("a" * (size // 2 - 1) + "b", objects=["a" * (size // 2)])


@adversary
def near_miss_prefixes(size: int) -> Rollout:
    """Words of growing length that differ from the text in their last letter."""
    count = int((size // 2) ** 0.5)
    return one_step("a" * (size // 2) + "b", objects=["a" * k + "c" for k in range(1, count)])


@adversary
def near_misses_of_equal_length(size: int) -> Rollout:
    endings = islice(letters(3), 1, None)
    return one_step(
        "a" * (size // 2) + "b", objects=["a" * 40 + end for end, _ in zip(endings, range(size // 96), strict=False)]
    )


@adversary
def periodic_near_misses(size: int) -> Rollout:
    """Make the automaton fall back along every period."""
    words = ["ab" * k + "aa" for k in range(1, int((size // 4) ** 0.5))]
    return one_step(filled("ab", size // 2), objects=words)


@adversary
def suffixes_of_one_word(size: int) -> Rollout:
    """Every suffix is a word: the automaton's links are as deep as they can be."""
    word = "a" * int(size**0.5) + "b"
    return one_step("a" * (size // 3), objects=[word[k:] for k in range(len(word))])


@adversary
def thousands_of_missing_words(size: int) -> Rollout:
    """11,000 words in 126 KB: one linear search for each took 1.3 s."""
    words = islice(letters(4), size // 16)
    return one_step("z" * 9 + " " + " ".join(islice(letters(3), size // 8)), objects=[" ".join(words)])


@adversary
def missing_words_and_a_long_one(size: int) -> Rollout:
    """Exhaust naive search with short words, so that one long word becomes a path of the automaton."""
    return one_step("w" * (size // 2), objects=[f"q{k:02}" for k in range(40)] + [filled("abcdefgh0", size // 2)])


@adversary
def missing_words_that_expand(size: int) -> Rollout:
    """Use characters of three bytes that NFKC expands to twelve or more."""
    squared = "".join(islice(cycle("㌀㌖㌁㍿㌳㌘㌅㌫㍍㌆"), size // 6))
    return one_step(squared, objects=[*SHORT, "あ" + squared[5:]])


@adversary
def near_misses_that_expand(size: int) -> Rollout:
    """Use equal prefixes of characters of three bytes that NFKC expands to eighteen, and different ends."""
    stem = "㌖ab" * 24
    words = [stem + end for end in islice(letters(3), max(40, size // 2 // len(stem.encode())))]
    return one_step(filled("㌖ab", size // 2), objects=words)


@adversary
def missing_words_in_prose_that_expands(size: int) -> Rollout:
    """Expand three bytes of prose to 33, with every word present except for its last letter."""
    words = [f"{word[:k]}{end}" for word in ("صلى", "الله", "عليه", "وسلم") for k in range(1, 5) for end in "abcdefgh"]
    return one_step(filled("\ufdfa", size), objects=words)


@adversary
def missing_words_whose_edges_collide(size: int) -> Rollout:
    """Choose the long word letter by letter so that an unkeyed hash makes its edges adjacent."""
    length = size // 2
    return one_step("w" * length, objects=[*SHORT, colliding_word(length)])


SHORT = [f"q{k:02}" for k in range(40)]
PLAIN_PATIENCE = 12


def colliding_word(length: int) -> str:
    """Choose for each letter the one whose edge an unkeyed hash would put first."""
    searched = PLAIN_PATIENCE * (2 * length + 3 * len(SHORT)) // (length - 2)
    rest = SHORT[searched:]
    slots = 4
    while slots < 2 * (1 + 3 * len(rest) + length):
        slots *= 2
    first = 1 + len({word[:k] for word in rest for k in (1, 2, 3)}) - 1
    nodes = np.arange(first, first + length, dtype=np.uint64)
    choices = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    keys = (nodes[:, None] << np.uint64(8) | choices.astype(np.uint64)) + np.uint64(1)
    return choices[np.argmin(unkeyed_slots(keys, slots), axis=1)].tobytes().decode()


def unkeyed_slots(keys: np.ndarray, slots: int) -> np.ndarray:
    for _ in range(2):
        keys = (keys ^ keys >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
    return (keys ^ keys >> np.uint64(32)) >> np.uint64(8) & np.uint64(slots - 1)


@adversary
def words_whose_hashes_collide(size: int) -> Rollout:
    """Pairs of eight-byte blocks whose differences cancel under an odd multiplier, whatever it is, half the time."""
    blocks = ["xxxxxxx0xxx0xxx0", "xxxxxxxpxxxpxxxp"]
    words = ("".join(chosen) + "z" for chosen in product(blocks, repeat=11))
    return one_step(objects=list(islice(words, size // 181)))
