"""The page's Python: one interpreter a document, the same over http and from a folder."""

import json

import pytest

REQUEST = {
    "page": "calc",
    "query": "model=llama-2-7b",
    "default": "",
    "language": "en",
    "fields": [],
    "base": "../",
    "edited": "",
}
RESPOND = "text => tmKernel.call('respond', text)"
GUIDE = "guides/adam-triples-the-weights.html"


def respond(page, **changes):
    return json.loads(page.evaluate(RESPOND, json.dumps({**REQUEST, **changes})))


def test_browser_and_cpython_reply_alike(base, page):
    """The browser's Python gives the reply of CPython, character for character."""
    from trainmem import view

    page.goto(f"{base}{GUIDE}")

    for query in ("", "model=llama-2-13b&gpus=8&zero=3", "model=nope&gpus=-3"):
        expected = json.loads(view.respond(json.dumps({**REQUEST, "query": query})))
        assert expected == respond(page, query=query)


def test_instant_navigation_keeps_the_interpreter(http, page, python_workers):
    """Going to another page and back over http starts no second interpreter."""
    page.goto(f"{http}{GUIDE}")
    respond(page)
    page.evaluate("window.first = tmKernel.start()")
    with page.expect_response("**/workbench/index.html"):
        page.locator("a[href$='workbench/index.html']").first.dispatch_event("click")
    page.wait_for_selector(".tm-workbench")

    assert page.evaluate("window.first === tmKernel.start()")
    assert 1 == len(python_workers(page))
    page.go_back()
    page.wait_for_url(f"**/{GUIDE}*")
    assert page.evaluate("window.first === tmKernel.start()")


def test_worker_script_is_classic_and_alone(base, page, python_workers):
    """One worker runs, and no module or further script is asked for by it."""
    page.goto(f"{base}{GUIDE}")
    respond(page)

    assert 1 == len(python_workers(page))
    assert "undefined" == python_workers(page)[0].evaluate("typeof importScripts")


@pytest.mark.parametrize("name", ["worker.js", "pyodide.asm.wasm", "stdlib.zip", "trainmem.zip"])
def test_failed_download_is_a_sentence_and_can_be_retried(http, page, name):
    """A file that cannot be had rejects the call with its name; the next call starts afresh."""
    page.route(f"**/py/{name}", lambda route: route.fulfill(status=503))
    page.goto(f"{http}{GUIDE}")
    failed = page.evaluate(
        f"({RESPOND})('{{}}').catch(e => [e.name, e.code, e.message])",
    )
    page.unroute(f"**/py/{name}")
    page.watch.seen.clear()

    assert ["KernelError", "download"] == failed[:2]
    assert name in failed[2]
    assert respond(page)["query"].startswith("v=1")


def test_any_host_will_do(http, page):
    """A host that does not know WebAssembly's type serves the page as well as any other."""
    page.route(
        "**/py/*.{wasm,zip}",
        lambda route: route.fulfill(
            response=(reply := route.fetch()),
            headers={**reply.headers, "content-type": "application/octet-stream"},
        ),
    )
    page.goto(f"{http}{GUIDE}")
    assert respond(page)["query"].startswith("v=1")


BROKEN = {
    "portal": lambda body: b"<!doctype html><title>Log in</title>",
    "cut": lambda body: body[: len(body) // 2],
    "nothing": lambda body: b"",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("name", ["pyodide.asm.wasm", "stdlib.zip", "trainmem.zip"])
def test_wrong_file_is_a_sentence_and_can_be_retried(http, page, name, kind):
    """A login page, half a file or nothing in a file's place is said, not waited for; the next call works."""
    page.route(
        f"**/py/{name}",
        lambda route: route.fulfill(
            body=BROKEN[kind](route.fetch().body()), content_type="text/html"
        ),
    )
    page.goto(f"{http}{GUIDE}")
    failed = page.evaluate(f"({RESPOND})('{{}}').catch(e => [e.name, e.code, e.message])")
    page.unroute(f"**/py/{name}")
    page.watch.seen.clear()

    assert ["KernelError", "download"] == failed[:2]
    assert name in failed[2]
    assert respond(page)["query"].startswith("v=1")


def test_download_without_end_is_given_up(http, page):
    """A file that never comes is given up after a while without a sign of life, and can be asked for again."""
    held = []
    page.route("**/py/stdlib.zip", lambda route: held.extend([route]))
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => { tmKernel.patience.start = 3 })"
    )
    page.goto(f"{http}{GUIDE}")
    failed = page.evaluate(f"({RESPOND})('{{}}').catch(e => [e.name, e.code, e.message])")
    assert ["KernelError", "download"] == failed[:2]
    page.evaluate("tmKernel.patience.start = 60")
    for route in held:
        route.abort()
    page.unroute("**/py/stdlib.zip")
    assert respond(page)["query"].startswith("v=1")
    page.watch.seen.clear()


def test_worker_that_is_gone_is_replaced(http, page):
    """A worker that a browser has ended without a word is given up, and the next call starts another."""
    page.goto(f"{http}{GUIDE}")
    respond(page)
    page.evaluate("tmKernel.start().then((worker) => worker.terminate())")
    page.evaluate("tmKernel.patience.call = 1")
    failed = page.evaluate(f"({RESPOND})('{{}}').catch(e => [e.name, e.code])")
    assert ["KernelError", "crash"] == failed
    page.evaluate("tmKernel.patience.call = 30")
    assert respond(page)["query"].startswith("v=1")


def test_failed_pack_can_be_retried(folder, page):
    """From a folder too a missing file is a sentence, and the next call starts afresh."""
    page.route("**/py/pack/stdlib.zip.js", lambda route: route.abort())
    page.goto(f"{folder}{GUIDE}")
    failed = page.evaluate(f"({RESPOND})('{{}}').catch(e => [e.code, e.message])")
    page.unroute("**/py/pack/stdlib.zip.js")
    page.watch.seen.clear()

    assert "download" == failed[0]
    assert "stdlib.zip" in failed[1]
    assert respond(page)["query"].startswith("v=1")


def test_python_exception_leaves_the_interpreter_running(http, page):
    """An exception in Python rejects its own call only."""
    page.goto(f"{http}{GUIDE}")
    respond(page)
    page.evaluate("window.first = tmKernel.start()")
    failed = page.evaluate(f"({RESPOND})('no json').catch(e => [e.code, e.message])")

    assert "python" == failed[0]
    assert "JSONDecodeError" in failed[1]
    assert respond(page)["query"].startswith("v=1")
    assert page.evaluate("window.first === tmKernel.start()")


def test_crash_rejects_what_waits_and_the_next_call_works(http, page, python_workers):
    """When the worker dies, the calls that wait are rejected, and the next call starts afresh."""
    page.goto(f"{http}{GUIDE}")
    respond(page)
    python_workers(page)[0].evaluate("() => { self.onmessage = () => { throw new Error('gone') } }")
    failed = page.evaluate(f"({RESPOND})('{{}}').catch(e => [e.code, e.message])")
    page.watch.seen.clear()

    assert "crash" == failed[0]
    assert "gone" in failed[1]
    assert respond(page)["query"].startswith("v=1")


def test_unknown_function_is_refused(http, page):
    """The page can call only the functions that the worker offers."""
    page.goto(f"{http}{GUIDE}")
    failed = page.evaluate("tmKernel.call('constructor').catch(e => e.message)")

    assert "constructor" in failed
