"""Reads the texts of prompts in a Python file: its constants, and what its functions return. Nothing is executed.

The file may be anybody's: what its expressions amount to is counted before they are added up.
"""

from __future__ import annotations

import ast
import warnings
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .templates import BadTemplate, Choice, Field, Place, Template, choice, joined, size_of

MAX_PARTS = 10_000  # parts of a text, which additions of a text to itself could double without end
MAX_CHARACTERS = 1 << 24  # of all texts that the expressions of a file give, with those that they are made of
MAX_NODES = 1 << 20  # expressions and statements that are read; a function may have some for each task


class BadPython(ValueError):
    """A text that is not valid Python, or that amounts to more than is read."""


class Unreadable(Exception):
    """An expression or a statement whose text depends on more than the record."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(f"line {line_of(node)}: {what}")


def line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


class Budget:
    """What may still be read of a file, and added up."""

    def __init__(self) -> None:
        self._characters = self._nodes = 0

    def read(self, node: ast.AST, nodes: int = 1) -> None:
        """Count nodes; raises BadPython."""
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise BadPython(f"line {line_of(node)}: the file has more than {MAX_NODES:,} expressions and statements")

    def joined(self, node: ast.AST, *templates: Template) -> Template:
        """Return templates one after the other; raises BadPython if they, or all of a file, are too long."""
        self._characters += sum(map(size_of, templates))
        if self._characters > MAX_CHARACTERS:
            raise BadPython(f"line {line_of(node)}: the texts of the file have more than {MAX_CHARACTERS:,} characters")
        try:
            return joined(*templates)
        except BadTemplate as error:
            raise BadPython(f"line {line_of(node)}: {error}") from None


Names = ChainMap[str, Template]
"""The template of each name: those that statements have assigned, before the constants of the file."""


class Texts(NamedTuple):
    """The texts of a file by name; a function with branches for tasks has the names `function(TASK)`."""

    constants: Mapping[str, str]
    functions: Mapping[str, Template]
    unreadable: Mapping[str, str]
    """Why a function has no text, by its name."""


def read_python(source: str | bytes) -> Texts:
    """Return the texts of a file; raises BadPython."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that are no escapes
            tree = ast.parse(source)
    except SyntaxError as error:
        raise BadPython(f"line {error.lineno or 1}: it is not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadPython(f"it is not valid Python: {error}") from None
    budget = Budget()
    constants: dict[str, str] = {}
    reader = Reader(ChainMap(), (), budget)
    functions: dict[str, Template] = {}
    unreadable: dict[str, str] = {}
    for node in tree.body:
        for name, value in assignments(node):
            text = constant(value, reader)
            constants.pop(name, None)  # the last value counts
            reader.names.pop(name, None)
            if text is not None:
                constants[name] = text
                reader.names[name] = (text,)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            of_function = FunctionReader(node, reader.names, budget)
            tasks: list[str | None] = [*of_function.tasks()] or [None]
            for task in tasks:
                name = node.name if task is None else f"{node.name}({task})"
                try:
                    functions[name] = of_function.text(task)
                except Unreadable as error:
                    unreadable[name] = str(error)
                except RecursionError:
                    unreadable[name] = f"line {node.lineno}: it is nested too deeply"
    return Texts(constants, functions, unreadable)


def assignments(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement assigns a value to, with the value."""
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value


def constant(value: ast.expr, reader: Reader) -> str | None:
    """Return the text of an expression of literal texts and constants, None if it is another one."""
    try:
        template = reader.read(value)
    except (Unreadable, RecursionError):
        return None
    texts = [part for part in template if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(template) else None


def text_of(node: ast.AST, value: str | float) -> str:
    """Return the text of a literal; raises Unreadable for an integer whose digits Python does not write."""
    try:
        return str(value)
    except ValueError:
        raise Unreadable(node, "the number has too many digits") from None


class Reader:
    """Reads expressions as templates.

    names: the template of each name, the reader's own first. parameters: names of records, whose fields are read, as in
    `sample["question"]`.
    """

    def __init__(self, names: Names, parameters: Sequence[str], budget: Budget) -> None:
        self.names = names
        self.budget = budget
        self._parameters = parameters

    def branch(self) -> Reader:
        """Return a reader that begins with the same names."""
        own, *others = self.names.maps
        return Reader(ChainMap(dict(own), *others), self._parameters, self.budget)

    def read(self, node: ast.expr) -> Template:
        """Return the template of an expression; raises Unreadable and BadPython."""
        self.budget.read(node)
        template = self._read(node)
        if len(template) > MAX_PARTS:
            raise Unreadable(node, f"the text has more than {MAX_PARTS:,} parts")
        return template

    def _read(self, node: ast.expr) -> Template:
        match node:
            case ast.Constant(value=str() | int() | float() as value):
                return self.budget.joined(node, (text_of(node, value),))
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.JoinedStr(values=values):
                return self.budget.joined(node, *map(self.read, values))
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self.read(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.budget.joined(node, self.read(left), self.read(right))
            case ast.IfExp(test=test, body=body, orelse=otherwise) if field := self.field(test):
                return self.choice(node, field, self.read(body), self.read(otherwise))
            case ast.Call(func=ast.Name(id="str"), args=[value], keywords=[]):
                return self.read(value)
            case ast.Call(func=ast.Attribute(value=value, attr="strip"), args=[], keywords=[]):
                return self._stripped(node, self.read(value))
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="join"), args=[value]):
                template = self.read(value)
                if len(template) == 1 and isinstance(template[0], Place):
                    return (template[0]._replace(separator=text),)
        if field := self.field(node):
            return (Field(field),)
        raise Unreadable(node, "the text cannot be read without executing it")

    def choice(self, node: ast.AST, field: str, if_true: Template, otherwise: Template) -> tuple[Choice]:
        try:
            return (choice(field, if_true, otherwise),)
        except BadTemplate as error:
            raise BadPython(f"line {line_of(node)}: {error}") from None

    def field(self, node: ast.expr) -> str | None:
        """Return the field of the record that an expression names: `sample["a"]` or `sample.get("a")`."""
        match node:
            case (
                ast.Subscript(value=ast.Name(id=record), slice=ast.Constant(value=str() as name))
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=record), attr="get"),
                    args=[ast.Constant(value=str() as name), *_],
                )
            ) if record in self._parameters:
                return name
        return None

    def _stripped(self, node: ast.expr, template: Template) -> Template:
        """Return a template without white space at its ends; places are filled with texts that have none there."""
        if any(isinstance(part, Field | Choice) for part in (*template[:1], *template[-1:])):
            raise Unreadable(node, "the text cannot be read without executing it")
        first = [part.lstrip() if isinstance(part, str) else part for part in template[:1]]
        parts = [*first, *template[1:]]
        return self.budget.joined(
            node, tuple(parts[:-1]), tuple(part.rstrip() if isinstance(part, str) else part for part in parts[-1:])
        )


class FunctionReader:
    """Reads what a function returns; its parameters, and local names that depend on more, are places."""

    def __init__(self, function: ast.FunctionDef, constants: Names, budget: Budget) -> None:
        self._budget = budget
        self._function = function
        arguments = function.args
        self._parameters = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self._names: Names = constants.new_child({name: (Place(name),) for name in self._parameters})

    def tasks(self) -> list[str]:
        """Return the texts that parameters are compared with, as in `task_name == "PQA"`."""
        tests = [node.test for node in self._inside([self._function]) if isinstance(node, ast.If)]
        return list(dict.fromkeys(task for test in tests if (task := self._task(test)) is not None))

    def _task(self, test: ast.expr) -> str | None:
        match test:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str() as task)]
            ) if name in self._parameters:
                return task
        return None

    def text(self, task: str | None) -> Template:
        """Return what the function returns for a task; raises Unreadable."""
        reader = Reader(self._names, self._parameters, self._budget).branch()
        returned = self._run(self._function.body, reader, task)
        if returned is None:
            raise Unreadable(self._function, "the function returns no text")
        return returned

    def _run(self, body: Sequence[ast.stmt], reader: Reader, task: str | None) -> Template | None:
        """Follow statements until one returns, and return its text; None if none does. Changes the reader's names."""
        for node in body:
            self._budget.read(node)
            match node:
                case ast.Return(value=ast.expr() as value):
                    return reader.read(value)
                case ast.Raise():
                    raise Unreadable(node, "the function raises an exception")
                case ast.If(test=test):
                    returned = self._branch(node, test, reader, task)
                    if returned is not None:
                        return returned
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    self._assign(reader, name, ast.BinOp(ast.Name(name), ast.Add(), value, lineno=node.lineno))
                case ast.Assign() | ast.AnnAssign():
                    for name, value in assignments(node):
                        self._assign(reader, name, value)
                case _:
                    if any(isinstance(inner, ast.Return) for inner in self._inside([node])):
                        raise Unreadable(node, "the function returns inside a statement that is not followed")
                    reader.names.update(places_of(self._inside([node])))
        return None

    def _assign(self, reader: Reader, name: str, value: ast.expr) -> None:
        try:
            reader.names[name] = reader.read(value)
        except Unreadable:
            reader.names[name] = (Place(name),)

    def _branch(self, node: ast.If, test: ast.expr, reader: Reader, task: str | None) -> Template | None:
        if (named := self._task(test)) is not None:
            return self._run(node.body if task == named else node.orelse, reader, task)
        if any(isinstance(inner, ast.Return | ast.Raise) for inner in self._inside([node])):
            raise Unreadable(node, "what the function returns depends on a condition")
        branches = [reader.branch() for _ in range(2)]
        self._run(node.body, branches[0], task)
        self._run(node.orelse, branches[1], task)
        field = reader.field(test)
        for name in places_of(self._inside([*node.body, *node.orelse])):
            first, second = (branch.names.get(name) for branch in branches)
            if first == second and first is not None:
                reader.names[name] = first
            elif field is not None and first is not None and second is not None:
                reader.names[name] = reader.choice(node, field, first, second)
            else:
                reader.names[name] = (Place(name),)
        return None

    def _inside(self, statements: Sequence[ast.stmt]) -> list[ast.AST]:
        """Return all nodes of statements; raises BadPython."""
        nodes = [node for statement in statements for node in ast.walk(statement)]
        if nodes:
            self._budget.read(statements[0], len(nodes))
        return nodes


def places_of(nodes: Sequence[ast.AST]) -> dict[str, Template]:
    """Return a place for each name that statements assign, from the nodes of these statements."""
    names = [node for node in nodes if isinstance(node, ast.Name)]
    return {node.id: (Place(node.id),) for node in names if isinstance(node.ctx, ast.Store)}
