"""BioPlanner's parser of pseudocode by regular expressions, and its distance of calls, from their description."""

import ast
import re

from .levenshtein import levenshtein_distance

UNDEFINED = "undefined_function"


def stated(code: str) -> dict[str, dict[str, str]]:
    """Map each function name to the arguments of its last call in the text."""
    calls = {}
    for name, arguments in re.findall(r"(\w+)\s*\(([^)]+)\)", code):
        calls[name] = dict(re.findall(r"(\w+)=[\"']([^\"']+)[\"']", arguments))
    return calls


def share(part: set[str], whole: set[str]) -> float | None:
    return len(part & whole) / len(whole) if whole else None


def penalized_distance(names: list[str], predicted: str, true: str) -> int:
    """Return the Levenshtein distance of the calls, plus 1 for each undefined name in the predicted program."""

    def calls(code: str) -> list[str]:
        functions = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
        return [name.id for name in functions if isinstance(name, ast.Name)]

    def known(called: list[str]) -> list[str]:
        return [name if name in names else UNDEFINED for name in called]

    ours, theirs = calls(predicted), calls(true)
    penalty = sum(name not in [*names, UNDEFINED] for name in ours)
    return levenshtein_distance(known(ours), known(theirs)) + penalty
