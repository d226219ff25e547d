"""Steps of a command: a progress line with its time, stamps that say what is up to date."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"


class StepError(Exception):
    """A step that cannot be done; its text is one sentence for the person at the keyboard."""


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process of this project is in here (where the system can lock files)."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        if importlib.util.find_spec("fcntl"):
            import fcntl  # noqa: PLC0415  (not on every system)

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print the title, do the body, print how long it took."""
    print(f"{title} …", end="", flush=True)
    start = time.perf_counter()
    try:
        yield
    except KeyboardInterrupt:
        print(" stopped", flush=True)
        raise
    except BaseException:
        print(" failed", flush=True)
        raise
    print(f" {time.perf_counter() - start:.1f} s", flush=True)


def run(
    command: list[str | Path], *, timeout: float | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a command quietly in the project's folder; show its output only when it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StepError(f"`{' '.join(words)}` took longer than {timeout} s") from error
    except OSError as error:
        raise StepError(f"`{words[0]}` cannot be run: {error.strerror}") from error
    if done.returncode:
        raise StepError(f"{done.stdout.strip()}\n`{' '.join(words)}` failed")
    return done.stdout


def show(command: list[str | Path], env: Mapping[str, str] | None = None) -> int:
    """Run a command with its output on this terminal; return its exit code."""
    print("$", *command, flush=True)
    full = None if env is None else {**os.environ, **env}
    return subprocess.run(
        [str(word) for word in command], cwd=ROOT, env=full, check=False
    ).returncode


def files(*places: str | Path) -> list[Path]:
    """Return the files under the given files and folders of the project, sorted."""
    found: set[Path] = set()
    for place in places:
        path = ROOT / place
        below = path.rglob("*") if path.is_dir() else [path]
        found.update(p for p in below if p.is_file() and "__pycache__" not in p.parts)
    return sorted(found)


def digest(paths: Iterable[Path], *words: str) -> str:
    """Return a hash of the files' names and bytes and of the words."""
    total = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        total.update(str(path.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


class Stamp:
    """Remembers from which inputs something was made, so that it is not made twice.

    `home`: the folder that holds what was made. The stamp lies in it, so that whatever empties or
    replaces the folder (another Python's .venv, a hand) voids the stamp with it.
    """

    def __init__(
        self, name: str, inputs: Iterable[Path], *words: str, home: Path | None = None
    ) -> None:
        self.path = (home or CACHE) / ".stamps" / name
        self.value = digest(inputs, *words, sys.version)

    def fresh(self, *outputs: Path) -> bool:
        """Say whether the outputs are there and were made from these inputs."""
        known = self.path.read_text() if self.path.exists() else ""
        return known == self.value and all(path.exists() for path in outputs)

    def set(self) -> None:
        """Remember that the outputs are made."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.value)
