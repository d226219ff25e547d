"""The playground: an editor on a server, the cell's output from the build everywhere."""

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
    page.locator(".py-editor-run-button").click()
    page.wait_for_function(
        "document.querySelector('.py-editor-output').textContent.includes(' 42')"
    )
    page.watch.seen[:] = [line for line in page.watch.seen if NOTICE not in line]

    assert page.locator(".tm-cell-note").is_hidden()
    page.locator(".tm-cell__reset").click()
    assert first == content.inner_text().strip()


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
