"""Reads the texts of prompts in a Python file: its constants, and what its functions return. Nothing is executed.

Only as much of Python is read as the published files need. The file may be anybody's: a text is read when a prompt
names it, and its length is counted before it is built.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Mapping

from .templates import BadTemplate, Field, Template, TemplateChoice, TemplatePlace, TooLong, join_templates, size_of

MAX_CHARACTERS = 1 << 22  # of all texts that are read of a file, with those that they are made of

TO_EXECUTE = "the text cannot be read without executing it"

Names = dict[str, Template]


class UnreadablePrompt(BadTemplate):
    """An expression or a statement whose text depends on more than the record."""


class PythonTexts:
    """The texts of a file by name; a function with branches for tasks has the names `function(TASK)`.

    names: of its functions and constants. Raises BadTemplate for what is not valid Python.
    """

    def __init__(self, source: bytes) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes that are no escapes
                tree = ast.parse(source)
        except SyntaxError as error:
            raise BadTemplate(f"line {error.lineno or 1}: it is not valid Python: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise BadTemplate(f"it is not valid Python: {error}") from None
        self._functions: dict[str, tuple[ast.FunctionDef, str | None]] = {}
        self._values: dict[str, list[ast.expr | None]] = {}
        self._constants: Names = {}
        self._characters = 0
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                tasks = tasks_of(node)
                self._functions |= {f"{node.name}({task})": (node, task) for task in tasks}
                if not tasks:
                    self._functions[node.name] = node, None
            elif not isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
                value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
                for name in assigned_names(node):
                    self._values.setdefault(name, []).append(value)
        self.names = [*self._functions, *self._values]

    def is_constant(self, name: str) -> bool:
        return name in self._values

    def read(self, name: str) -> Template:
        """Return the template of one of the names; raises BadTemplate."""
        try:
            if name not in self._functions:
                return self._constant(name)
            function, task = self._functions[name]
            names: Names = {parameter: (TemplatePlace(parameter),) for parameter in parameters_of(function)}
            returned = self._run(function.body, names, list(names), task)
        except RecursionError:
            raise UnreadablePrompt("it is nested too deeply") from None
        if returned is None:
            raise unreadable(function, "the function returns no text")
        return returned

    def _constant(self, name: str) -> Template:
        if name not in self._constants:
            value, *others = self._values[name]
            if value is None or others:
                raise UnreadablePrompt(f"{name} is assigned more than once, or by another statement than NAME = TEXT")
            self._constants[name] = self._read(value, {}, ())
        return self._constants[name]

    def _run(
        self, body: list[ast.stmt], names: Names, parameters: Collection[str], task: str | None
    ) -> Template | None:
        """Follow statements until one returns, and return its text; None if none does. Changes the names.

        Local names that depend on more than the record become places.
        """
        for node in body:
            match node:
                case ast.Return(value=ast.expr() as value):
                    return self._read(value, names, parameters)
                case ast.If(test=test) if (branch := task_in(test, parameters)) is not None:
                    chosen = node.body if branch == task else node.orelse
                    if (returned := self._run(chosen, names, parameters, task)) is not None:
                        return returned
                case ast.If(test=test) if (field := field_in(test, parameters)) is not None:
                    names.update(choices_in(node, field, parameters))
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in names:
                    names[name] = self._joined(value, [names[name], self._read(value, names, parameters)])
                case ast.AugAssign():
                    raise unreadable(node, TO_EXECUTE)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    try:
                        names[name] = self._read(value, names, parameters)
                    except UnreadablePrompt:
                        if any(field_in(inner, parameters) is not None for inner in ast.walk(value)):
                            raise
                        names[name] = (TemplatePlace(name),)
                case _:
                    if any(isinstance(inner, ast.Return | ast.Raise) for inner in ast.walk(node)):
                        raise unreadable(node, "what the function returns depends on a statement that is not followed")
                    names.update({name: (TemplatePlace(name),) for name in assigned_names(node)})
        return None

    def _read(self, node: ast.expr, names: Mapping[str, Template], parameters: Collection[str]) -> Template:
        """Return the template of an expression; parameters: names of records, whose fields are read."""
        match node:
            case ast.Constant(value=str() as text):
                return self._joined(node, [(text,)])
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name) if name in self._values:
                return self._constant(name)
            case ast.JoinedStr(values=values):
                return self._joined(node, [self._read(value, names, parameters) for value in values])
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._read(value, names, parameters)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined(node, [self._read(part, names, parameters) for part in (left, right)])
            case ast.Call(func=ast.Attribute(value=value, attr="strip"), args=[], keywords=[]):
                match self._read(value, names, parameters):
                    case (TemplatePlace(),) as template:  # its text has no white space at its ends
                        return template
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as separator), attr="join"), args=[value]):
                match self._read(value, names, parameters):
                    case (TemplatePlace() as place,):
                        return (place._replace(separator=separator),)
        if (field := field_in(node, parameters)) is not None:
            return (Field(field),)
        raise unreadable(node, TO_EXECUTE)

    def _joined(self, node: ast.expr, templates: list[Template]) -> Template:
        self._characters += sum(map(size_of, templates))
        if self._characters > MAX_CHARACTERS:
            raise BadTemplate(f"line {node.lineno}: the texts have more than {MAX_CHARACTERS:,} characters")
        try:
            return join_templates(*templates)
        except TooLong as error:
            raise BadTemplate(f"line {node.lineno}: {error}") from None


def unreadable(node: ast.expr | ast.stmt, what: str) -> UnreadablePrompt:
    return UnreadablePrompt(f"line {node.lineno}: {what}")


def assigned_names(statement: ast.stmt) -> Iterator[str]:
    nodes = ast.walk(statement)
    return (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def parameters_of(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def tasks_of(function: ast.FunctionDef) -> list[str]:
    """Return the texts that parameters are compared with, as in `task_name == "PQA"`."""
    parameters = parameters_of(function)
    tests = [node.test for node in ast.walk(function) if isinstance(node, ast.If)]
    return list(dict.fromkeys(task for test in tests if (task := task_in(test, parameters)) is not None))


def task_in(test: ast.expr, parameters: Collection[str]) -> str | None:
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str() as task)]) if (
            name in parameters
        ):
            return task
    return None


def field_in(node: ast.AST, parameters: Collection[str]) -> str | None:
    """Return the field of the record that an expression names: `sample["a"]` or `sample.get("a")`."""
    match node:
        case (
            ast.Subscript(value=ast.Name(id=record), slice=ast.Constant(value=str() as name))
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id=record), attr="get"), args=[ast.Constant(value=str() as name)]
            )
        ) if record in parameters:
            return name
    return None


def choices_in(node: ast.If, field: str, parameters: Collection[str]) -> Names:
    """Return the name that a condition on a field sets to one of two fields; raises Unreadable for another one."""
    match node.body, node.orelse:
        case [ast.Assign(targets=[ast.Name(id=name)], value=first)], [
            ast.Assign(targets=[ast.Name(id=other)], value=second)
        ] if name == other:
            fields = field_in(first, parameters), field_in(second, parameters)
            if fields[0] is not None and fields[1] is not None:
                return {name: (TemplateChoice(field, fields[0], fields[1]),)}
    raise unreadable(node, "a condition on a field is read only if it chooses between two fields")
