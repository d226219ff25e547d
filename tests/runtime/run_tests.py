"""Runs inside the shipped Python: the package's own tests, with pytest mounted behind the library.

What only pytest needs comes last on the path: the whole standard library and the packages of the
test requirements. Its value is the exit code.
"""

import os
import sys
from importlib.machinery import PathFinder

LIBRARY = "/library"


class Behind:
    """Finds the rest of a package of which the shipped library has only a part."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        parent = name.rpartition(".")[0]
        return PathFinder.find_spec(name, [f"{LIBRARY}/{parent.replace('.', '/')}"], target)


sys.dont_write_bytecode = True
sys.path += [LIBRARY, "/packages"]
sys.meta_path.append(Behind)
os.chdir("/project")

import pytest  # noqa: E402

import trainmem  # noqa: E402

assert trainmem.__file__.endswith(".pyc"), f"not the shipped package: {trainmem.__file__}"
pytest.main(
    [
        "tests",
        *(f"--ignore=tests/{name}" for name in ("browser", "devtools", "runtime", "sitebuild")),
        "-q",
        "-o",
        "pythonpath=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "-m",
        "not slow and not browser and not cpython",
    ]
)
