"""The verbs of dev.py."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from devtools import checks, machine, serve
from devtools.steps import CACHE, ROOT, StepError, show, step

if TYPE_CHECKING:
    from collections.abc import Callable

PYTHON = machine.PYTHON
SITE = ROOT / "site"
ZIP = ROOT / "dist/training-memory.zip"
CACHES = (".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")
MADE = (".cache", ".venv", "node_modules", "site", "dist", *CACHES)


def serve_site(_extra: list[str]) -> int:
    """Build the site and serve it on this machine; build again when a source changes."""
    if code := build([]):
        return code
    _server, address = serve.start(SITE, serve.public_url())
    print(f"\n  {address}\n\nStop with Ctrl-C.", flush=True)
    with suppress(KeyboardInterrupt):  # the way to end it, so nothing has failed
        serve.watch(lambda: build([]))
    print(flush=True)
    return 0


def build(_extra: list[str]) -> int:
    """Build the site, all languages, into site/. SITE_URL sets its public address."""
    machine.site()
    return _sitebuild()


def zip_site(_extra: list[str]) -> int:
    """Build the site and zip it as dist/training-memory.zip, to be opened without a server."""
    machine.site()
    return _sitebuild("zip", str(ZIP))


def _sitebuild(*arguments: str) -> int:
    command = [str(PYTHON), "-m", "sitebuild", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def test(extra: list[str]) -> int:
    """Check style and types, build the site, run every test but the slow tail.

    Arguments go to pytest; with any, style and types are not checked.
    """
    machine.tests()
    failed = [] if extra else checks.failures()
    if _sitebuild():
        failed.append("build failed: see its sentence above")
    if _pytest(["-m", "not slow", *extra]):
        failed.append("tests failed: see pytest's summary above")
    if failed:
        raise StepError("; ".join(failed))
    return 0


def test_slow(extra: list[str]) -> int:
    """Run the slow tail of the tests; arguments go to pytest."""
    machine.tests()
    return _sitebuild() or _pytest(["-m", "slow", *extra])


def test_package(extra: list[str]) -> int:
    """Run the package's own tests in this Python, without site or browser; arguments go to pytest."""
    machine.requirements("test")
    others = (f"--ignore=tests/{name}" for name in ("browser", "devtools", "runtime", "sitebuild"))
    return _pytest(["-m", "not slow", *others, *extra])


def _pytest(arguments: list[str]) -> int:
    return show([PYTHON, "-m", "pytest", *arguments])


def bench(_extra: list[str]) -> int:
    """Measure speed and size, each beside its limit."""
    machine.tests()
    return _sitebuild() or show([PYTHON, "-m", "devtools.bench"])


def score(extra: list[str]) -> int:
    """Score the estimator against measured runs: a file with one JSON object a line."""
    if len(extra) != 1:
        raise StepError("score takes one file with measured rows, one JSON object a line.")
    machine.requirements("test")
    return show([PYTHON, "-m", "devtools.score", *extra])


def clean(_extra: list[str]) -> int:
    """Remove everything that the other verbs made."""
    with step("clean"):
        for folder in (*(ROOT / name for name in MADE), *ROOT.rglob("__pycache__")):
            if folder.exists():
                shutil.rmtree(folder)
    return 0


VERBS: dict[str, Callable[[list[str]], int]] = {
    "serve": serve_site,
    "build": build,
    "test": test,
    "test-slow": test_slow,
    "test-package": test_package,
    "bench": bench,
    "score": score,
    "zip": zip_site,
    "clean": clean,
}
TAKES_MORE = {"test", "test-slow", "test-package", "score"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dev.py", description="The project's commands.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, action in VERBS.items():
        text = action.__doc__ or ""
        verbs.add_parser(name, help=text, description=text)
    return parser


def main(arguments: list[str]) -> int:
    """Run one verb; where one fails, the last line says what failed."""
    start = time.perf_counter()
    known, extra = _parser().parse_known_args(arguments)
    if extra and known.verb not in TAKES_MORE:
        _parser().error(f"{known.verb} takes no {extra[0]}")
    reason = ""
    try:
        CACHE.mkdir(exist_ok=True)
        code = VERBS[known.verb](extra)
    except StepError as error:
        code, reason = 1, str(error)
    except OSError as error:
        code, reason = 1, f"{error.filename}: {error.strerror}"
    except KeyboardInterrupt:
        code = 130
    word = {0: "done", 130: "stopped"}.get(code, "failed")
    print(f"{known.verb}: {word} in {time.perf_counter() - start:.1f} s")
    if reason:  # last, where it is looked for
        print(reason)
    return code
