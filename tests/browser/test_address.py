"""The address and what is typed: while a link is read, when the reader leaves, inside another page."""

import pytest

from trainmem import text
from trainmem.estimate import estimate
from trainmem.link import parse

WORKBENCH = "workbench/index.html"
GUIDE = "guides/adam-triples-the-weights.html"


def verdict(query):
    return text.Speaker(estimate(parse(query)[0])).verdict()


def say(page, sentence, number=0):
    page.wait_for_function(
        "([text, at]) => document.querySelectorAll('.tm-say')[at].textContent === text",
        arg=[sentence, number],
    )


def title_of(page, sentence, number=0):
    """Wait until a bar says a sentence."""
    page.wait_for_function(
        "([text, at]) => document.querySelectorAll('.tm-bar title')[at].textContent === text",
        arg=[sentence, number],
    )


@pytest.fixture
def slow(page):
    """A page whose Python comes only when it is let go."""
    held = []
    page.route("**/py/trainmem.zip", lambda route: held.extend([route]))

    def release():
        page.wait_for_function("1")
        while not held:
            page.wait_for_timeout(50)
        held.pop().continue_()
        page.unroute("**/py/trainmem.zip")

    page.release = release
    return page


def test_typing_while_a_link_is_read_is_kept(http, slow):
    """What is typed over a box before the link's answer is what the box shows, and what is computed."""
    slow.goto(f"{http}{WORKBENCH}?model=gpt2&seq=256")
    box = slow.locator("[name=seq]")
    box.click()
    box.press("Control+A")
    slow.keyboard.type("10")
    slow.release()
    slow.keyboard.type("2", delay=50)
    say(slow, verdict("model=gpt2&seq=102"))
    slow.keyboard.type("4", delay=50)
    say(slow, verdict("model=gpt2&seq=1024"))
    assert box.input_value() == "1024"
    assert slow.url.endswith("?v=1&model=gpt2&seq=1024")


def test_selected_box_stays_selected_when_the_link_is_read(http, slow):
    """A box that was selected whole before the link's answer is typed over after it."""
    slow.goto(f"{http}{WORKBENCH}?model=gpt2&seq=256")
    box = slow.locator("[name=seq]")
    box.click()
    box.press("Control+A")
    slow.release()
    say(slow, verdict("model=gpt2&seq=256"))
    assert box.input_value() == "256"
    slow.keyboard.type("512")
    say(slow, verdict("model=gpt2&seq=512"))
    assert box.input_value() == "512"


def test_no_numbers_of_another_run_while_a_link_is_read(http, slow):
    """Until a link is answered neither heading nor verdict nor rows are shown, only that it is calculated."""
    slow.goto(f"{http}{WORKBENCH}?model=gpt2&seq=256")
    for place in ("h1", ".tm-verdict output", ".tm-verdict svg.tm-bar", ".tm-ledger", ".tm-chip"):
        assert slow.locator(f"tm-calc {place}").first.is_hidden(), place
    assert slow.locator(".tm-calculating").is_visible()
    slow.release()
    say(slow, verdict("model=gpt2&seq=256"))
    assert slow.locator("tm-calc h1").is_visible()
    assert slow.locator(".tm-ledger").first.is_visible()
    assert slow.locator(".tm-calculating").is_hidden()


def test_failure_to_read_a_link_shows_the_default_and_says_so(http, page):
    """Where Python cannot start, the numbers of the build come back with a sentence that says whose they are."""
    page.route("**/py/stdlib.zip", lambda route: route.fulfill(body="<html>Log in</html>"))
    page.goto(f"{http}{WORKBENCH}?model=gpt2&seq=256")
    page.wait_for_selector(".tm-failed button")
    assert "default" in page.locator(".tm-failed").inner_text()
    assert page.locator("tm-calc h1").is_visible()
    page.unroute("**/py/stdlib.zip")
    page.locator(".tm-failed button").click()
    say(page, verdict("model=gpt2&seq=256"))
    page.watch.seen.clear()


def test_chip_beside_something_just_typed_loses_neither(http, page):
    """A change that is clicked right after typing is made to what was typed."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=8192")
    say(page, verdict("seq=8192"))
    target = page.locator(".tm-chip").first.get_attribute("data-query")
    assert "micro_batch" not in target
    page.evaluate(
        """() => { const box = document.querySelector("[name=micro_batch]"); box.value = "2";
        box.dispatchEvent(new Event("input", { bubbles: true }));
        document.querySelector(".tm-chip").click(); }"""
    )
    say(page, verdict(f"{target}&micro_batch=2"))
    assert page.locator("[name=micro_batch]").input_value() == "2"


@pytest.mark.parametrize("path", [WORKBENCH, GUIDE])
def test_fragments_keep_the_run(http, page, path):
    """A heading's own link leaves address, figures and boxes as they are, and scrolls to its heading."""
    page.goto(f"{http}{path}")
    page.evaluate("window.mark = document.querySelector('tm-calc')")
    own = page.locator("tm-calc").first.get_attribute("data-query")
    page.locator("[name=optimizer]").first.select_option("sgd")
    wanted = page.evaluate(
        "q => { const p = new URLSearchParams(q); p.set('optimizer', 'sgd'); return p.toString() }",
        own,
    )
    say(page, verdict(wanted))
    anchor = page.evaluate(
        """() => { const heading = [...document.querySelectorAll("article [id]")].at(-1);
        const link = document.createElement("a"); link.id = "jump"; link.textContent = "x";
        link.href = location.pathname + "#" + heading.id; document.querySelector("article").prepend(link);
        return heading.id }"""
    )
    page.locator("#jump").click()
    page.wait_for_url(f"**#{anchor}")
    page.wait_for_timeout(300)
    assert "optimizer=sgd" in page.url
    assert page.evaluate("window.mark === document.querySelector('tm-calc')")
    assert page.locator("[name=optimizer]").first.input_value() == "sgd"
    page.go_back()
    page.wait_for_function("location.hash === ''")
    assert page.evaluate("window.mark === document.querySelector('tm-calc')")
    assert page.locator("[name=optimizer]").first.input_value() == "sgd"


@pytest.mark.parametrize(
    "extra", ["h=memory", "utm_source=letter&utm_medium=mail", "fbclid=1", "gclid=2", "msclkid=3"]
)
def test_what_others_append_is_no_setting(http, page, extra):
    """The site's search and other sites append keys of their own: the run stands, and nothing is said."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=8192&{extra}")
    say(page, verdict("seq=8192"))
    assert page.locator(".tm-problems").count() == 0
    page.goto(f"{http}{WORKBENCH}?{extra}")
    page.evaluate("tmKernel.start()")
    assert page.locator("tm-calc h1").is_visible()
    assert page.locator(".tm-problems").count() == 0


@pytest.mark.parametrize("fragment", ["#__search", ""])
def test_search_within_a_page_keeps_the_run(http, page, fragment):
    """A result of the search that leads into this page does not take its run away, and closes the search."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=8192")
    say(page, verdict("seq=8192"))
    page.locator("input.md-search__input").click()
    page.keyboard.type("workbench")
    result = page.locator(f".md-search-result__item a[href*='{WORKBENCH}']").first
    result.wait_for()
    result.evaluate("(link, end) => { link.href = link.href.replace(/#.*|$/, end) }", fragment)
    result.click()
    page.wait_for_timeout(300)
    assert "seq=8192" in page.url
    assert page.locator("[name=seq]").input_value() == "8,192"
    assert not page.locator("#__search").is_checked()


@pytest.mark.parametrize("flag", ["1", "true", "on", "", "TRUE"])
def test_embed_is_read_as_python_reads_it(http, page, flag):
    """Every way to write a flag puts the page inside another one; the way to the workbench leaves it."""
    page.goto(f"{http}{WORKBENCH}?v=1&gpus=8&embed={flag}")
    say(page, verdict("gpus=8"))
    assert page.locator(".md-header").is_hidden()
    link = page.locator(".tm-only-embedded .tm-open a, .tm-only-embedded a").first
    assert link.get_attribute("href").endswith("?v=1&gpus=8")
    assert link.get_attribute("target") == "_blank"
    assert link.get_attribute("rel") == "noopener"


def test_embed_off_is_off(http, page):
    """With embed=false the page is itself."""
    page.goto(f"{http}{WORKBENCH}?v=1&gpus=8&embed=false")
    say(page, verdict("gpus=8"))
    assert page.locator(".md-header").is_visible()


def test_edit_just_before_leaving_is_in_the_address(base, page):
    """What is typed a moment before a change of language or page is still there afterwards."""
    page.goto(f"{base}{WORKBENCH}")
    page.evaluate("tmKernel.start()")
    page.evaluate(
        """() => { const box = document.querySelector("[name=seq]"); box.value = "8192";
        box.dispatchEvent(new Event("input", { bubbles: true }));
        document.querySelector("a.md-select__link[hreflang=ur]").click(); }"""
    )
    page.wait_for_selector("html[lang=ur]")
    assert "seq=8192" in page.url
    page.wait_for_function("document.querySelector('[name=seq]').value === '8,192'")


def test_edit_just_before_navigation_is_there_on_return(http, page):
    """What is typed a moment before a link is followed is there when the reader comes back."""
    page.goto(f"{http}{WORKBENCH}")
    page.evaluate("tmKernel.start()")
    page.evaluate(
        f"""() => {{ const box = document.querySelector("[name=seq]"); box.value = "8192";
        box.dispatchEvent(new Event("input", {{ bubbles: true }}));
        document.querySelector("a[href$='{GUIDE}']").click(); }}"""
    )
    page.wait_for_selector(".tm-calc")
    page.go_back()
    page.wait_for_selector(".tm-workbench")
    say(page, verdict("seq=8192"))
    assert page.locator("[name=seq]").input_value() == "8,192"


def test_language_links_lead_to_the_same_page_without_javascript(base, new_page):
    """Without JavaScript too, another language is another language of this page."""
    page = new_page(java_script_enabled=False)
    page.goto(f"{base}{GUIDE}")
    for language in ("ur", "bn"):
        link = page.locator(f"a.md-select__link[hreflang={language}]")
        assert link.evaluate("link => link.href") == f"{base}{language}/{GUIDE}"
    page.goto(f"{base}ur/{WORKBENCH}")
    link = page.locator("a.md-select__link[hreflang=en]")
    assert link.evaluate("link => link.href") == f"{base}{WORKBENCH}"


def test_back_restores_every_calculator_of_a_page(http, page):
    """With two calculators Back undoes the last choice, whichever it was in, and keeps the other."""
    page.goto(f"{http}{GUIDE}")
    page.evaluate(
        """() => { const first = document.querySelector("tm-calc");
        const other = first.cloneNode(true); other.id = "calc-9"; first.after(other); }"""
    )
    own = page.locator("tm-calc").first.get_attribute("data-query")
    first, second = (page.locator("tm-calc").nth(n).locator("[name=optimizer]") for n in (0, 1))
    changed = own.replace("v=1", "v=1&optimizer=sgd")
    first.select_option("sgd")
    title_of(page, verdict(changed), 0)
    second.select_option("sgd")
    title_of(page, verdict(changed), 1)
    page.wait_for_url("**#calc-9")
    page.go_back()
    title_of(page, verdict(own), 1)
    assert [first.input_value(), second.input_value()] == ["sgd", "adamw"]
    page.go_forward()
    title_of(page, verdict(changed), 1)
    assert [first.input_value(), second.input_value()] == ["sgd", "sgd"]
    page.go_back()
    page.go_back()
    title_of(page, verdict(own), 0)
    assert [first.input_value(), second.input_value()] == ["adamw", "adamw"]


def test_choices_are_steps_and_typing_is_not(http, page):
    """Back undoes one choice in a list at a time; what was typed between them belongs to the step before."""
    page.goto(f"{http}{WORKBENCH}")
    page.evaluate("tmKernel.start()")
    page.locator("[name=optimizer]").select_option("sgd")
    page.locator("[name=seq]").fill("1024")
    page.locator("[name=precision]").first.select_option("bf16-true")
    say(page, verdict("optimizer=sgd&seq=1024&precision=bf16-true"))
    page.wait_for_url("**precision=bf16-true*")
    page.go_back()
    say(page, verdict("optimizer=sgd&seq=1024"))
    page.go_back()
    say(page, verdict(""))
    assert page.locator("[name=optimizer]").input_value() == "adamw"


def test_focus_stays_when_a_chip_is_pressed(http, page):
    """After Enter on a change the focus is still in the list of changes, or on its heading."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=8192")
    say(page, verdict("seq=8192"))
    while page.locator(".tm-chip").count() > 1:
        chip = page.locator(".tm-chip").first
        target = chip.get_attribute("data-query")
        chip.focus()
        page.keyboard.press("Enter")
        say(page, verdict(target))
        assert page.evaluate("document.activeElement.closest('tm-calc') !== null")
        if len(target) > 90:
            break


def test_notice_of_a_link_goes_with_its_problems(http, page):
    """Each problem of a link is listed until its setting is corrected."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=abc&gpus=-3")
    page.wait_for_selector(".tm-problems")
    assert page.locator(".tm-problems li").count() == 2
    page.locator("[name=seq]").fill("4096")
    say(page, verdict("seq=4096"))
    assert page.locator(".tm-problems li").count() == 1
    assert "gpus" in page.locator(".tm-problems").inner_text()
    page.locator("[name=gpus]").fill("8")
    say(page, verdict("seq=4096&gpus=8"))
    assert page.locator(".tm-problems").count() == 0


def test_chosen_model_is_taken_and_what_does_not_fit_it_falls_back(http, page):
    """GPT-2 has 1,024 positions: choosing it beside 4,096 tokens takes 1,024 and says so."""
    page.goto(f"{http}{WORKBENCH}?v=1&seq=4096")
    say(page, verdict("seq=4096"))
    page.locator("[name=model]").select_option("gpt2")
    title_of(page, verdict("model=gpt2&seq=1024"))
    assert page.locator("[name=seq]").input_value() == "1,024"
    assert "GPT-2" in page.locator("tm-calc h1").inner_text()
    sentence = page.locator("[data-region=stale]").inner_text()
    assert "Sequence length (seq)" in sentence
    assert "1024" in sentence.replace(",", "")
    assert page.locator("tm-calc[data-stale]").count() == 0
    page.locator("[name=seq]").fill("512")
    title_of(page, verdict("model=gpt2&seq=512"))
    assert page.locator("[data-region=stale]").inner_text() == ""


def test_shared_from_a_folder_names_the_published_page(folder, page):
    """What is reported or copied from a folder holds no path of the reader's machine."""
    page.goto(f"{folder}{WORKBENCH}?v=1&gpus=8")
    say(page, verdict("gpus=8"))
    link = page.locator("a", has_text="Report a wrong number").get_attribute("href")
    assert "file%3A" not in link
    assert "workbench%2F%3Fv%3D1%26gpus%3D8" in link


def test_one_is_said_as_one(http, page):
    """One sequence, two sequences: the unit beside a box goes with its number."""
    page.goto(f"{http}{WORKBENCH}")
    unit = page.locator(".tm-field[data-key=micro_batch] .tm-unit")
    assert unit.inner_text() == "sequence"
    page.locator("[name=micro_batch]").fill("2")
    say(page, verdict("micro_batch=2"))
    assert unit.inner_text() == "sequences"
