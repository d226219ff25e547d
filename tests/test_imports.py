"""Who may import whom: a module knows only those above it, and nothing but the standard library."""

import ast
import sys
from pathlib import Path

import pytest

import trainmem

pytestmark = pytest.mark.cpython  # reads sources; the browser is given compiled modules

FOLDER = Path(trainmem.__file__).parent

ORDER = (
    "units", "tables", "words", "ledger", "catalog",
    "precision", "tensors", "recorder", "tape", "routing", "backward", "architectures", "optimizers", "adapters", "loss", "checkpointing", "parallel",
    "overhead", "run", "checks", "link", "configs", "huggingface", "weighing", "step", "aside", "phases", "transformer_engine", "megatron", "rows", "changes", "estimate",
    "lines", "layouts", "search", "hunt",
    "markup", "plot", "text", "terminal", "found", "form", "scene", "labels", "chart", "panels", "accounts", "curve", "hunting", "view",
    "listings", "arguments", "cli", "__main__",
)  # fmt: skip
"""From what everybody may use to what uses everything."""


def sources(name):
    """The files of a module, or of a folder that bears its name."""
    folder = FOLDER / name
    return sorted(folder.glob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def imported(name):
    """Each module that a file imports, wherever in it, for its types alone too."""
    trees = [ast.parse(path.read_text("utf-8")) for path in sources(name)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            package = node.module == "trainmem"
            yield from (
                (f"trainmem.{alias.name}" for alias in node.names) if package else [node.module]
            )


def test_every_module_has_its_place():
    """The order names each module once, and none that is not there."""
    there = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    there |= {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert there == set(ORDER)
    assert len(set(ORDER)) == len(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_a_module_imports_only_modules_above_it(name):
    """Nothing depends on what comes after it, so that each module can be read with those above in mind."""
    above = ORDER[: ORDER.index(name)]
    for found in imported(name):
        package, _, module = found.partition(".")
        if found == "trainmem":
            assert name == "cli", "the package itself stands above all, but for the command line"
        elif package == "trainmem" and module.partition(".")[0] != name:
            assert module.partition(".")[0] in above, f"{name} imports {found}"


@pytest.mark.parametrize("name", [*ORDER, "__init__"])
def test_only_the_standard_library_is_imported(name):
    """The package runs wherever Python does."""
    for found in imported(name):
        assert found.partition(".")[0] in sys.stdlib_module_names | {"trainmem"}


@pytest.mark.parametrize("name", [name for name in ORDER if name != "view"])
def test_no_module_imports_a_slow_one_at_its_start(name):
    """What takes long to import is imported where it is needed; only the page, which speaks JSON, begins with it."""
    trees = [ast.parse(path.read_text("utf-8")) for path in sources(name)]
    slow = {
        "re",
        "json",
        "argparse",
        "tomllib",
        "decimal",
        "pathlib",
        "datetime",
        "inspect",
        "logging",
        "asyncio",
    }
    for node in (node for tree in trees for node in tree.body):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert not slow & set(names)
