r"""Python-Markdown: calculators in fences, live numbers in prose.

Fences, for `pymdownx.superfences` (the body is the calculator's own default query, on one line or
several):

    ```calc fields="optimizer,precision"
    model=llama-2-7b&precision=fp32-true
    ```

`workbench`, `search` and `bar` are written the same way. Live numbers stand between double braces, and a
query used more than once gets a name on a line of its own:

    {{ let seven = model=llama-2-7b&precision=fp32-true }}
    With Adam the weights' {{ parameters ? seven }} become {{ parameters + optimizer ? seven }}.

`sitebuild.numbers` says what may stand between the braces. Whatever is wrong stops the build: of
the exceptions raised in a fence superfences lets only its own pass.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from markdown.util import AtomicString
from pymdownx.superfences import SuperFencesException

from devtools.serve import public_url
from devtools.steps import ROOT
from sitebuild import numbers, prose

if TYPE_CHECKING:
    from markdown import Markdown

PAGES = ("workbench", "calc", "bar", "search")
DEFAULT_BASE = "../"  # where the page's own place is not known: most pages are one folder down
DEFAULT_REPOSITORY = "https://github.com/training-memory/training-memory"
RIGHT_TO_LEFT = ("ur",)
# The theme's search knows an excluded element by its tag alone and takes the first end of such a tag
# for the end of what is excluded: so the tag is one that stands nowhere inside.
UNSEARCHED = "tm-unsearched"
NAMED = re.compile(r"^\{\{ *let +([a-z][a-z0-9-]*) *= *(\S+) *\}\}\s*$")
NUMBER = r"\{\{ *([^{}]+?) *\}\}"


class LiveNumberError(SuperFencesException):  # type: ignore[misc]  # (the package has no types)
    """A live number or a calculator that cannot be made; stops the build."""


class Figures(Extension):
    """Live numbers, and the language in which calculators and numbers are written."""

    def __init__(self, **settings: Any) -> None:
        self.config = {"language": ["en", "language of words and numbers"]}
        super().__init__(**settings)

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  (the base class's name)
        names: dict[str, str] = {}
        language = self.getConfig("language")
        md.registerExtension(self)
        md.preprocessors.register(NamedQueries(md, names), "tm-named-queries", 24)
        number = LiveNumber(NUMBER, md)
        number.names, number.language = names, language
        md.inlinePatterns.register(number, "tm-live-number", 185)  # after code, before escapes
        md.treeprocessors.register(prose.Tables(md, language), "tm-tables", 5)
        setattr(md, "tm_language", language)  # noqa: B010  (a place of our own on the parser)

    def reset(self) -> None:
        """Nothing is kept from page to page."""


class NamedQueries(Preprocessor):
    """Takes the lines that name a query out of the text."""

    def __init__(self, md: Markdown, names: dict[str, str]) -> None:
        super().__init__(md)
        self.names = names

    def run(self, lines: list[str]) -> list[str]:
        self.names.clear()
        self.md.tm_calculators = 0  # type: ignore[attr-defined]  # numbered anew on each page
        return [line for line in lines if not self._take(line)]

    def _take(self, line: str) -> bool:
        found = NAMED.match(line)
        if found:
            name, query = found.groups()
            try:
                self.names[name] = numbers.expand(query, self.names)
            except numbers.NumberError as error:
                raise LiveNumberError(f"{line.strip()}: {error}") from error
        return bool(found)


class LiveNumber(InlineProcessor):
    """Puts a number from the estimator where an expression stands."""

    names: dict[str, str]
    language: str

    def handleMatch(  # type: ignore[override]  # noqa: N802  (the base class's name)
        self, m: re.Match[str], data: str
    ) -> tuple[ElementTree.Element, int, int]:
        del data
        try:
            shown = numbers.evaluate(m.group(1), self.names, written_in(self.md, self.language))
        except (ValueError, AttributeError, KeyError) as error:
            raise LiveNumberError(f"{m.group(0)}: {error}") from error
        return element(shown), m.start(0), m.end(0)


def element(shown: numbers.Shown) -> ElementTree.Element:
    """Return the element of a number: isolated, left to right, its unit apart and small."""
    if shown.text and not any(letter.isdigit() for letter in shown.text):
        word = ElementTree.Element("span", {"class": "tm-w"})
        word.text = AtomicString(shown.text)
        return word
    found = ElementTree.Element("bdi", {"dir": "ltr", "class": "tm-n"})
    if shown.part:
        found.set("data-part", shown.part)
    found.text = AtomicString(shown.text)
    if shown.unit:
        unit = ElementTree.SubElement(found, "span", {"class": "u"})
        unit.text = AtomicString(numbers.THIN_SPACE + shown.unit)
    return found


def validate(
    language: str,
    inputs: dict[str, str],
    options: dict[str, Any],
    attrs: dict[str, str],
    md: Markdown,
) -> bool:
    """Accept `fields`; anything else is a mistake that would otherwise go unseen."""
    del attrs, md
    wrong = set(inputs) - {"fields"}
    if wrong:
        raise LiveNumberError(f"```{language}: there is no option `{min(wrong)}`")
    options["fields"] = inputs.get("fields", "")
    return True


def calculator(
    source: str,
    language: str,
    css_class: str,
    options: dict[str, Any],
    md: Markdown,
    **_more: object,
) -> str:
    """Render a fence: the whole element as the browser would show it, numbers and all."""
    del css_class
    from trainmem import view  # noqa: PLC0415  (only pages with a calculator need it)

    md.tm_calculators = getattr(md, "tm_calculators", 0) + 1  # type: ignore[attr-defined]
    identity = f"calc-{md.tm_calculators}"  # type: ignore[attr-defined]
    named = {"identity": identity, "repository": repository(), "address": address(md)}
    query = "&".join(source.split())
    fields = [name for name in options.get("fields", "").replace(",", " ").split() if name]
    spoken = getattr(md, "tm_language", "en")
    try:
        html = view.page_html(language, query, spoken, fields, base(md), **named)
    except Exception as error:
        raise LiveNumberError(f"```{language} {query}: {error!r}") from error
    direction = "rtl" if spoken in RIGHT_TO_LEFT else "ltr"
    attributes = f'class="tm-embed" lang="{spoken}" dir="{direction}"'
    return f"<div {attributes}><{UNSEARCHED} data-search-exclude>{html}</{UNSEARCHED}></div>"


def repository() -> str:
    """Return the project's address, where wrong numbers are reported."""
    return os.environ.get("REPOSITORY_URL") or DEFAULT_REPOSITORY


def base(md: Markdown) -> str:
    """Return the way from the page to the root of its language, such as `../`."""
    url = place(md)
    if url is None:
        return DEFAULT_BASE
    way = posixpath.relpath(".", posixpath.dirname(url) or ".")
    return "" if way == "." else way + "/"


def address(md: Markdown) -> str:
    """Return where the page is published: the build of each language has the root of its pages."""
    root = os.environ.get(f"SITE_URL_{getattr(md, 'tm_language', 'en').upper()}")
    return (root or public_url()) + (place(md) or "").removesuffix("index.html")


def written_in(md: Markdown, language: str) -> str:
    """Return the language of a page's prose: English stands in for a page that is not translated."""
    if "relpath" not in md.treeprocessors:
        return language
    page: str = md.treeprocessors["relpath"].file.src_uri  # type: ignore[attr-defined]
    return language if (ROOT / "docs" / language / page).exists() else "en"


def place(md: Markdown) -> str | None:
    """Return the page's own way from the root of its language, if it is known."""
    if "relpath" in md.treeprocessors:  # mkdocs says which page this is
        url: str | None = md.treeprocessors["relpath"].file.url  # type: ignore[attr-defined]
    elif "rendering_context" in md.preprocessors:  # so does Zensical
        url = md.preprocessors["rendering_context"].page.url  # type: ignore[attr-defined]
    else:
        return None
    return url


def makeExtension(**settings: Any) -> Figures:  # noqa: N802  (Markdown looks for this name)
    return Figures(**settings)
