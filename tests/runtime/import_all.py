"""Runs inside the shipped Python, with nothing mounted behind it: imports and renders everything."""

import importlib
import json
import sys
from pathlib import Path

import trainmem

root = Path(trainmem.__file__).parent
modules = sorted(path.relative_to(root).with_suffix("") for path in root.rglob("*.pyc"))
for module in modules:
    name = ".".join(("trainmem", *module.parts)).removesuffix(".__init__")
    if not name.endswith("__main__"):
        importlib.import_module(name)

for name in json.loads(Path("/given/imports.json").read_text("utf-8")):
    importlib.import_module(name)

from trainmem import view, words  # noqa: E402

for page in ("workbench", "calc", "bar"):
    for language in words.languages:
        request = {"page": page, "query": "", "default": "", "language": language}
        view.respond(json.dumps({**request, "fields": [], "base": "../", "edited": ""}))

print(f"{len(modules)} modules of trainmem, {len(sys.modules)} in all")
