"""Characters that are invisible, or look like others, and keep a line, a tag or a step from being read."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator

from .reading import Reading, Text, read_response

SPACES = "\u00a0\u2007\u2009\u202f\u3000"
INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
MEANT = {
    **dict.fromkeys(SPACES, " "),
    **dict.fromkeys(INVISIBLE, ""),
    **{chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)},  # fullwidth forms
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("∶꞉︓", ":"),
    **dict.fromkeys("‹〈", "<"),
    **dict.fromkeys("›〉", ">"),
    **dict(zip("асеікорѕту", "aceikopsty", strict=True)),  # Cyrillic
}
"""Each character with the one that is read where it stands."""

MAX_BYTES = 65_536  # of a response that is searched: it is read again for each of its characters
MAX_KINDS, MAX_PLACES = 8, 8


def look_alikes(reading: Reading, think_prefilled: bool) -> str:
    """Return sentences about the characters without which more of the response can be read, or nothing."""
    if len(reading.text.content) > MAX_BYTES:
        return ""
    text = reading.text.content.decode()
    kinds = [character for character in dict.fromkeys(text) if character in MEANT][:MAX_KINDS]

    def helps(changed: str) -> bool:
        return progress(read_response(Text(changed.encode()), think_prefilled)) > progress(reading)

    guilty = [kind for kind in kinds if helps(replaced(text, kind))]
    if not guilty and len(kinds) > 1 and helps(replaced(text, kinds)):  # such as both brackets of a tag
        guilty = kinds
    return "".join(f" {sentence(kind, line_of(text, kind, helps))}" for kind in guilty[:3])


def progress(reading: Reading) -> tuple[int, int, int, int]:
    """Return how much can be read: sections, valid steps, lines with steps, steps of the prose."""
    return reading.whole, len(reading.valid), reading.key_lines, reading.prose_steps


def replaced(text: str, kinds: Iterable[str]) -> str:
    return text.translate({ord(kind): MEANT[kind] for kind in kinds})


def line_of(text: str, kind: str, helps: Callable[[str], bool]) -> int:
    """Return the line of the first character of this kind whose replacement helps, or else of the first."""
    places = list(places_of(text, kind))
    place = next((k for k in places if helps(f"{text[:k]}{MEANT[kind]}{text[k + 1 :]}")), places[0])
    return text.count("\n", 0, place) + 1


def places_of(text: str, kind: str) -> Iterator[int]:
    place = -1
    for _ in range(MAX_PLACES):
        place = text.find(kind, place + 1)
        if place < 0:
            return
        yield place


def sentence(kind: str, line: int) -> str:
    name = unicodedata.name(kind, "unnamed").lower()
    instead = {"": "delete it", " ": "write a space"}.get(MEANT[kind], f"write {MEANT[kind]}")
    return f"Line {line} has U+{ord(kind):04X} ({name}): {instead}."
