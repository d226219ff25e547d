"""A Chromium, the built site over http (under a sub-path) and over file://, and a strict page."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from devtools import serve, steps
from devtools.chromium import chromium as find_chromium

SITE = Path(__file__).parents[2] / "site"
ADDRESS = "http://127.0.0.1:8123/some/where/"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OWN = re.compile(r"^(http://127\.0\.0\.1:\d+/some/where/|file:///|blob:|data:)")


def pytest_collection_modifyitems(items):
    """Mark everything in this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """Look for a Chromium, in sight of the reader, if a test that will run needs one."""
    if session.config.option.collectonly:
        return
    if any("chromium" in getattr(item, "fixturenames", ()) for item in session.items):
        capture = session.config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                find_chromium()
        except steps.StepError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture(scope="session")
def site():
    """The folder of the built site."""
    assert (SITE / "index.html").exists(), "build the site first: python3 dev.py build"
    return SITE


@pytest.fixture(scope="session")
def http(site):
    """The site's address on a server, under a sub-path."""
    server, address = serve.start(site, ADDRESS, serve.public_url())
    yield address
    server.shutdown()


@pytest.fixture(scope="session")
def folder(site, tmp_path_factory):
    """The site's address when opened from a folder, whose name has a space and Urdu letters."""
    place = tmp_path_factory.mktemp("offline") / "training memory میموری"
    place.symlink_to(site, target_is_directory=True)
    return f"{place.as_uri()}/"


@pytest.fixture(params=["http", "folder"])
def base(request):
    """Each test that asks for it runs over http and over file://."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def chromium():
    """A running Chromium."""
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def pythons(page):
    """The page's workers that run Python; the theme's search has one of its own."""
    return [worker for worker in page.workers if "search" not in worker.url]


class Watch:
    """What went wrong on a page: requests to elsewhere, failed requests, uncaught errors."""

    def __init__(self, page):
        self.seen = []
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("pageerror", lambda error: self.seen.append(f"uncaught: {error}"))
        page.on("console", self._console)

    def _request(self, request):
        if not OWN.match(request.url):
            self.seen.append(f"elsewhere: {request.url}")

    def _response(self, response):
        if response.status >= 400:
            self.seen.append(f"{response.status}: {response.url}")

    def _console(self, message):
        if message.type == "error":
            self.seen.append(f"console: {message.text}")


@pytest.fixture
def new_page(chromium):
    """Open pages in fresh profiles; at the end of the test nothing may have gone wrong on them.

    `new_page(**options)` takes the browser context's options and returns a page. A test that
    provokes an error clears `page.watch.seen` once it has looked at it.
    """
    contexts = []

    def new(**options):
        context = chromium.new_context(**options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.watch = Watch(page)
        return page

    yield new
    wrong = [line for context in contexts for page in context.pages for line in page.watch.seen]
    for context in contexts:
        context.close()
    assert [] == wrong


@pytest.fixture
def python_workers():
    """A function that returns a page's workers that run Python."""
    return pythons


@pytest.fixture
def page(new_page):
    """One page in a fresh profile."""
    return new_page()
