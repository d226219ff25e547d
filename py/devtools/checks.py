"""Style and types: each check shows its output as it is and tells which files failed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

from devtools.machine import PYTHON
from devtools.steps import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MOST_FILES = 5  # named in one line; the check's own output has them all


class Check(NamedTuple):
    """A check of the sources, run in the project's folder."""

    kind: str
    name: str
    arguments: tuple[str, ...]


CHECKS = (
    Check("style", "ruff check", ("ruff", "check", "--quiet", "--output-format=concise", ".")),
    Check("style", "ruff format", ("ruff", "format", "--check", ".")),
    Check("types", "mypy", ("mypy", "--strict", "py")),
)


def failures() -> list[str]:
    """Run every check; return a phrase for each that fails, such as "style failed: mypy: py/x.py"."""
    return [phrase for check in CHECKS if (phrase := _failure(check))]


def _failure(check: Check) -> str:
    print("$ python -m", *check.arguments, flush=True)
    done = subprocess.run(
        [str(PYTHON), "-m", *check.arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    print(done.stdout, end="", flush=True)
    return phrase(check, done.stdout, ROOT) if done.returncode else ""


def phrase(check: Check, output: str, root: Path) -> str:
    """Say which check failed and in which files, read from the check's output."""
    names = list(dict.fromkeys(filter(None, (_file(line, root) for line in output.splitlines()))))
    shown = ", ".join(names[:MOST_FILES])
    if more := len(names) - MOST_FILES:
        shown += f" and {more} more" if more > 0 else ""
    return f"{check.kind} failed: {check.name}" + (f": {shown}" if shown else "")


def _file(line: str, root: Path) -> str:
    """Return the file that a line is about: "FILE:3: …" or " --> FILE:3:1"."""
    name = line.strip().removeprefix("--> ").split(":")[0]
    return name if name and (root / name).is_file() else ""
