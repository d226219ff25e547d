"""The workbench as a reader uses it: typing, sliding, chips, links, history, copies."""

import re
import statistics

import pytest

from trainmem import text, units
from trainmem.estimate import estimate
from trainmem.link import parse

WORKBENCH = "workbench/index.html"
FOUNDING = (
    "model=llama-2-13b&gpus=8&zero=3&micro_batch=4&seq=2048&checkpointing=full&precision=bf16-mixed"
)
SETTLED = """() => { const calc = document.querySelector("tm-calc");
    return calc.matches(":not([aria-busy])") }"""


def open_workbench(page, base, query="", fragment=""):
    page.goto(f"{base}{WORKBENCH}{'?' + query if query else ''}{fragment}")
    page.evaluate("tmKernel.start()")
    return page.locator("tm-calc")


def say(page, sentence):
    """Wait until the live region says a sentence."""
    page.wait_for_function(
        "text => document.querySelector('.tm-say').textContent === text", arg=sentence
    )


def verdict(query):
    return text.Speaker(estimate(parse(query)[0])).verdict()


def reading(page):
    return page.locator(".tm-verdict output").inner_text()


def test_link_shows_the_figures_of_the_command_line(base, page):
    """The founding example, opened by its link, says what the command line says, figure by figure."""
    calc = open_workbench(page, base, FOUNDING)
    say(page, verdict(FOUNDING))

    report = estimate(parse(FOUNDING)[0])
    shown = re.findall(r"<?\d+\.\d\d", calc.locator(".tm-ledger").first.inner_text())
    for row in report.rows:
        assert units.gib(row.bytes, 2) in shown
    assert page.locator("[name=model]").input_value() == "llama-2-13b"
    assert page.locator("[name=micro_batch]").input_value() == "4"


def test_typing_updates_figures_and_address(base, page):
    """Each keystroke gives new figures and a new address; the caret stays, and Back leaves the page."""
    open_workbench(page, base)
    box = page.locator("[name=seq]")
    box.fill("819")
    box.press("End")
    box.press("2")
    say(page, verdict("seq=8192"))

    assert page.url.endswith("?v=1&seq=8192")
    assert box.input_value() == "8192"
    assert page.evaluate("document.activeElement.name") == "seq"
    assert page.evaluate("document.activeElement.selectionStart") == 4
    assert page.locator(".tm-field[data-key=seq]").get_attribute("data-changed") == ""
    box.press("Tab")
    assert box.input_value() == "8,192"


def test_numbers_are_read_as_people_type_them(http, page):
    """8k and Bengali digits give the same run as 8192."""
    open_workbench(page, http)
    for typed in ("8k", "৮১৯২"):
        page.locator("[name=seq]").fill("1024")
        say(page, verdict("seq=1024"))
        page.locator("[name=seq]").fill(typed)
        say(page, verdict("seq=8192"))


def test_wrong_entry_keeps_the_last_result(http, page):
    """A wrong entry leaves figures and address, says why under the field, and goes when corrected."""
    calc = open_workbench(page, http)
    page.locator("[name=seq]").fill("4096")
    say(page, verdict("seq=4096"))
    before, url = reading(page), page.url
    page.locator("[name=seq]").fill("4096x")
    page.wait_for_selector("tm-calc[data-stale]")

    assert (reading(page), page.url) == (before, url)
    assert "seq" in page.locator("#calc-1-seq-e").inner_text()
    assert page.locator("[name=seq]").get_attribute("aria-invalid") == "true"
    # another setting changes nothing while the first one is wrong
    page.locator("[name=gpus]").fill("8")
    page.wait_for_timeout(300)
    assert calc.get_attribute("data-stale") == ""
    page.locator("[name=seq]").fill("2048")
    say(page, verdict("gpus=8"))
    assert calc.get_attribute("data-stale") is None
    assert page.url.endswith("?v=1&gpus=8")
    assert page.locator("#calc-1-seq-e").is_hidden()


def test_bad_link_stands_and_lists_its_problems(base, page):
    """A link with mistakes opens with defaults in their place and one sentence for each."""
    bad = "model=nope&gpus=-3&seq=1e99&zero=9&%00=%00&x=<script>window.hit=1</script>&%E2%80%AE=1"
    open_workbench(page, base, bad)
    page.wait_for_selector(".tm-problems")

    assert page.locator(".tm-problems li").count() == 7
    assert page.evaluate("window.hit") is None
    assert "\u202e" not in page.locator(".tm-problems").inner_text()
    assert page.locator(".tm-verdict output").is_visible()


def test_noise_of_100_kilobytes_is_refused_in_one_sentence(folder, page):
    """A link of 100 kB is read as far as it may be, and says so once."""
    page.goto(f"{folder}{WORKBENCH}?{'z' * 100_000}")
    page.wait_for_selector(".tm-problems")
    assert page.locator(".tm-problems li").count() == 1
    assert page.locator(".tm-verdict output").is_visible()


def test_slider_and_box_are_one(http, page):
    """The slider moves the box, the box moves the slider, and the slider says its value."""
    open_workbench(page, http)
    slider = page.locator(".tm-field[data-key=seq] .tm-slider")
    slider.focus()
    slider.press("ArrowRight")
    say(page, verdict("seq=4096"))
    assert page.locator("[name=seq]").input_value() == "4,096"
    assert slider.get_attribute("aria-valuetext") == "4,096 tokens"
    page.locator("[name=seq]").fill("16384")
    say(page, verdict("seq=16384"))
    assert slider.get_attribute("aria-valuetext") == "16,384 tokens"


def test_chips_and_history(base, page):
    """A chip is one step of the history: Back undoes it, Forward does it again, fields and figures too."""
    open_workbench(page, base, "v=1&seq=8192")
    say(page, verdict("seq=8192"))
    chip = page.locator(".tm-chip").first
    target = chip.get_attribute("data-query")
    chip.click()
    say(page, verdict(target))
    assert page.url.endswith(f"?{target}")
    page.go_back()
    say(page, verdict("seq=8192"))
    assert page.locator("[name=seq]").input_value() == "8,192"
    assert page.url.endswith("?v=1&seq=8192")
    page.go_forward()
    say(page, verdict(target))


def test_preset_and_reset_are_steps_of_the_history(http, page):
    """Choosing a model, and resetting a field, can each be undone with Back."""
    open_workbench(page, http)
    page.locator("[name=model]").select_option("llama-2-7b")
    say(page, verdict("model=llama-2-7b"))
    assert "Llama 2 7B" in page.locator("h1").inner_text()
    page.locator(".tm-field[data-key=model] .tm-reset").click()
    say(page, verdict(""))
    page.go_back()
    say(page, verdict("model=llama-2-7b"))
    page.go_back()
    say(page, verdict(""))
    assert page.locator("[name=model]").input_value() == "llama-3.1-8b"


def test_folded_settings_open_when_a_link_sets_them(http, page):
    """A rare setting that a link changes is in sight."""
    open_workbench(page, http, "v=1&loss=chunked")
    say(page, verdict("loss=chunked"))
    assert page.locator("[name=loss]").first.is_visible()


def test_help_opens_under_the_field(http, page):
    """The question mark shows and hides one line about the setting."""
    open_workbench(page, http)
    field = page.locator(".tm-field[data-key=seq]")
    field.locator(".tm-help").click()
    assert field.locator(".tm-hint").is_visible()
    assert field.locator(".tm-help").get_attribute("aria-expanded") == "true"
    field.locator(".tm-help").click()
    assert field.locator(".tm-hint").is_hidden()


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("link", "workbench/?v=1&gpus=8"),
        ("command", 'trainmem estimate "v=1&gpus=8"'),
        ("markdown", "workbench/?v=1&gpus=8"),
    ],
)
def test_copies(http, new_page, kind, holds):
    """Link, command and Markdown are copied, and the button says so for two seconds."""
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    open_workbench(page, http, "v=1&gpus=8")
    say(page, verdict("gpus=8"))
    button = page.locator(f"[data-copy={kind}]")
    word = button.inner_text()
    button.click()
    page.wait_for_function(
        "kind => document.querySelector(`[data-copy=${kind}]`).textContent === 'Copied'", arg=kind
    )
    assert holds in page.evaluate("navigator.clipboard.readText()")
    page.wait_for_function(
        "([kind, word]) => document.querySelector(`[data-copy=${kind}]`).textContent === word",
        arg=[kind, word],
    )


def test_units_switch(http, page):
    """GB instead of GiB, in every region, with one click, and in the link."""
    open_workbench(page, http)
    page.locator(".tm-field[data-key=units] label", has_text="GB").last.click()
    page.wait_for_url("**?v=1&units=gb")
    page.wait_for_function("!document.querySelector('.tm-results').innerText.includes('GiB')")
    assert "GB" in reading(page)


def test_embed_never_rewrites_its_address(http, page):
    """Inside another page only the reading, the bar and the way here are shown; the address stays."""
    url = f"{http}{WORKBENCH}?v=1&gpus=8&embed=1"
    page.goto(url)
    page.evaluate("tmKernel.start()")
    page.wait_for_function("document.querySelector('.tm-say').textContent !== ''")
    assert page.locator(".md-header").is_hidden()
    assert page.locator("form.tm-form").is_hidden()
    assert page.locator(".tm-only-embedded a").is_visible()
    page.evaluate(
        """() => { const box = document.querySelector("[name=seq]"); box.value = "4096";
        box.dispatchEvent(new Event("input", { bubbles: true })); }"""
    )
    say(page, verdict("v=1&gpus=8&seq=4096"))
    assert page.url == url


def test_failure_keeps_the_figures_and_offers_another_try(http, page):
    """When Python cannot start, the figures stand, one sentence says so, and a button tries again."""
    page.route("**/py/worker.js", lambda route: route.abort())
    page.goto(f"{http}{WORKBENCH}")
    before = reading(page)
    page.locator("[name=seq]").fill("4096")
    page.wait_for_selector(".tm-failed button")
    assert reading(page) == before
    page.unroute("**/py/worker.js")
    page.locator(".tm-failed button").click()
    say(page, verdict("seq=4096"))
    assert page.locator(".tm-failed").count() == 0
    page.watch.seen.clear()


KEYSTROKES = """async () => {
  const box = document.querySelector("[name=seq]"), times = [];
  const reading = document.querySelector("[data-region=verdict]");
  for (let i = 0; i < 40; i++) {
    const seen = new Promise((done) => {
      const observer = new MutationObserver(() => { observer.disconnect(); done(performance.now()); });
      observer.observe(reading, { subtree: true, childList: true, characterData: true, attributes: true });
    });
    const start = performance.now();
    box.value = String(2048 + 512 * (i % 2 ? i : 60 - i));
    box.dispatchEvent(new Event("input", { bubbles: true }));
    times.push((await seen) - start);
    await new Promise((done) => setTimeout(done, 60));
  }
  return times; }"""


def test_keystroke_is_answered_within_a_frame(http, page):
    """Once warm, new figures stand on the page within 16 ms of a keystroke (`dev.py bench` has the 95th percentile)."""
    open_workbench(page, http, FOUNDING)
    say(page, verdict(FOUNDING))
    # the machine of the tests has other work: the quietest of a few rounds counts
    rounds = [statistics.median(page.evaluate(KEYSTROKES)) for _ in range(4)]
    assert min(rounds) <= 16, rounds
