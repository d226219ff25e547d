"""The browser's Python: a worker script, Pyodide's WebAssembly, compiled libraries, and the same
files packed as scripts for pages opened from a folder. Made in .cache/runtime from locked packages.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from pathlib import Path

from devtools import machine
from devtools.steps import CACHE, ROOT, Stamp, files, run, step
from sitebuild import archive

HERE = Path(__file__).parent
RUNTIME = CACHE / "runtime"
PYODIDE = ROOT / "node_modules/pyodide"
LIBRARIES = ("stdlib.zip", "trainmem.zip")
FILES = ("worker.js", "pyodide.asm.wasm", *LIBRARIES)
PLAYGROUND = ("pyodide.mjs", "pyodide.asm.mjs", "python_stdlib.zip")


def build() -> Path:
    """Make what is not up to date; return the folder."""
    (RUNTIME / "pack").mkdir(parents=True, exist_ok=True)
    _worker()
    _libraries()
    for name in FILES:
        _pack(RUNTIME / name)
    return RUNTIME


def _worker() -> None:
    inputs = files("package-lock.json", HERE / "node/worker.mjs", HERE / "node/bundle.mjs")
    stamp = Stamp("worker", inputs)
    if stamp.fresh(RUNTIME / "worker.js", RUNTIME / "pyodide.asm.wasm"):
        return
    with step("bundle the worker"):
        run([machine.node()[0], HERE / "node/bundle.mjs", RUNTIME / "worker.js"])
        shutil.copyfile(PYODIDE / "pyodide.asm.wasm", RUNTIME / "pyodide.asm.wasm")
    stamp.set()


def _libraries() -> None:
    scripts = [HERE / "compile_library.py", HERE / "node/library.mjs"]
    stamp = Stamp("libraries", files("package-lock.json", "py/trainmem", *scripts))
    if stamp.fresh(*(RUNTIME / name for name in LIBRARIES)):
        return
    with step("compile the browser's Python library"):
        node = machine.node()[0]
        run([node, HERE / "node/library.mjs", RUNTIME, ROOT, HERE / "compile_library.py"])
        archive.folder(RUNTIME / "trainmem-source.zip", ROOT / "py/trainmem", "trainmem/")
    stamp.set()


def _pack(path: Path) -> None:
    """Write pack/NAME.js, which hands the gzipped file over to the page as base64."""
    target = RUNTIME / "pack" / f"{path.name}.js"
    stamp = Stamp(f"pack-{path.name}", [path])
    if stamp.fresh(target):
        return
    text = base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()
    target.write_text(f'tmPack("{path.name}","{text}");\n')
    stamp.set()


def install(site: Path) -> None:
    """Copy the runtime to py/ in the site, with what only the playground's editor needs."""
    shutil.copytree(RUNTIME, site / "py", dirs_exist_ok=True)
    for name in PLAYGROUND:
        shutil.copyfile(PYODIDE / name, site / "py" / name)
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    (site / "py/pyodide-lock.json").write_text(json.dumps({"info": lock["info"], "packages": {}}))
    editor = ROOT / "node_modules/@pyscript/core/dist"
    shutil.copytree(
        editor, site / "py/editor", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.map")
    )
