"""What was written after `trainmem` on a command line.

Read by hand: the standard library's reader takes as long to load as the whole estimate.
"""

from typing import NamedTuple

from trainmem import words

FORMS = ("json", "markdown", "csv")
QUERY = "key=value ..., a query string, a page link, or the name of a model"


class Command(NamedTuple):
    """One command: what may follow it, how many words that is, what it does, and its options."""

    takes: str
    fewest: int
    most: int
    summary: str
    options: tuple[str, ...] = ("lang",)


COMMANDS = {
    "estimate": Command(
        "QUERY", 0, 99, "memory of one run, and whether it fits", (*FORMS, "svg", "lang")
    ),
    "compare": Command("A B", 2, 2, "two runs side by side"),
    "search": Command(
        "QUERY",
        0,
        99,
        "the layouts of a run over its GPUs, and the fewest GPUs that hold it",
        ("gpus", "global-batch", "limit", "json", "lang"),
    ),
    "link": Command("QUERY", 0, 99, "the page link of a run"),
    "models": Command("[FILTER]", 0, 1, "the models that are known by name"),
    "gpus": Command("[FILTER]", 0, 1, "the cards that are known by name"),
    "optimizers": Command("[FILTER]", 0, 1, "the optimizers"),
}
OPTIONS = {
    "json": "as JSON, with all rows and sources",
    "markdown": "as a Markdown table",
    "csv": "as comma-separated values",
    "svg": "also write the bar to FILE (- prints it alone)",
    "gpus": "number of GPUs (else the run's)",
    "global-batch": "sequences of an optimizer step, to be made up exactly",
    "limit": "the best so many layouts (12)",
    "lang": f"language of the words: {', '.join(words.languages)}",
}
VALUES = {"svg": "FILE", "lang": "LANGUAGE", "gpus": "N", "global-batch": "N", "limit": "N"}


class UsageError(ValueError):
    """A command line that cannot be understood, said in one sentence."""


class Asked:
    """A command with its words and options."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.given: list[str] = []
        self.form = ""
        self.svg = ""
        self.numbers: dict[str, int] = {}
        self.lang = "en"
        self.help = False

    def set(self, name: str, value: str) -> None:
        """Take one option."""
        if name not in COMMANDS[self.command].options:
            raise UsageError(f"{self.command} has no option --{name}")
        if name in FORMS:
            if self.form not in ("", name):
                raise UsageError(f"--{self.form} and --{name} cannot be used together")
            self.form = name
        elif name == "svg":
            self.svg = value
        elif VALUES.get(name) == "N":
            self.numbers[name] = _number(name, value)
        elif value in words.languages:
            self.lang = value
        else:
            raise UsageError(
                f"--lang must be one of {', '.join(words.languages)}, not {value[:20]}"
            )


def _number(name: str, value: str) -> int:
    """A whole number of one or more."""
    from trainmem import units  # noqa: PLC0415  only a search has numbers

    try:
        found = units.parse_number(value[:40])
    except (ValueError, OverflowError):
        found = 0
    if not 1 <= found <= 1 << 20 or found != int(found):
        raise UsageError(f"--{name} needs a whole number from 1 to {1 << 20:,}, not {value[:20]}")
    return int(found)


def read(given: list[str]) -> Asked:
    """The command in some words; where none is named, they are a query to estimate."""
    if not given or given[0] in ("-h", "--help", "help"):
        asked = Asked("")
        asked.help = True
        return asked
    named = given[0] in COMMANDS
    asked = Asked(given[0] if named else "estimate")
    rest = iter(given[1:] if named else given)
    for word in rest:
        if word in ("-h", "--help"):
            asked.help = True
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in VALUES and not equals:
                value = next(rest, "")
            if name in VALUES and not value:
                raise UsageError(f"--{name} needs a {VALUES[name]}")
            asked.set(name, value)
        else:
            asked.given.append(word)
    command = COMMANDS[asked.command]
    if not asked.help and not command.fewest <= len(asked.given) <= command.most:
        raise UsageError(f"usage: trainmem {asked.command} {command.takes}")
    return asked


def overview() -> str:
    """The help of the whole command line."""
    lines = [
        "What training a neural network costs in GPU memory.",
        "",
        "usage: trainmem [COMMAND] ...",
        "",
        *(f"  {name:<11} {command.summary}" for name, command in COMMANDS.items()),
        "",
        f"A QUERY is {QUERY}.",
        "Without a command, a query is estimated. `trainmem COMMAND --help` says more.",
        "Exit codes: 0 fits, 1 tight or no verdict, 3 does not fit, 2 the input had a fault.",
        "`trainmem --version` prints the version.",
    ]
    return "\n".join(lines) + "\n"


def usage(name: str) -> str:
    """The help of one command; for `estimate` with every key of a query."""
    command = COMMANDS[name]
    lines = [f"usage: trainmem {name} {command.takes} [OPTIONS]", "", command.summary, ""]
    if "QUERY" in command.takes:
        lines += [f"A QUERY is {QUERY}.", ""]
    flags = {option: f"--{option} {VALUES.get(option, '')}" for option in command.options}
    wide = max(17, *(len(flag) for flag in flags.values()))
    lines += [f"  {flag:<{wide}} {OPTIONS[option]}" for option, flag in flags.items()]
    if name == "estimate":
        from trainmem.run import KEYS  # noqa: PLC0415  only this help needs it

        keys = (f"  {key:<17} {words.text(f'help.{key}')}" for key in KEYS)
        lines += ["", "Keys of a query:", *keys]
    return "\n".join(lines) + "\n"
