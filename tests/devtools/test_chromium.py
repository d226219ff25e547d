"""Finding a Chromium: only where a test needs one, and the real reason where none can be had."""

import importlib.util
import stat
from types import SimpleNamespace

import pytest

from devtools import chromium, steps


def test_sentence_gives_every_reason(tmp_path, monkeypatch):
    """Where every way fails, one sentence says why each did and what to do."""

    def refused():
        raise steps.StepError("apt-get may install it only as root (this is user 1000)")

    broken = tmp_path / "chromium"
    broken.write_text(
        "#!/bin/sh\necho 'libnss3.so: cannot open shared object file' >&2\nexit 127\n"
    )
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(chromium, "KNOWN", tmp_path / "none.txt")
    monkeypatch.setattr(chromium, "_playwrights", lambda: None)
    monkeypatch.setattr(chromium, "_machines", lambda: broken)
    monkeypatch.setattr(chromium, "_downloaded", lambda: broken)
    monkeypatch.setattr(chromium, "_debians", refused)

    with pytest.raises(steps.StepError) as found:
        chromium.chromium()

    said = str(found.value)
    assert 1 == said.count("libnss3.so: cannot open shared object file")
    assert "only as root" in said
    assert "\n" not in said


def test_first_that_starts_is_remembered(tmp_path, monkeypatch):
    """A Chromium that answers is taken and is the first to be tried the next time."""
    works = tmp_path / "works"
    works.write_text("#!/bin/sh\necho '<html></html>'\n")
    works.chmod(works.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(chromium, "KNOWN", tmp_path / "known.txt")
    monkeypatch.setattr(chromium, "_playwrights", lambda: tmp_path / "missing")
    monkeypatch.setattr(chromium, "_machines", lambda: works)
    assert works == chromium.chromium()

    monkeypatch.setattr(chromium, "_machines", lambda: pytest.fail("asked again"))
    assert works == chromium.chromium()


def test_cause_is_the_line_that_tells():
    """Of a failed command's output the first line with an error in it is shown."""
    log = "Downloading Chromium\nError: getaddrinfo ENOTFOUND cdn.example\n    at GetAddr\nfailed"

    assert "Error: getaddrinfo ENOTFOUND cdn.example" == chromium.cause(log)
    assert "no reason given" == chromium.cause("")


@pytest.fixture
def browser_tests(root):
    """The settings of the browser tests, as a module of their own."""
    path = root / "tests/browser/conftest.py"
    spec = importlib.util.spec_from_file_location("browser_settings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _session(request, *names):
    option = SimpleNamespace(collectonly=False)
    config = SimpleNamespace(option=option, pluginmanager=request.config.pluginmanager)
    return SimpleNamespace(config=config, items=[SimpleNamespace(fixturenames=names)])


def test_tests_without_a_browser_look_for_none(browser_tests, monkeypatch, request):
    """A selection in which no test opens a page runs on a machine without a Chromium."""
    monkeypatch.setattr(browser_tests, "find_chromium", lambda: pytest.fail("looked for one"))

    browser_tests.pytest_collection_finish(_session(request, "root", "tmp_path"))


def test_browser_tests_end_in_the_reason(browser_tests, monkeypatch, request):
    """Where a selected test needs a Chromium and none can be had, the run ends in the sentence."""

    def none():
        raise steps.StepError("none here")

    monkeypatch.setattr(browser_tests, "find_chromium", none)

    with pytest.raises(pytest.exit.Exception, match="none here"):
        browser_tests.pytest_collection_finish(_session(request, "page", "chromium"))
