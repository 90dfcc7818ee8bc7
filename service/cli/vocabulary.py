"""Names that people guess for commands and options, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import close_match, did_you_mean

FORMER_OPTIONS = {
    "bench": {"--prompts": "--references"},
    "check": {"--min-similarity": "--similarity"},
    "compare": {"--label": "--label-field"},
    "evaluate": {"--label": "--label-field"},
    "score": {"--report": "--html"},
}
"""The names that options of a command had in 0.3, with their names today: they still work; no help shows them."""

GUESSED_COMMANDS = {
    "api": "serve",
    "benchmark": "bench",
    "compile": "warmup",
    "convert": "prepare",
    "diff": "compare",
    "eval": "evaluate",
    "filter": "select",
    "grade": "score",
    "help": "--help",
    "infer": "generate",
    "lint": "check",
    "report": "score --html",
    "reward": "score",
    "run": "serve",
    "server": "serve",
    "settings": "config",
    "start": "serve",
    "sweep": "ablate",
    "test": "conformance",
    "validate": "check",
    "version": "--version",
    "why": "explain",
}

GUESSED_OPTIONS: dict[str, Sequence[str]] = {
    "--api-base": ("--endpoint", "--url"),
    "--base-url": ("--endpoint", "--url"),
    "--bootstrap": ("--resamples",),
    "--bottom": ("--worst",),
    "--distribution": ("--html",),
    "--first": ("--limit",),
    "--format": ("--output-format", "--input-format"),
    "--group-by": ("--by", "--group-field"),
    "--head": ("--limit",),
    "--index": ("--number",),
    "--jobs": ("--concurrency", "--workers"),
    "--line": ("--number",),
    "--lowest": ("--worst",),
    "--max-rows": ("--limit",),
    "--md": ("--markdown",),
    "--models": ("--name", "--model"),
    "--n": ("--samples", "--number"),
    "--num-samples": ("--samples",),
    "--out": ("--output", "--json"),
    "--output": ("--output", "--json", "--html"),
    "--page": ("--html",),
    "--parallel": ("--concurrency", "--workers"),
    "--record": ("--number",),
    "--report": ("--html",),
    "--row": ("--number",),
    "--save": ("--output", "--json"),
    "--settings": ("--config",),
    "--silent": ("--quiet",),
    "--tex": ("--latex",),
    "--threshold": ("--similarity", "--min-reward"),
    "--top": ("--best",),
    "--url": ("--url", "--endpoint"),
    "-o": ("--output", "--json"),
}
"""Names of options in other programs or commands, with the options that may be meant, the likeliest first."""


def current_names(command: str, args: Iterable[str]) -> list[str]:
    """Return the arguments with the former names of the command's options replaced."""
    former = FORMER_OPTIONS.get(command, {})
    parts = (arg.partition("=") for arg in args)
    return [f"{former.get(name, name)}{sign}{value}" for name, sign, value in parts]


def command_meant(name: str, commands: Iterable[str]) -> str:
    """Return `; did you mean score?`, or nothing if no command is near."""
    guess = GUESSED_COMMANDS.get(name.lower())
    return f"; did you mean {guess}?" if guess else did_you_mean(name, commands)


def option_meant(name: str, options: Mapping[str, Sequence[str]], command: str) -> str:
    """Return which option of the command may be meant, or else which other commands have such an option.

    options: the names of options by command.
    """
    own = options[command]
    meant = {guess: [option for option in likely if option in own] for guess, likely in GUESSED_OPTIONS.items()}
    guesses = meant.get(name, []) + [option for option in own if option.startswith(name)]
    if guesses:
        return f"; did you mean {guesses[0]}?"
    for option in (name, *GUESSED_OPTIONS.get(name, ())):
        if holders := [f"assay {other}" for other, names in options.items() if option in names]:
            return f"; {option} is an option of {', '.join(holders)}"
    near = close_match(name, [*own, *(guess for guess, likely in meant.items() if likely)])
    if near is None:
        return ""
    return f"; did you mean {near if near in own else meant[near][0]}?"
