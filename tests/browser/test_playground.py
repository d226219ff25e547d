"""The playground: an editor on a server, the cell's output from the build everywhere."""

import re

import pytest

PATH = "playground.html"
NOTICE = "Unable to use `window` or `document` in worker"


def test_cell_runs_and_resets(http, page):
    """The reader edits the cell, runs it, sees what it prints, and gets the first text back."""
    page.goto(f"{http}{PATH}")
    content = page.locator(".cm-content")
    content.wait_for()
    first = content.inner_text().strip()
    content.click()
    page.keyboard.press("Control+A")
    page.keyboard.type("import trainmem; print(len(trainmem.__version__), 6 * 7)")
    page.get_by_role("button", name="Run", exact=True).click()
    assert "loading" in page.locator(".tm-cell__status").inner_text()
    page.wait_for_function(
        "document.querySelector('.py-editor-output').textContent.includes(' 42')"
    )
    page.get_by_role("button", name="Run", exact=True).wait_for()
    page.watch.seen[:] = [line for line in page.watch.seen if NOTICE not in line]

    assert page.locator(".tm-cell-note").is_hidden()
    assert page.locator(".tm-cell__output").is_hidden()
    assert page.locator(".tm-cell-built").is_hidden()
    assert "" == page.locator(".tm-cell__status").inner_text()
    page.locator(".tm-cell__reset").click()
    assert first == content.inner_text().strip()


def test_run_without_end_is_stopped(http, page):
    """Stop ends a cell that never would, keeps its text, and the cell can be run again."""
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(f"{http}{PATH}")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("while True: pass")
    page.keyboard.press("Shift+Enter")
    page.get_by_role("button", name="Stop", exact=True).click()

    page.get_by_role("button", name="Run", exact=True).wait_for()
    assert "while True: pass" == page.locator(".cm-content").inner_text().strip()
    page.locator(".tm-cell__reset").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_function(
        "document.querySelector('.py-editor-output').textContent.includes('GiB')"
    )
    page.watch.seen[:] = [line for line in page.watch.seen if NOTICE not in line]


def _contrast(*colors):
    """WCAG's ratio of two colours as the browser writes them."""
    found = []
    for color in colors:
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        found.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    dark, light = sorted(found)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_editor_is_readable(http, new_page, scheme):
    """On a phone, in both schemes, code and its line numbers stand out and Run is in sight."""
    page = new_page(color_scheme=scheme, viewport={"width": 360, "height": 740})
    page.goto(f"{http}{PATH}")
    page.locator(".tm-cell__row").wait_for()

    style = "(e, name) => getComputedStyle(e)[name]"
    paper = page.locator(".cm-editor").evaluate(style, "backgroundColor")
    for part in (".cm-line span >> nth=0", ".cm-line >> nth=0", ".cm-gutters"):
        ink = page.locator(part).evaluate(style, "color")
        assert _contrast(ink, paper) >= 4.5, part
    assert "1" == page.locator(".py-editor-run-button").evaluate(style, "opacity")
    assert "Source Code Pro" in page.locator(".py-editor-output").evaluate(style, "fontFamily")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_editor_leaves_the_focus_alone(http, page):
    """Opening the page does not move the focus into the editor, and Escape, Tab leaves it."""
    page.goto(f"{http}{PATH}")
    page.locator(".tm-cell__row").wait_for()
    assert "BODY" == page.evaluate("document.activeElement.tagName")

    page.locator(".cm-content").click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('.py-editor-run-button')")


def test_reached_by_instant_navigation(http, page):
    """The editor comes up when the page is reached from another one, too."""
    page.goto(f"{http}index.html")
    page.wait_for_load_state("networkidle")
    page.locator("a[href$='playground.html']").first.dispatch_event("click")
    page.wait_for_selector(".cm-content")


def test_cell_stands_as_built_without_an_editor(base, new_page):
    """Without JavaScript the cell's code, its output and the reason are on the page."""
    page = new_page(java_script_enabled=False)
    page.goto(f"{base}{PATH}")

    assert "import trainmem" in page.locator(".tm-cell__code").inner_text()
    assert "GiB" in page.locator(".tm-cell__output").inner_text()
    assert page.locator(".tm-cell-note").is_visible()


def test_cell_stands_as_built_from_a_folder(folder, page):
    """From a folder no editor is tried: the output and the reason stay."""
    page.goto(f"{folder}{PATH}")

    assert "GiB" in page.locator(".tm-cell__output").inner_text()
    assert page.locator(".tm-cell-note").is_visible()
    assert 0 == page.locator("script[type^='py-editor']").count()


def test_other_pages_load_no_editor(http, page):
    """Only a page with a cell asks for the editor's files."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{http}workbench/index.html")
    page.evaluate("tmKernel.start()")

    assert [] == [url for url in asked if "/py/editor/" in url]
