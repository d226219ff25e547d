"""Runs inside Pyodide: writes /out/stdlib.zip and /out/trainmem.zip, compiled and reproducible.

The standard library is cut down to the modules that trainmem reaches: those loaded after every
module of the package is imported, each page is rendered once, and every module named in an import
statement anywhere in the package (in functions too) is imported, with all that these load in turn.
"""

import ast
import contextlib
import encodings.ascii
import encodings.cp437  # the names in a zip
import encodings.latin_1  # noqa: F401
import importlib
import importlib.util
import json
import marshal
import shutil  # noqa: F401  (with the two below: what unpacks trainmem.zip at the start)
import sys
import tarfile  # noqa: F401
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
LIBRARY = Path("/lib/python314.zip")
PACKAGE = Path("/project/py/trainmem")
EARLIEST = (1980, 1, 1, 0, 0, 0)


def imported_names(source: str) -> set[str]:
    """Return the modules named in import statements, also in those inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def load_all() -> None:
    """Import and run what the browser may come to need."""
    sys.path.insert(0, str(PACKAGE.parent))
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if not module.endswith("__main__"):
            importlib.import_module(module.removesuffix(".__init__"))
        for name in sorted(imported_names(path.read_text("utf-8"))):
            with contextlib.suppress(ImportError):  # `from a import b`: b need not be a module
                importlib.import_module(name)
    render_all()


def render_all() -> None:
    """Render each page in each language, so that imports made late are made."""
    view = importlib.import_module("trainmem.view")
    words = importlib.import_module("trainmem.words")
    for page in ("workbench", "calc", "bar"):
        for language in words.languages:
            request = {"page": page, "query": "", "default": "", "language": language}
            view.respond(json.dumps({**request, "fields": [], "base": "../", "edited": ""}))


def needed() -> set[str]:
    """Return the names within the library's zip of all modules that are loaded."""
    prefix = f"{LIBRARY}/"
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    origins = (getattr(spec, "origin", None) or "" for spec in specs)
    return {origin.removeprefix(prefix) for origin in origins if origin.startswith(prefix)}


def compiled(name: str, source: bytes, optimize: int) -> bytes:
    """Return a .pyc that is loaded without looking at any source."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=optimize)
    unchecked = (0b01).to_bytes(4, "little")  # the flag of a .pyc that carries its source's hash
    digest = importlib.util.source_hash(source)
    return importlib.util.MAGIC_NUMBER + unchecked + digest + marshal.dumps(code)


def write(target: str, members: dict[str, bytes]) -> None:
    """Write a zip whose bytes depend on its members alone."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, members[name])


def library() -> dict[str, bytes]:
    wanted = needed()
    with zipfile.ZipFile(LIBRARY) as archive:
        names = [name for name in archive.namelist() if name in wanted and name.endswith(".py")]
        return {f"{n}c": compiled(f"{LIBRARY}/{n}", archive.read(n), 2) for n in names}


def package() -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE.parent).as_posix()
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        source = path.read_bytes()
        members |= (
            {f"{name}c": compiled(name, source, 0)} if path.suffix == ".py" else {name: source}
        )
    return members


load_all()
write("/out/stdlib.zip", library())
write("/out/trainmem.zip", package())
