"""Settings for all tests, in CPython and in the browser's Python."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
IN_BROWSERS_PYTHON = sys.platform == "emscripten"

settings.register_profile("cpython", deadline=None)
settings.register_profile("browser", deadline=None, max_examples=10, database=None)
settings.load_profile("browser" if IN_BROWSERS_PYTHON else "cpython")


def pytest_report_header():
    """Say which Python this is and how many examples a property gets."""
    kind = "the browser's Python" if IN_BROWSERS_PYTHON else "CPython"
    return f"{kind}; {settings().max_examples} examples a property"


@pytest.fixture(scope="session")
def root():
    """The project's folder."""
    return ROOT
