"""Pseudocode to calls of functions: as BioPlanner's script finds them, and by Python's grammar.

The script's regular expressions take quadratic time on long words and on brackets that never close; these find the same
and read the text once.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

__all__ = [
    "DEEPEST",
    "MAX_LENGTH",
    "Call",
    "Unreadable",
    "called",
    "called_names",
    "defined",
    "parsed",
    "stated",
    "walked",
]

MAX_LENGTH = 262_144
"""Characters of a text that is parsed."""
DEEPEST = 50
"""Levels of brackets, so that no text can choose how long Python's parser takes."""

MAX_LEVELS = 150
"""Levels of an argument that is written out, which Python does by recursion."""

HEAD = re.compile(r"(?<!\w)(\w++)\s*+\(")
ARGUMENT = re.compile(r"""(?<!\w)(\w++)=["']([^"']++)["']""")
DEFINITION = re.compile(r"def [\w_]++\(.*?\):")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHOUT_CALLS = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.Pass)
BRACKET = re.compile(r"[][(){}]")

_quiet = threading.Lock()


class Unreadable(ValueError):
    """A text that a metric cannot read; `reason` is one of the task's failures."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Call(NamedTuple):
    """One call in a program."""

    name: str
    """Of the function, or of the attribute in `robot.run(…)`."""
    arguments: Mapping[str, str]
    """By name, or by place (`0`, `1`, …) where the name is not known: the value's text, a string's without quotes."""


def stated(code: str) -> dict[str, dict[str, str]]:
    """What the script's `parse_pseudocode` reads: function name to the arguments of its last `name(…)` in the text.

    Everything that looks like a call counts, definitions and comments too. It needs something between the brackets and
    ends at the first `)`; arguments are `name="value"` alone.
    """
    found: dict[str, dict[str, str]] = {}
    position = 0
    while head := HEAD.search(code, position):
        begin = head.end()
        stop = code.find(")", begin)
        if stop < 0:
            break
        position = begin
        if stop > begin:
            found[head[1]] = dict(ARGUMENT.findall(code, begin, stop))
            position = stop + 1
    return found


def parsed(code: str) -> ast.Module:
    """The syntax tree of a text; raises Unreadable where it has none or is beyond the limits."""
    if len(code) > MAX_LENGTH or depth(code) > DEEPEST:
        raise Unreadable("too_large")
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unreadable("syntax_error") from None


def depth(code: str) -> int:
    """The deepest nesting of brackets, those in strings and comments included."""
    deepest = level = 0
    for bracket in BRACKET.finditer(code):
        level = level + 1 if bracket[0] in "([{" else max(0, level - 1)
        deepest = max(deepest, level)
    return deepest


def defined(code: str) -> list[str]:
    """Names of the functions whose definitions begin a line, in order, as the script cuts them out of a text.

    A definition lasts while its lines begin with white space. Raises Unreadable where one cannot be parsed.
    """
    return [
        node.name
        for chunk in definitions(code)
        for node in ast.walk(parsed(chunk))
        if isinstance(node, ast.FunctionDef)
    ]


def definitions(code: str) -> list[str]:
    """The texts of those definitions."""
    lines = code.split("\n")
    starts = [k for k, line in enumerate(lines) if DEFINITION.match(line)]
    found = []
    for begin, limit in pairwise([*starts, len(lines)]):
        stop = begin + 1
        while stop < limit and lines[stop][:1].isspace():
            stop += 1
        found.append("\n".join(lines[begin:stop]))
    return found


class Found(NamedTuple):
    """A call in a program, and whether it stands in a function's definition."""

    node: ast.Call
    in_definition: bool


def calls_in(tree: ast.Module) -> list[Found]:
    """Every call of a program level by level, as `ast.walk` comes upon them."""
    found = []
    level: list[tuple[ast.AST, bool]] = [(tree, False)]
    for node, in_definition in level:  # it grows while we go through it
        inside = in_definition or isinstance(node, DEFINITIONS)
        for name in node._fields:
            value = getattr(node, name, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, WITHOUT_CALLS):
                    level.append((child, inside))
                    if isinstance(child, ast.Call):
                        found.append(Found(child, inside))
    return found


def walked(calls: Iterable[Found]) -> list[str]:
    """Names of all calls of a text in the script's order, those in definitions too.

    Raises Unreadable for a call of anything but a plain name.
    """
    names = []
    for node, _ in calls:
        if not isinstance(node.func, ast.Name):
            raise Unreadable("attribute_call")
        names.append(node.func.id)
    return names


def in_order(calls: Iterable[Found]) -> list[ast.Call]:
    """The calls of plain names and of attributes outside definitions, in the order in which the text names them."""
    nodes = [node for node, inside in calls if not inside and isinstance(node.func, ast.Name | ast.Attribute)]
    nodes.sort(key=lambda node: (node.func.end_lineno or 0, node.func.end_col_offset or 0))
    return nodes


def called_names(calls: Iterable[Found]) -> list[str]:
    """Names of those calls."""
    return [name_of(node) for node in in_order(calls)]


def called(tree: ast.Module) -> list[Call]:
    """Those calls with their arguments; raises Unreadable for an argument that cannot be written out."""
    parameters = {
        node.name: [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
        for node in ast.walk(tree)
        if isinstance(node, DEFINITIONS)
    }
    return [call_of(node, parameters) for node in in_order(calls_in(tree))]


def name_of(node: ast.Call) -> str:
    assert isinstance(node.func, ast.Name | ast.Attribute)
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr


def call_of(node: ast.Call, parameters: Mapping[str, list[str]]) -> Call:
    name = name_of(node)
    known = parameters.get(name, [])
    arguments = {
        known[place] if place < len(known) else str(place): text_of(value) for place, value in enumerate(node.args)
    }
    arguments.update({keyword.arg or "**": text_of(keyword.value) for keyword in node.keywords})
    return Call(name, arguments)


def text_of(node: ast.expr) -> str:
    """A string itself, else the expression's source text; raises Unreadable where Python cannot write it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    level: list[ast.AST] = [node]
    for _ in range(MAX_LEVELS):
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
    try:
        if not level:
            return ast.unparse(node)
    except (RecursionError, ValueError):  # a number with too many digits, a string that has no spelling
        pass
    raise Unreadable("too_large")
