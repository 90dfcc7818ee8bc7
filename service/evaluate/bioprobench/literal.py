"""Python literals, parsed like `ast.literal_eval` but in bounded time and depth.

The script of ORD passes the answer to `ast.literal_eval`, so a list, a tuple, a bare `0, 2, 1`, a set, the keys of a
dictionary, bytes, `True`, hexadecimal numbers and comments all count as answers. The answer determines how much time
and C stack Python's parser takes; this one reads each character once, nests at most 64 levels (Python: 199), and gives
no warnings. It gives the same value for every answer that it accepts.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NamedTuple

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "NotLiteral", "literal"]

MAX_LENGTH = 65_536
"""Characters of a text that is parsed; ten thousand indices take less."""
MAX_DEPTH = 64
"""Levels of brackets."""

DIGITS = r"[0-9](?:_?[0-9])*+"
FLOAT = rf"(?:{DIGITS}\.(?:{DIGITS})?|\.{DIGITS})(?:[eE][+-]?{DIGITS})?|{DIGITS}[eE][+-]?{DIGITS}"
TOKEN = re.compile(
    rf"""(?P<imaginary>(?:{FLOAT}|{DIGITS})[jJ])
    |(?P<float>{FLOAT})
    |(?P<based>0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+))
    |(?P<integer>[1-9](?:_?[0-9])*+|0(?:_?0)*+)
    |(?P<name>[A-Za-z]+)
    |(?P<mark>\.\.\.|[][(){{}},:+\-])""",
    re.VERBOSE,
)
PLAIN_LIST = re.compile(r"\[ ?(?:0|[1-9][0-9]{0,8})(?:, ?(?:0|[1-9][0-9]{0,8}))*+\]")
"""Nearly every answer: a list of short numbers, which needs no parser."""
SPACE = re.compile(r"(?:[ \t\f]|\\\n(?!\Z))*+")
COMMENT = re.compile(r"\#[^\n]*+")
BLANK_LINES = re.compile(r"(?:(?:[ \t\f]|\\\n)*+(?:\#[^\n]*+)?\n)*+")
INDENT = re.compile(r"(?:\\\n)*+[ \t]")
STRING = re.compile(
    r"""(?P<prefix>[A-Za-z]{0,2})(?P<quoted>
    '''(?:[^\\']|\\.|'(?!''))*+'''
    |\"\"\"(?:[^\\"]|\\.|"(?!""))*+\"\"\"
    |'(?!'')(?:[^\\'\n]|\\.)*+'
    |"(?!"")(?:[^\\"\n]|\\.)*+")""",
    re.VERBOSE | re.DOTALL,
)
PREFIXES = {"", "r", "u", "b", "br", "rb"}
TEXT_ESCAPE = re.compile(
    r"\\(?:N\{(?P<name>[^}]*+)\}|(?P<octal>[0-7]{1,3})"
    r"|(?P<code>U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|(?P<single>.))",
    re.DOTALL,
)
BYTES_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-7]{1,3})|(?P<code>x[0-9a-fA-F]{2})|(?P<single>.))", re.DOTALL)
SINGLE = dict(zip("abfnrtv\n\\'\"", ["\a", "\b", "\f", "\n", "\r", "\t", "\v", "", "\\", "'", '"'], strict=True))
CLOSING = {"(": ")", "[": "]", "{": "}"}
NAMES = {"True": True, "False": False, "None": None}

NUMBER, SIGNED, OTHER = "number", "signed", "other"


class NotLiteral(ValueError):
    """The text is not a Python literal, or exceeds the limits."""


class Value(NamedTuple):
    """A value and its kind: only numbers take a sign, only real ones an imaginary part."""

    value: Any
    kind: str = OTHER


def literal(text: str) -> Any:
    """Parse a literal; raises NotLiteral."""
    if len(text) > MAX_LENGTH:
        raise NotLiteral("too long")
    if PLAIN_LIST.fullmatch(text):
        return [int(number) for number in text[1:-1].split(",")]
    text = text.lstrip(" \t").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise NotLiteral("a character that is not allowed in source code")
    try:
        return Reader(text).whole()
    except NotLiteral:
        raise
    except (TypeError, ValueError) as error:  # a list as a key, a number with too many digits
        raise NotLiteral(type(error).__name__) from None


class Reader:
    """A recursive-descent parser of one text; `pos` is at the next token, after white space."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.depth = 0

    def whole(self) -> Any:
        """Parse the whole text: a literal, or several with commas between them, and comments."""
        blank = BLANK_LINES.match(self.text)
        assert blank is not None
        self.pos = blank.end()
        if INDENT.match(self.text, self.pos):
            raise NotLiteral("an indented line")
        self.skip()
        values = [self.value()]
        comma = self.take(",")
        if comma:
            while not self.at_end():
                values.append(self.value())
                if not self.take(","):
                    break
        if not self.at_end():
            raise NotLiteral("something after the literal")
        return tuple(single.value for single in values) if comma else values[0].value

    def at_end(self) -> bool:
        """Return whether only comments and blank lines follow."""
        if self.text[self.pos : self.pos + 1] not in ("", "\n", "#"):
            return False
        rest = self.text[self.pos :]
        if "\\" in rest.partition("\n")[0].partition("#")[0]:
            return False
        blank = BLANK_LINES.match(rest + "\n")
        assert blank is not None
        return blank.end() == len(rest) + 1

    def skip(self) -> None:
        """Skip white space and, inside brackets, comments and ends of lines."""
        while True:
            space = SPACE.match(self.text, self.pos)
            assert space is not None
            self.pos = space.end()
            if not self.depth:
                return
            comment = COMMENT.match(self.text, self.pos)
            if comment:
                self.pos = comment.end()
            elif self.text.startswith("\n", self.pos):
                self.pos += 1
            else:
                return

    def take(self, mark: str) -> bool:
        """Skip `mark` if it is next, and return whether it was."""
        if not self.text.startswith(mark, self.pos):
            return False
        self.pos += len(mark)
        self.skip()
        return True

    def value(self) -> Value:
        """Parse a literal, or a sum of a real and an imaginary number."""
        left = self.signed()
        while self.text[self.pos : self.pos + 1] in ("+", "-"):
            minus = self.take("-") or not self.take("+")
            right = self.single()
            real = left.kind != OTHER and isinstance(left.value, int | float)
            if not real or right.kind != NUMBER or not isinstance(right.value, complex):
                raise NotLiteral("a sum that is not a complex number")
            left = Value(left.value - right.value if minus else left.value + right.value)
        return left

    def signed(self) -> Value:
        """Parse a literal, or a number with one sign."""
        for sign in "+-":
            if self.take(sign):
                number = self.single()
                if number.kind != NUMBER:
                    raise NotLiteral("a sign before something other than a number")
                return Value(-number.value if sign == "-" else +number.value, SIGNED)
        return self.single()

    def single(self) -> Value:
        """Parse a literal without sign."""
        string = STRING.match(self.text, self.pos)
        if string:
            return Value(self.strings())
        token = TOKEN.match(self.text, self.pos)
        if token is None or token[0] in "]),:+-}":
            raise NotLiteral("a missing value")
        self.pos = token.end()
        if token.lastgroup == "mark":
            return self.ellipsis() if token[0] == "..." else self.bracket(token[0])
        following = self.text[self.pos : self.pos + 1]
        if following.isalnum() or following in ("_", ".") or not following.isascii():
            raise NotLiteral("a number or name that continues")
        self.skip()
        return self.named(token[0]) if token.lastgroup == "name" else Value(number_of(token), NUMBER)

    def ellipsis(self) -> Value:
        self.skip()
        return Value(...)

    def named(self, name: str) -> Value:
        if name == "set" and self.take("("):
            if not self.take(")"):
                raise NotLiteral("a call")
            return Value(set())
        if name not in NAMES:
            raise NotLiteral("a name")
        return Value(NAMES[name])

    def bracket(self, opening: str) -> Value:
        """Parse the rest of a bracket whose `opening` has been read."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotLiteral("nested too deeply")
        self.skip()
        elements: list[Value] = []
        values: list[Any] = []
        comma = False
        while not self.text.startswith(CLOSING[opening], self.pos):
            elements.append(self.value())
            if opening == "{" and (values or len(elements) == 1) and self.take(":"):
                values.append(self.value().value)
            comma = self.take(",")
            if not comma and not self.text.startswith(CLOSING[opening], self.pos):
                raise NotLiteral("two values without a comma")
        self.depth -= 1
        self.take(CLOSING[opening])
        if values and len(values) != len(elements):
            raise NotLiteral("a key without a value")
        if opening == "(" and len(elements) == 1 and not comma:
            return elements[0]
        plain = [element.value for element in elements]
        if opening == "{":
            return Value(dict(zip(plain, values, strict=True)) if values or not plain else set(plain))
        return Value(tuple(plain) if opening == "(" else plain)

    def strings(self) -> str | bytes:
        """Parse one string or adjacent ones: all text or all bytes."""
        parts: list[str | bytes] = []
        while string := STRING.match(self.text, self.pos):
            parts.append(string_of(string["prefix"].lower(), string["quoted"]))
            self.pos = string.end()
            self.skip()
        if len({type(part) for part in parts}) > 1:
            raise NotLiteral("text beside bytes")
        return b"".join(parts) if isinstance(parts[0], bytes) else "".join(parts)  # type: ignore[arg-type]


def number_of(token: re.Match[str]) -> int | float | complex:
    """Return the value of a token that is a number."""
    text = token[0].replace("_", "")
    if token.lastgroup == "imaginary":
        return complex(0.0, float(text[:-1]))
    if token.lastgroup == "float":
        return float(text)
    return int(text, 0 if token.lastgroup == "based" else 10)


def string_of(prefix: str, quoted: str) -> str | bytes:
    """Return the value of a string in quotes."""
    if prefix not in PREFIXES:
        raise NotLiteral("a string with another prefix")
    marks = 3 if quoted[:3] in ("'''", '"""') else 1
    body = quoted[marks:-marks]
    raw = "r" in prefix
    if "b" not in prefix:
        return body if raw else TEXT_ESCAPE.sub(text_escape, body)
    if not body.isascii():
        raise NotLiteral("bytes beyond ASCII")
    return (body if raw else BYTES_ESCAPE.sub(bytes_escape, body)).encode("latin-1")


def text_escape(found: re.Match[str]) -> str:
    """Return the character of an escape in text."""
    if found["name"] is None:
        return escaped(found, "xuUN")
    try:
        return unicodedata.lookup(found["name"])
    except KeyError:
        raise NotLiteral("no character of that name") from None


def bytes_escape(found: re.Match[str]) -> str:
    """Return the byte of an escape, as the character of that number."""
    return chr(ord(escaped(found, "x")) & 0xFF) if found["octal"] else escaped(found, "x")


def escaped(found: re.Match[str], unfinished: str) -> str:
    """Return the character of an escape; one of the letters `unfinished` alone is an incomplete escape."""
    if found["octal"]:
        return chr(int(found["octal"], 8))
    if found["code"]:
        return chr(int(found["code"][1:], 16))
    single = found["single"]
    if single in unfinished:
        raise NotLiteral("an incomplete escape")
    return SINGLE.get(single, f"\\{single}")
