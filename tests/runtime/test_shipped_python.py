"""The Python that the site ships runs the package, and the package's own tests."""

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from devtools import machine
from sitebuild import runtime

HERE = Path(__file__).parent
PACKAGE = "py/trainmem"


def imports(root):
    """Modules named in any import statement of the package, in functions too."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module


@pytest.fixture
def shipped(root):
    """Run a script in the shipped Python; return its output, failing if it fails."""
    assert (root / "site/py/stdlib.zip").exists(), "build the site first: python3 dev.py build"

    def run(script, *mounts):
        command = [machine.node()[0], HERE / "shipped.mjs", root / "site", HERE / script, *mounts]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    return run


def test_package_imports_only_itself_and_the_standard_library(root):
    """No module of trainmem imports anything that is not in Python."""
    tops = {name.partition(".")[0] for name in imports(root)}

    assert set() == tops - sys.stdlib_module_names - {"trainmem"}


def test_shipped_library_has_all_that_the_package_imports(root, shipped, tmp_path):
    """Every module of trainmem, and every module it names, loads from the trimmed library alone."""
    names = sorted({name for name in imports(root) if not name.startswith("trainmem")})
    (tmp_path / "imports.json").write_text(json.dumps(names))

    assert "modules of trainmem" in shipped("import_all.py", f"{tmp_path}=/given")


def test_package_tests_pass_in_the_shipped_python(root, shipped, tmp_path):
    """The package's own tests pass in the Python of the site, not only in CPython."""
    library = tmp_path / "library"
    with zipfile.ZipFile(runtime.PYODIDE / "python_stdlib.zip") as archive:
        archive.extractall(library)
    packages = Path(pytest.__file__).parents[1]
    output = shipped(
        "run_tests.py", f"{root}=/project", f"{library}=/library", f"{packages}=/packages"
    )
    print(output[-2000:])

    assert re.search(r"\b[1-9]\d* passed", output), output
    assert "failed" not in output


def test_libraries_are_reproducible(root, tmp_path):
    """Compiling the browser's libraries again gives the same bytes."""
    node = machine.node()[0]
    script = root / "py/sitebuild/compile_library.py"
    again = [node, root / "py/sitebuild/node/library.mjs", tmp_path, root, script]
    subprocess.run(again, check=True, capture_output=True)

    for name in runtime.LIBRARIES:
        assert (runtime.RUNTIME / name).read_bytes() == (tmp_path / name).read_bytes()
