"""Generates the tables of Unicode 14.0, which `kernels/text/unicode.py` describes, as `unicode14.npz`.

python -m tests.kernels.unicode14_tables      regenerates the file (on Python 3.11, whose unicodedata is 14.0)
"""

from __future__ import annotations

import sys
import unicodedata

import numpy as np

from assay.kernels.text.unicode import LETTER, NO_LETTER, PATH, SEPARATOR, SYMBOLS

LAST = 0x110000
DASHES = {*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63, 0xFF0D}
DEGREES = {0xBA, 0x2DA}
HANGUL = range(0xAC00, 0xAC00 + 11172)
STAYS, SEPARATES = 0, 1


def _is_surrogate(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF


def fold_look_alikes(text: str) -> str:
    """Replace multiplication sign and dashes by ASCII, then fold case: the end of step 1."""
    mapped = ("x" if c == "×" else "-" if ord(c) in DASHES else c for c in text)
    return "".join(mapped).casefold()


def map_code_point(code: int) -> str:
    """Return step 1 of one code point alone, with a capital for each non-ASCII character that separates words."""
    text = "°" if code in DEGREES else chr(code)
    folded = fold_look_alikes(unicodedata.normalize("NFKC", text))
    return "".join(c if c.isascii() or c.isalnum() else chr(SYMBOLS.get(c, SEPARATOR)) for c in folded)


def kind_of(char: str) -> int:
    return unicodedata.decimal(char, LETTER if char.isalpha() else NO_LETTER)


def compositions() -> dict[tuple[int, int], int]:
    """Return every canonical pair that NFC composes, except Hangul."""
    pairs = {}
    for code in range(LAST):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code):
                pairs[first, second] = code
    return pairs


def build() -> dict[str, np.ndarray]:
    """Build all tables by name; raises RuntimeError on a Python of another Unicode version."""
    if unicodedata.unidata_version != "14.0.0":
        raise RuntimeError(f"these tables are Unicode 14.0, this Python has {unicodedata.unidata_version}")
    composed = compositions()
    backward = {second for _, second in composed} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    entries = np.zeros(LAST, dtype=np.int32)
    decompositions = np.zeros(LAST, dtype=np.int32)
    classes = np.zeros(LAST, dtype=np.uint8)
    kinds = np.full(LAST, NO_LETTER, dtype=np.uint8)
    pool = bytearray(2)
    pool_index: dict[str, int] = {}
    decomposition_pool: list[int] = [0]
    for code in range(LAST):
        if _is_surrogate(code):
            continue
        char = chr(code)
        decomposed = unicodedata.normalize("NFKD", char)
        hard = unicodedata.combining(decomposed[0]) != 0 or ord(decomposed[0]) in backward
        mapped = map_code_point(code)
        if mapped == char:
            value = STAYS
        elif mapped == chr(SEPARATOR):
            value = SEPARATES
        else:
            value = pool_index.get(mapped, 0)
            if not value:
                value = pool_index[mapped] = len(pool)
                encoded = mapped.encode()
                pool += bytes([len(encoded)]) + encoded
        entries[code] = value << 1 | hard
        classes[code] = unicodedata.combining(char)
        kinds[code] = kind_of(char)
        if decomposed != char and code not in HANGUL:
            decompositions[code] = len(decomposition_pool)
            decomposition_pool += [len(decomposed), *map(ord, decomposed)]
    pairs = sorted((first << 21 | second, code) for (first, second), code in composed.items())
    tables = two_levels(entries=entries, decompositions=decompositions, classes=classes, kinds=kinds)
    tables["pool"] = np.frombuffer(bytes(pool), dtype=np.uint8)
    tables["decomposition_pool"] = np.array(decomposition_pool, dtype=np.int32)
    tables["pairs"] = np.array([pair for pair, _ in pairs], dtype=np.int64)
    tables["composites"] = np.array([code for _, code in pairs], dtype=np.int32)
    return tables


def two_levels(**columns: np.ndarray) -> dict[str, np.ndarray]:
    """Store equal blocks of 256 code points once."""
    pages = np.zeros(LAST >> 8, dtype=np.uint16)
    blocks: dict[bytes, int] = {}
    kept: list[slice] = []
    for page in range(LAST >> 8):
        block = slice(page << 8, (page + 1) << 8)
        key = b"".join(column[block].tobytes() for column in columns.values())
        if key not in blocks:
            blocks[key] = len(kept)
            kept.append(block)
        pages[page] = blocks[key]
    return {"pages": pages} | {
        name: np.concatenate([column[block] for block in kept]) for name, column in columns.items()
    }


if __name__ == "__main__":
    np.savez_compressed(PATH, **build())  # type: ignore[arg-type]
    sys.stdout.write(f"{PATH.name}: {PATH.stat().st_size} bytes\n")
