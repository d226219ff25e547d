"""Pages, languages, history, and what must work without script, storage or a network."""

import pytest

PAGES = ["index.html", "workbench/index.html", "guides/adam-triples-the-weights.html"]
QUERY = "?v=1&model=llama-2-7b"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("language", ["", "ur/", "bn/"])
def test_pages_ask_nothing_of_others(base, page, language, path):
    """No page sends a request elsewhere or reports an error, in any language."""
    page.goto(f"{base}{language}{path}")
    page.evaluate("tmKernel.start()")
    page.wait_for_load_state("networkidle")

    assert page.locator("html").get_attribute("lang") == (language.rstrip("/") or "en")
    assert page.locator("body").get_attribute("dir") == ("rtl" if language == "ur/" else "ltr")


@pytest.mark.parametrize("path", PAGES)
def test_numbers_stand_without_javascript(base, new_page, path):
    """With JavaScript off, each page with a calculator shows figures from the build."""
    page = new_page(java_script_enabled=False)
    page.goto(f"{base}{path}")

    assert "GiB" in page.locator(".tm-embed").first.inner_text()


@pytest.mark.parametrize("link", ["ur", "bn"])
def test_language_links_keep_page_and_query(base, page, link):
    """Changing the language keeps the page and its query, with the document's own direction."""
    page.goto(f"{base}{PAGES[2]}{QUERY}")
    page.locator(f"a.md-select__link[hreflang={link}]").dispatch_event("click")
    page.wait_for_selector(f"html[lang={link}]")

    assert f"/{link}/{PAGES[2]}?" in page.url
    assert "llama-2-7b" in page.url
    page.locator("a.md-select__link[hreflang=en]").dispatch_event("click")
    page.wait_for_selector("html[lang=en]")
    assert page.url.startswith(f"{base}{PAGES[2]}?")


def test_untranslated_page_says_so_in_the_readers_language(base, page):
    """A page without translation is the English one with a notice, which leads to the original."""
    page.goto(f"{base}ur/playground.html")

    notice = page.locator(".tm-notice")
    assert "انگریزی" in notice.inner_text()
    assert "en" == page.locator(".tm-notice + div").get_attribute("lang")
    notice.locator("a").click()
    page.wait_for_selector("html[lang=en]")
    assert page.url == f"{base}playground.html"


def test_directory_address_works(http, page):
    """The published address ends in the folder, /workbench/, without a file name."""
    page.goto(f"{http}workbench/{QUERY}")

    assert page.locator(".tm-embed").first.is_visible()
    page.locator("a.md-select__link[hreflang=ur]").dispatch_event("click")
    page.wait_for_selector("html[lang=ur]")
    assert page.url.startswith(f"{http}ur/workbench/?")


def test_blocked_storage_and_cookies_change_nothing(http, new_page):
    """Where storage throws when asked for, the theme and the calculators work all the same."""
    page = new_page()
    page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"])
             Object.defineProperty(window, name, {
               configurable: true,
               get() { throw new DOMException("blocked", "SecurityError"); },
             });
           Object.defineProperty(document, "cookie", {
             get() { throw new DOMException("blocked", "SecurityError"); } });"""
    )
    page.goto(f"{http}{PAGES[2]}")
    page.evaluate("tmKernel.start()")

    page.evaluate("window.mark = 1")
    with page.expect_response("**/index.html"):
        page.locator("a[href$='workbench/index.html']").first.dispatch_event("click")
    page.wait_for_url("**/workbench/index.html")
    assert 1 == page.evaluate("window.mark")


def test_search_finds_a_page(base, page):
    """Search works on a server and from a folder."""
    page.goto(f"{base}index.html")
    page.locator("input.md-search__input").first.click()
    page.keyboard.type("playground")
    page.wait_for_selector(".md-search-result__item a[href*='playground.html']")


@pytest.mark.parametrize("path", ["index.html", "workbench/index.html", "how-sure.html"])
@pytest.mark.parametrize("language", ["", "ur/", "bn/"])
def test_every_page_leads_to_the_others(base, new_page, language, path):
    """On a wide screen each page shows links to the workbench, the guides, the playground, the rest."""
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{base}{language}{path}")

    for target in ("workbench/", "guides/", "how-sure.html", "playground.html"):
        assert page.locator(f"a[href*='{target}']:visible").count(), target
    page.locator(".md-tabs a[href*='guides/']").click()
    page.wait_for_url("**/guides/*")
    page.locator(".md-sidebar--primary a[href*='adam']").wait_for()


def test_english_titles_are_not_reversed_among_urdu_ones(base, new_page):
    """A question mark of an English title stands at its end, on the right, in the Urdu navigation."""
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{base}ur/guides/where-does-the-memory-go.html")
    titles = page.locator(".md-sidebar--primary .md-ellipsis:visible")
    title = titles.filter(has_text="Where does the memory go?").last

    first, mark = title.evaluate(
        """(element) => {
          const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
          while (text.nextNode() && !text.currentNode.data.includes("?"));
          const at = (offset) => {
            const range = document.createRange();
            range.setStart(text.currentNode, offset);
            range.setEnd(text.currentNode, offset + 1);
            return range.getBoundingClientRect().x;
          };
          const data = text.currentNode.data;
          return [at(data.indexOf("W")), at(data.indexOf("?"))];
        }"""
    )
    assert first < mark


def test_the_word_searched_for_is_no_setting(http, page):
    """Enter in the search opens the page with the word marked; the calculator has nothing to say on it."""
    page.goto(f"{http}index.html")
    page.locator("input.md-search__input").first.click()
    page.keyboard.type("triples the weights")
    page.locator(".md-search-result__item a[href*='adam-triples']").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/guides/adam-triples-the-weights.html?h=*")
    page.locator("mark").first.wait_for(state="attached")
    page.locator("tm-calc select").first.select_option(index=1)
    page.wait_for_url("**?v=1&*")

    assert 0 == page.locator(".tm-problems li").count()

    assert page.locator("mark").count()
    assert 0 == page.locator(".tm-problems li").count()
