"""A Chromium for the browser tests and the benchmark: the first that starts, or the real reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from devtools.machine import PYTHON, can_install_debian_packages, install_debian_package
from devtools.steps import CACHE, StepError, run, step

KNOWN = CACHE / "chromium.txt"
DOWNLOADS = {"PLAYWRIGHT_BROWSERS_PATH": str(CACHE / "playwright")}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACS = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def chromium() -> Path:
    """Return a Chromium that starts, taking the first that there is (or can be had)."""
    if KNOWN.exists() and not trouble(known := Path(KNOWN.read_text())):
        return known
    reasons: list[str] = []
    for find in (_playwrights, _machines, _downloaded, _debians):
        try:
            found = find()
            reason = trouble(found) if found else ""
        except StepError as error:
            found, reason = None, str(error)
        if found and not reason:
            KNOWN.parent.mkdir(exist_ok=True)
            KNOWN.write_text(str(found))
            return found
        if reason and reason not in reasons:
            reasons.append(reason)
    raise StepError(sentence(reasons))


def sentence(reasons: list[str]) -> str:
    """Say why no Chromium can be had, and what to do."""
    why = "; ".join(reasons) or "there is none here, and none may be installed"
    return f"The browser tests need a Chromium: {why}. Install one that `chromium` starts."


def trouble(program: Path) -> str:
    """Return why a program does not start as a Chromium: nothing if it does."""
    try:
        done = subprocess.run(
            [program, *FLAGS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{program} did not answer within 60 s"
    except OSError as error:
        return f"{program} cannot be run ({error.strerror})"
    if done.returncode == 0 and b"<html>" in done.stdout:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"{program} does not start ({said[-1] if said else f'exit code {done.returncode}'})"


def _path(env: dict[str, str]) -> Path | None:
    code = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p: print(p.chromium.executable_path)"
    )
    found = Path(run([PYTHON, "-c", code], timeout=60, env=env).strip())
    return found if found.exists() else None


def _playwrights() -> Path | None:
    """Return Playwright's own, where it is installed already or was downloaded before."""
    return _path({}) or _path(DOWNLOADS)


def _machines() -> Path | None:
    found = [Path(path) for name in NAMES if (path := shutil.which(name))]
    return next((path for path in (*found, MACS) if path.exists()), None)


def _downloaded() -> Path | None:
    try:
        with step("download Playwright's Chromium into .cache"):
            run([PYTHON, "-m", "playwright", "install", "chromium"], timeout=300, env=DOWNLOADS)
    except StepError as error:
        raise StepError(f"Playwright's cannot be downloaded ({cause(str(error))})") from error
    return _path(DOWNLOADS)


def cause(log: str) -> str:
    """Return the line of a failed command's output that says why: the first that names an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and not line.startswith("at ")]
    return (telling or lines or ["no reason given"])[0].rstrip(".")


def _debians() -> Path | None:
    if not shutil.which("apt-get"):
        return None
    if not can_install_debian_packages():
        raise StepError(f"apt-get may install it only as root (this is user {os.getuid()})")
    try:
        install_debian_package("chromium")
    except StepError as error:
        raise StepError(f"apt-get cannot install it ({cause(str(error))})") from error
    return _machines()
