"""Calculators in guides: several on a page, each with its own default, one address."""

from trainmem import text
from trainmem.estimate import estimate
from trainmem.link import parse

GUIDE = "guides/adam-triples-the-weights.html"
OTHER_GUIDE = "guides/where-does-the-memory-go.html"  # its calculator has a model to choose


def verdict(query):
    return text.Speaker(estimate(parse(query)[0])).verdict()


def default(page):
    return page.locator("tm-calc").first.get_attribute("data-query")


def with_(query, key, value):
    run, _ = parse(query)
    from trainmem.link import link

    return link(run.but(**{key: value}))


def say(page, sentence, number=0):
    page.wait_for_function(
        "([text, at]) => document.querySelectorAll('.tm-say')[at].textContent === text",
        arg=[sentence, number],
    )


def test_default_is_expanded_into_the_link(base, page):
    """Changing one setting in a guide writes the guide's own default into the address with it."""
    page.goto(f"{base}{GUIDE}")
    wanted = with_(default(page), "optimizer", "sgd")
    page.locator("tm-calc").first.locator("[name=optimizer]").select_option("sgd")
    say(page, verdict(wanted))
    assert page.url.endswith(f"?{wanted}")
    assert (
        page.locator("tm-calc").first.locator(".tm-open a").get_attribute("href").endswith(wanted)
    )
    page.reload()
    say(page, verdict(wanted))
    assert page.locator("tm-calc").first.locator("[name=optimizer]").input_value() == "sgd"


def test_back_from_the_first_change_shows_the_guides_default(http, page):
    """An address without a query means the page's own default, not the one of the workbench."""
    page.goto(f"{http}{OTHER_GUIDE}")
    own = default(page)
    page.locator("tm-calc").first.locator("[name=model]").select_option("llama-2-13b")
    say(page, verdict(with_(own, "model", "llama-2-13b")))
    page.go_back()
    page.wait_for_function(
        "text => document.querySelector('.tm-bar title').textContent === text", arg=verdict(own)
    )
    assert page.url.endswith(OTHER_GUIDE)


def test_open_in_the_workbench_keeps_the_state(base, page):
    """The link to the workbench opens the same run there."""
    page.goto(f"{base}{GUIDE}")
    wanted = with_(default(page), "optimizer", "sgd")
    page.locator("tm-calc").first.locator("[name=optimizer]").select_option("sgd")
    say(page, verdict(wanted))
    page.locator("tm-calc").first.locator(".tm-open a").click()
    page.wait_for_selector(".tm-workbench")
    say(page, verdict(wanted))
    assert page.locator("[name=optimizer]").input_value() == "sgd"


def test_second_calculator_is_named_in_the_address(http, page):
    """Where a page has two calculators, the fragment says which of them the query is for."""
    page.goto(f"{http}{GUIDE}")
    page.evaluate(
        """() => { const first = document.querySelector("tm-calc");
        const other = first.cloneNode(true); other.id = "calc-9"; first.after(other); }"""
    )
    second = page.locator("tm-calc").nth(1)
    second.locator("[name=optimizer]").select_option("sgd")
    wanted = with_(default(page), "optimizer", "sgd")
    say(page, verdict(wanted), 1)
    assert page.url.endswith(f"?{wanted}#calc-9")
    assert page.locator("tm-calc").first.locator("[name=optimizer]").input_value() != "sgd"


def test_latest_entry_wins(http, page):
    """However fast the reader types, what is shown in the end is what was typed last."""
    page.goto(f"{http}workbench/index.html")
    page.evaluate(
        """() => { const box = document.querySelector("[name=seq]");
        for (let n = 1; n <= 300; n++) { box.value = String(n * 16);
          box.dispatchEvent(new Event("input", { bubbles: true })); } }"""
    )
    say(page, verdict("seq=4800"))
    assert page.url.endswith("?v=1&seq=4800")


def test_theme_navigation_keeps_working_after_edits(http, page):
    """After an edit the theme's own links, and Back from them, still lead to the right pages."""
    page.goto(f"{http}{GUIDE}")
    wanted = with_(default(page), "optimizer", "sgd")
    page.locator("tm-calc").first.locator("[name=optimizer]").select_option("sgd")
    say(page, verdict(wanted))
    page.locator("a[href$='workbench/index.html']").first.dispatch_event("click")
    page.wait_for_selector(".tm-workbench")
    page.go_back()
    page.wait_for_selector(".tm-calc")
    say(page, verdict(wanted))
    assert page.url.endswith(f"{GUIDE}?{wanted}")
