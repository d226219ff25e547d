"""Measures what the project promises, all in one run, each beside its limit."""

from __future__ import annotations

import compileall
import gzip
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from devtools import machine, serve
from devtools.chromium import chromium
from devtools.steps import CACHE, ROOT, run

if TYPE_CHECKING:
    from collections.abc import Callable

SITE = ROOT / "site"
PYODIDE = ROOT / "node_modules/pyodide"
BENCH = CACHE / "bench"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
LARGE = "model=llama-2-70b&gpus=8&zero=3&checkpointing=full&precision=bf16-mixed"
QUERY = "model=llama-2-13b&gpus=8&zero=3&micro_batch=4"
RUNTIME = ("worker.js", "pyodide.asm.wasm", "stdlib.zip", "trainmem.zip")
STARTS = 5
KEYSTROKES = 80

# The first change inside a calculator, in ms since the navigation began.
FIRST_CHANGE = """
addEventListener("DOMContentLoaded", () => {
  const calculator = document.querySelector("tm-calc");
  if (!calculator) return;
  const watch = new MutationObserver((changes) => {
    const inside = (change) => change.target.parentElement?.closest("[data-region]");
    if (!changes.some((change) => change.type !== "attributes" && inside(change))) return;
    watch.disconnect();
    window.benchFirst = performance.now();
  });
  watch.observe(calculator, { childList: true, characterData: true, subtree: true });
});
window.benchTasks = [];
new PerformanceObserver((list) => {
  for (const frame of list.getEntries())
    for (const script of frame.scripts)
      window.benchTasks.push([script.duration, script.sourceURL || script.invoker]);
}).observe({ type: "long-animation-frame", buffered: true });
"""
KEYS = """
async (count) => {
  const box = document.querySelector("tm-calc [name=seq]");
  const region = document.querySelector('tm-calc [data-region="verdict"]');
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const once = (text) => new Promise((done) => {
    const watch = new MutationObserver(() => {
      watch.disconnect();
      done(performance.now() - start);
    });
    watch.observe(region, { childList: true, characterData: true, attributes: true, subtree: true });
    box.value = text;
    const start = performance.now();
    box.dispatchEvent(new InputEvent("input", { bubbles: true }));
  });
  const found = [];
  box.focus();
  for (let i = 0; i < count + 20; i++) {
    const ms = await once(String(1024 + 64 * i));
    if (i >= 20) found.push(ms); // the first ones warm up
    await pause(150);
  }
  return found;
}
"""
BARE = """<!doctype html><script>
new Worker("bare.js" + location.search).onmessage = () => { window.benchFirst = performance.now(); };
</script>"""


class Line(NamedTuple):
    """One measurement beside its limit."""

    name: str
    value: float
    limit: float
    unit: str

    def __str__(self) -> str:
        state = "ok" if self.value <= self.limit else "OVER"
        share = self.value / self.limit if self.limit else 0.0
        shown = f"{self.value:10.3f} {self.unit:3} of {self.limit:g} {self.unit}"
        return f"{self.name:52}{shown:30} {share:5.2f} × limit  {state}"


def _median(action: Callable[[], object], times: int) -> float:
    """Return the median time of an action in milliseconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(1000 * (time.perf_counter() - start))
    return statistics.median(found)


def estimate() -> Line:
    """One estimate of a 70B model in this Python, formula texts not asked for."""
    import trainmem  # noqa: PLC0415  (the package may be what is broken)

    asked, problems = trainmem.parse(LARGE)
    if problems:
        raise ValueError(problems[0])
    _median(lambda: trainmem.estimate(asked).device, 50)
    found = _median(lambda: trainmem.estimate(asked).device, 300)
    return Line("estimate of a 70B model", found, 1.0, "ms")


def searches() -> list[Line]:
    """An evaluation of a layout search (a layout with a micro-batch) in this Python, and in the site's."""
    from devtools import search_rate  # noqa: PLC0415  (the package may be what is broken)

    here = search_rate.microseconds()
    shipped = ROOT / "tests/runtime/shipped.mjs"
    command = [*map(str, (machine.node()[0], shipped, SITE, search_rate.__file__))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    there = float(done.stdout)
    text = "evaluation of a layout, in"
    return [
        Line(f"{text} CPython ({1e6 / here:,.0f} a second)", here, 50, "µs"),
        Line(f"{text} the site's Python ({1e6 / there:,.0f} a second)", there, 200, "µs"),
    ]


def command_line() -> Line:
    """One call of the command line over `python3 -c pass`, in turns; compiled, as pip leaves a package."""
    compileall.compile_dir(ROOT / "py/trainmem", quiet=1)

    def call(*words: str) -> float:
        command = [sys.executable, *words]
        run_it = lambda: subprocess.run(command, capture_output=True, check=False)  # noqa: E731
        return _median(run_it, 1)

    pairs = [(call("-m", "trainmem", "estimate", QUERY), call("-c", "pass")) for _ in range(21)]
    ours = statistics.median(pair[0] for pair in pairs)
    bare = statistics.median(pair[1] for pair in pairs)
    return Line(
        f"command line over python -c pass ({ours:.0f} ÷ {bare:.0f} ms)", ours / bare, 6, "×"
    )


def _first(browser: Any, address: str) -> tuple[float, list[Any]]:
    """Open an address in a fresh profile; return when its result came, and the long scripts."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(FIRST_CHANGE)
    page.goto(address)
    page.wait_for_function("window.benchFirst")
    found = page.evaluate("window.benchFirst"), page.evaluate("window.benchTasks")
    context.close()
    return found


def starts(browser: Any, site: str, bare: str) -> list[Line]:
    """Cold first live result of a linked workbench over bare starts, in turns."""
    ours: list[float] = []
    same: list[float] = []
    stock: list[float] = []
    tasks: list[Any] = []
    for _ in range(STARTS):
        found, long = _first(browser, f"{site}workbench/?{QUERY}")
        ours.append(found)
        tasks += long
        same.append(_first(browser, f"{bare}bare.html?library=stdlib.zip")[0])
        stock.append(_first(browser, f"{bare}bare.html?library=python_stdlib.zip")[0])
    mine, own, usual = (statistics.median(times) for times in (ours, same, stock))
    text = "first live result, cold, over a bare start"
    return [
        Line(f"{text} ({mine:.0f} ÷ {own:.0f} ms)", mine / own, 1.4, "×"),
        Line(f"  over Pyodide as it comes ({mine:.0f} ÷ {usual:.0f} ms)", mine / usual, 1.4, "×"),
        Line("longest script of ours on the main thread, loading", _longest(tasks), 50, "ms"),
    ]


def _longest(tasks: list[Any]) -> float:
    """Return the longest script of ours; scripts in frames under 50 ms are not reported."""
    return max((duration for duration, source in tasks if "/js/" in source), default=0.0)


def keystrokes(browser: Any, site: str) -> list[Line]:
    """From the input event to new figures in the page, once warm."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(FIRST_CHANGE)
    page.goto(f"{site}workbench/?{QUERY}")
    page.wait_for_function("window.benchFirst")
    page.wait_for_timeout(1000)
    page.evaluate("window.benchTasks.length = 0")
    found = sorted(page.evaluate(KEYS, KEYSTROKES))
    tasks = page.evaluate("window.benchTasks")
    context.close()
    return [
        Line("keystroke to new figures, median", statistics.median(found), 16, "ms"),
        Line("keystroke to new figures, 95th percentile", found[int(0.95 * len(found))], 16, "ms"),
        Line("longest script of ours on the main thread, typing", _longest(tasks), 50, "ms"),
    ]


def sizes(browser: Any, site: str) -> list[Line]:
    """Bytes, gzipped, of the runtime and of all else that the workbench loads."""
    runtime = sum(len(gzip.compress((SITE / "py" / n).read_bytes(), 9)) for n in RUNTIME)
    context = browser.new_context()
    page = context.new_page()
    other: dict[str, int] = {}

    def note(response: Any) -> None:
        if "/py/" not in response.url and response.url.startswith(site):
            other[response.url] = len(gzip.compress(response.body(), 9))

    page.on("response", note)
    page.goto(f"{site}workbench/?{QUERY}", wait_until="networkidle")
    context.close()
    return [
        Line("runtime, gzipped", runtime / 1e6, 5.1, "MB"),
        Line(
            f"the workbench's other {len(other)} files, gzipped",
            sum(other.values()) / 1e6,
            0.5,
            "MB",
        ),
    ]


def _bare_site() -> None:
    shutil.rmtree(BENCH, ignore_errors=True)
    BENCH.mkdir(parents=True)
    bundle = ROOT / "py/sitebuild/node/bundle.mjs"
    run([machine.node()[0], bundle, BENCH / "bare.js", "bare.mjs"])
    for name in ("pyodide.asm.wasm", "stdlib.zip", "python_stdlib.zip"):
        shutil.copyfile(SITE / "py" / name, BENCH / name)
    (BENCH / "bare.html").write_text(BARE)


def main() -> int:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only here)

    print(machine.platform(), flush=True)
    print(estimate(), command_line(), *searches(), sep="\n", flush=True)
    _bare_site()
    _first_server, site = serve.start(SITE, serve.LOCAL_URL, serve.public_url())
    _second_server, bare = serve.start(BENCH, "http://127.0.0.1:8100/")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        print(browser.version, flush=True)
        print(*starts(browser, site, bare), sep="\n", flush=True)
        print(*keystrokes(browser, site), sep="\n", flush=True)
        print(*sizes(browser, site), sep="\n", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
