"""What can be checked of the look by machine: accessibility, phone width, print, colours of the system."""

import re

import pytest

PAGES = [
    "index.html",
    "workbench/index.html",
    "layout-search/index.html",
    "guides/adam-triples-the-weights.html",
]
LANGUAGES = ["", "ur/", "bn/"]


@pytest.fixture(scope="session")
def axe(root):
    """The text of axe-core."""
    return (root / "node_modules/axe-core/axe.min.js").read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", PAGES)
def test_article_has_no_barriers(http, new_page, axe, *, path, language, scheme):
    """axe-core finds nothing wrong in an article (WCAG 2.2 A and AA), in any language and scheme."""
    page = new_page(color_scheme=scheme)
    page.goto(f"{http}{language}{path}")
    page.wait_for_selector(
        f"body[data-md-color-scheme={'slate' if scheme == 'dark' else 'default'}]"
    )
    page.evaluate(axe)
    found = page.evaluate(
        """() => axe.run("article", { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })"""
    )
    seen = [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]
    assert seen == []


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
TABLES = ["guides/zero-and-fsdp.html", "guides/parallel-axes.html", "how-sure.html"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", [*PAGES, *TABLES])
def test_article_has_no_barriers_on_a_phone(http, new_page, axe, path, language):
    """With everything unfolded on a phone, axe-core's advice too finds nothing: tables scroll by keyboard."""
    page = new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{http}{language}{path}")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_timeout(200)
    page.evaluate(axe)
    found = page.evaluate("rules => axe.run('article', { runOnly: rules })", RULES)
    seen = [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]
    assert seen == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_wide_table_says_that_it_scrolls(http, new_page, language):
    """On a phone a table that goes on to the side says so and takes the focus; a wide screen has no such stop."""
    page = new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{http}{language}{TABLES[1]}")
    table = page.locator("tm-table").first
    page.wait_for_selector("tm-table[data-wide]")
    assert table.get_attribute("tabindex") == "0"
    assert table.get_attribute("aria-label")
    hint = table.evaluate("table => getComputedStyle(table, '::after').content")
    assert len(hint) > 10
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_function("!document.querySelector('tm-table').hasAttribute('tabindex')")


@pytest.mark.parametrize("width", [320, 360])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", PAGES)
def test_nothing_scrolls_sideways(http, new_page, path, language, width):
    """On a phone no page is wider than the screen."""
    page = new_page(viewport={"width": width, "height": 800})
    page.goto(f"{http}{language}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("language", LANGUAGES)
def test_sticky_verdict_leaves_room(http, new_page, language):
    """On a phone the verdict that stays in sight takes less than a third of the screen."""
    page = new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{http}{language}workbench/index.html")
    assert page.locator(".tm-verdict").bounding_box()["height"] <= 740 / 3


def test_targets_are_large_enough(http, new_page):
    """Everything that is pressed is at least 24 by 24 pixels."""
    page = new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{http}workbench/index.html")
    small = page.evaluate(
        """() => [...document.querySelectorAll("tm-calc :is(button, select, summary, .tm-slider, .tm-seg label, .tm-chip)")]
          .filter((e) => e.checkVisibility({ visibilityProperty: true }))
          .map((e) => [e.outerHTML.slice(0, 80), e.getBoundingClientRect()])
          .filter(([, box]) => box.width < 24 || box.height < 24).map(([html]) => html)"""
    )
    assert small == []


@pytest.mark.parametrize("query", ["", "?model=llama-2-13b&gpus=8&zero=3&checkpointing=full"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_workbench_prints_on_one_page(http, new_page, language, query):
    """The workbench on paper is one A4 page: no controls, the assumptions instead."""
    page = new_page()
    page.goto(f"{http}{language}workbench/index.html{query}")
    page.evaluate("tmKernel.start()")
    if query:
        page.wait_for_function("document.querySelector('.tm-say').textContent !== ''")
    paper = page.pdf(format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "12mm"))
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 1
    page.emulate_media(media="print")
    assert page.locator("form.tm-form").is_hidden()
    assert page.locator(".tm-assumptions").is_visible()


def test_patterns_take_over_without_colours(http, new_page):
    """Where the system's colours rule, patterns tell the parts apart."""
    page = new_page(forced_colors="active")
    page.goto(f"{http}workbench/index.html")
    assert page.locator(".tm-verdict .tm-pat").first.is_visible()
    page.emulate_media(forced_colors="none")
    assert page.locator(".tm-verdict .tm-pat").first.is_hidden()


def test_only_the_fonts_of_a_page_are_fetched(http, new_page):
    """An English page asks for no Urdu and no Bengali font, and every font comes from this site."""
    page = new_page()
    fonts = []
    page.on(
        "request", lambda asked: fonts.append(asked.url) if asked.resource_type == "font" else None
    )
    page.goto(f"{http}workbench/index.html")
    page.wait_for_load_state("networkidle")
    assert fonts
    assert not [font for font in fonts if "/noto-" in font]


def test_urdu_numbers_are_not_reversed(http, new_page):
    """In the Urdu verdict "62.5" stands as it is written: every amount is an island of its own."""
    page = new_page()
    page.goto(f"{http}ur/workbench/index.html")
    for number in page.locator(".tm-verdict .tm-n").all()[:4]:
        assert number.evaluate("e => getComputedStyle(e).direction") == "ltr"
        assert number.evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
    bar = page.locator(".tm-verdict svg.tm-bar")
    first = bar.locator(".tm-s").first.bounding_box()
    whole = bar.bounding_box()
    assert first["x"] + first["width"] == pytest.approx(whole["x"] + whole["width"], abs=2)
