"""Calls of functions in pseudocode: as BioPlanner's script finds them, and by Python's grammar.

The script's regular expressions take quadratic time on long words and unclosed brackets; these find the same in linear
time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from ..python_source import Unreadable, parse_python

__all__ = [
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Call",
    "called_names",
    "calls_by_script",
    "calls_with_arguments",
    "defined_functions",
    "parse_program",
    "walked_names",
]

MAX_LENGTH = 262_144
"""Characters of a text that is parsed."""
MAX_DEPTH = 50
"""Levels of brackets: it limits the time that Python's parser takes."""

MAX_LEVELS = 150
"""Levels of an argument that is unparsed, which Python does by recursion."""

HEAD = re.compile(r"(?<!\w)(\w++)\s*+\(")
ARGUMENT = re.compile(r"""(?<!\w)(\w++)=["']([^"']++)["']""")
DEFINITION = re.compile(r"def [\w_]++\(.*?\):")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHOUT_CALLS = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.Pass)


class Call(NamedTuple):
    """One call in a program."""

    name: str
    """Of the function, or of the attribute in `robot.run(…)`."""
    arguments: Mapping[str, str]
    """The text of each value, of a string without quotes, by name, or by position (`0`, `1`, …) if it is unknown."""


def calls_by_script(code: str) -> dict[str, dict[str, str]]:
    """Find calls as the script's `parse_pseudocode` does: function name to the arguments of its last `name(…)`.

    Everything that looks like a call counts, also in definitions and comments, if its brackets are not empty. It ends
    at the first `)`; only `name="value"` is an argument.
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


def parse_program(code: str) -> ast.Module:
    """Parse a text; raises Unreadable if it is not Python or exceeds the limits."""
    tree: ast.Module = parse_python(code, MAX_LENGTH, MAX_DEPTH)
    return tree


def defined_functions(code: str) -> list[str]:
    """Return the names of functions whose definitions begin a line, in order, as the script extracts them.

    A definition continues while lines begin with white space. Raises Unreadable if one cannot be parsed.
    """
    return [
        node.name
        for chunk in definitions(code)
        for node in ast.walk(parse_program(chunk))
        if isinstance(node, ast.FunctionDef)
    ]


def definitions(code: str) -> list[str]:
    """Return the texts of those definitions."""
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
    """A call in a program, and whether it is inside a function's definition."""

    node: ast.Call
    in_definition: bool


def calls_in(tree: ast.Module) -> list[Found]:
    """Return every call of a program in the order of `ast.walk`, level by level."""
    found = []
    level: list[tuple[ast.AST, bool]] = [(tree, False)]
    for node, in_definition in level:  # it grows during the loop
        inside = in_definition or isinstance(node, DEFINITIONS)
        for name in node._fields:
            value = getattr(node, name, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, WITHOUT_CALLS):
                    level.append((child, inside))
                    if isinstance(child, ast.Call):
                        found.append(Found(child, inside))
    return found


def walked_names(calls: Iterable[Found]) -> list[str]:
    """Return the names of all calls of a text in the script's order, including those in definitions.

    Raises Unreadable for a call of anything but a plain name.
    """
    names = []
    for node, _ in calls:
        if not isinstance(node.func, ast.Name):
            raise Unreadable("attribute_call")
        names.append(node.func.id)
    return names


def in_order(calls: Iterable[Found]) -> list[ast.Call]:
    """Return the calls of plain names and of attributes outside definitions, in the order of the text."""
    nodes = [node for node, inside in calls if not inside and isinstance(node.func, ast.Name | ast.Attribute)]
    nodes.sort(key=lambda node: (node.func.end_lineno or 0, node.func.end_col_offset or 0))
    return nodes


def called_names(calls: Iterable[Found]) -> list[str]:
    """Return the names of those calls."""
    return [name_of(node) for node in in_order(calls)]


def calls_with_arguments(tree: ast.Module) -> list[Call]:
    """Return those calls with their arguments; raises Unreadable for an argument that cannot be unparsed."""
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
    arguments = {known[pos] if pos < len(known) else str(pos): text_of(value) for pos, value in enumerate(node.args)}
    arguments.update({keyword.arg or "**": text_of(keyword.value) for keyword in node.keywords})
    return Call(name, arguments)


def text_of(node: ast.expr) -> str:
    """Return a string itself, else the expression's source text; raises Unreadable if Python cannot unparse it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    level: list[ast.AST] = [node]
    for _ in range(MAX_LEVELS):
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
    try:
        if not level:
            return ast.unparse(node)
    except (RecursionError, ValueError):  # a number with too many digits, a string without a literal
        pass
    raise Unreadable("too_large")
