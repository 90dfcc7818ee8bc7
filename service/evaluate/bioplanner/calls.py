"""Calls of functions in pseudocode: as BioPlanner's script finds them, but in linear time, and by Python's grammar."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..python_source import Unreadable, parse_python

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "FunctionCall", "Program", "calls_by_script", "defined_functions"]

MAX_LENGTH = 262_144
MAX_DEPTH = 50  # levels of brackets: limits the time of Python's parser
MAX_LEVELS = 150  # of an argument that is unparsed, which Python does by recursion
MAX_WRITTEN = 2 * MAX_LENGTH
"""Characters of all arguments: nested calls are written out once for each call around them."""

HEAD = re.compile(r"(?<!\w)(\w++)\s*+\(")
ARGUMENT = re.compile(r"""(?<!\w)(\w++)=["']([^"']++)["']""")
DEFINITION = re.compile(r"^def \w++\(.*?\):.*+(?:\n[^\S\n].*+)*+", re.MULTILINE)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHOUT_CALLS = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.Pass)


class FunctionCall(NamedTuple):
    """One call; its arguments by name, or by position (`0`, `1`, …) if the name is unknown."""

    name: str
    arguments: Mapping[str, str]


def calls_by_script(code: str) -> dict[str, dict[str, str]]:
    """Find calls as the script's `parse_pseudocode` does: function name to the arguments of its last `name(…)`.

    A call ends at the first `)`, counts also in definitions and comments, and has only arguments `name="value"`.
    """
    calls: dict[str, dict[str, str]] = {}
    position = 0
    while head := HEAD.search(code, position):
        begin = head.end()
        stop = code.find(")", begin)
        if stop < 0:
            break
        position = begin
        if stop > begin:
            calls[head[1]] = dict(ARGUMENT.findall(code, begin, stop))
            position = stop + 1
    return calls


def defined_functions(code: str) -> list[str]:
    """Return the names of functions whose definitions begin a line; raises Unreadable if one cannot be parsed."""
    return [
        node.name
        for definition in DEFINITION.findall(code)
        for node in ast.walk(parse_python(definition, MAX_LENGTH, MAX_DEPTH))
        if isinstance(node, ast.FunctionDef)
    ]


class Program:
    """The calls of a program, by Python's grammar; raises Unreadable if it is not Python or exceeds the limits."""

    def __init__(self, code: str) -> None:
        self._calls: list[ast.Call] = []
        self._in_order: list[tuple[str, ast.Call]] = []
        """Calls of plain names and of attributes outside definitions, in the order of the text."""
        self._parameters: dict[str, list[str]] = {}
        level: list[tuple[ast.AST, bool]] = [(parse_python(code, MAX_LENGTH, MAX_DEPTH), False)]
        for node, in_definition in level:  # it grows during the loop
            if isinstance(node, DEFINITIONS):
                in_definition = True
                self._parameters[node.name] = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            elif isinstance(node, ast.Call):
                self._calls.append(node)
                if not in_definition and isinstance(node.func, ast.Name | ast.Attribute):
                    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                    self._in_order.append((name, node))
            for field in node._fields:
                value = getattr(node, field, None)
                children = value if isinstance(value, list) else (value,)
                level += [
                    (child, in_definition)
                    for child in children
                    if isinstance(child, ast.AST) and not isinstance(child, WITHOUT_CALLS)
                ]
        self._in_order.sort(key=lambda call: (call[1].func.end_lineno or 0, call[1].func.end_col_offset or 0))

    def walked_names(self) -> list[str]:
        """Return the names of all calls in the script's order; raises Unreadable for anything but a plain name."""
        if not all(isinstance(node.func, ast.Name) for node in self._calls):
            raise Unreadable("attribute_call")
        return [node.func.id for node in self._calls if isinstance(node.func, ast.Name)]

    def names(self) -> list[str]:
        return [name for name, _ in self._in_order]

    def calls(self) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        written = 0
        for name, node in self._in_order:
            calls.append(FunctionCall(name, self._arguments(name, node)))
            written += sum(map(len, calls[-1].arguments.values()))
            if written > MAX_WRITTEN:
                raise Unreadable("too_large")
        return calls

    def _arguments(self, name: str, node: ast.Call) -> dict[str, str]:
        names = self._parameters.get(name, [])
        positional = {names[k] if k < len(names) else str(k): text_of(value) for k, value in enumerate(node.args)}
        return positional | {keyword.arg or "**": text_of(keyword.value) for keyword in node.keywords}


def text_of(node: ast.expr) -> str:
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
