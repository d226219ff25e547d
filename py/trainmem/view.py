"""A page and its answers: the complete element that a build puts into a page, and the reply to each change of a setting.

Build, browser and tests call the same two functions, so all of them show the same characters. `respond` takes and gives
JSON text, because text is all that passes between a page and the interpreter beside it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainmem import accounts, form, hunting, panels, scene, text, words
from trainmem.estimate import estimate
from trainmem.link import Problem, link, parse
from trainmem.markup import Markup, element, fragment
from trainmem.plot import Style, definitions
from trainmem.run import KEYS, Run
from trainmem.scene import Scene

PAGES = ("workbench", "calc", "bar", "search")  # "markdown" is asked for by their copy buttons
FIRST = ("heading", "verdict", "quiet", "phases")
"""What answers each keystroke; the other regions follow when the reader pauses."""


class Request(NamedTuple):
    """What a page asks: its own kind and defaults, the query to show, and the key that was just edited."""

    page: str = "workbench"
    query: str = ""
    default: str = ""
    language: str = "en"
    base: str = "../"
    edited: str = ""
    identity: str = "calc"
    repository: str = ""
    address: str = ""
    stage: str = (
        ""  # "first" asks for what answers a keystroke, "rest" for what follows it, "" for all
    )
    notice: Sequence[str] = ()  # sentences about the link that are not settled yet
    pending: Sequence[str] = ()  # keys beside `edited` that were typed and never answered
    sort: str = ""
    halted: bool = False  # a search that the reader has stopped


Region = Callable[[Scene], Markup]
REGIONS: dict[str, dict[str, Region]] = {
    "workbench": {
        "heading": panels.title,
        "verdict": panels.verdict,
        "quiet": panels.quiet,
        "assumptions": scene.assumptions,
        "phases": panels.phases,
        "stages": panels.stages,
        "changes": panels.changes,
        "ledger": accounts.ledger,
        "levels": accounts.levels,
        "share": panels.share,
        "open": panels.open_workbench,
    },
    "calc": {"verdict": panels.verdict, "quiet": panels.quiet, "open": panels.open_workbench},
    "bar": {"verdict": panels.verdict, "quiet": panels.quiet, "caption": panels.caption},
}


# Answers


def respond(request_json: str) -> str:
    """The answer to one request, both as JSON text."""
    asked = json.loads(request_json)
    known = {name: value for name, value in asked.items() if name in Request._fields}
    return json.dumps(answer(Request(**known)), ensure_ascii=False, separators=(",", ":"))


def answer(request: Request) -> dict[str, Any]:
    """What the page has to show now.

    A wrong entry typed into a form leaves everything as it was, and says so (`stale`); in a link the key falls back, and
    so does a key that does not go with what was chosen from a list.
    """
    run, found = _read(request)
    if request.page == "markdown":
        page = f"{request.address}?{link(run)}"
        return {"text": text.markdown(estimate(run), page, request.language)}
    sentences = [[problem.key, sentence_of(problem, request.language)] for problem in found]
    if request.edited and _refused(request, found):
        return {"query": None, "stale": True, "problems": sentences, "say": sentences[0][1], "parts": {
            "stale": _stale(sentences[0][1], request.language),
        }}  # fmt: skip
    shown = _scene(request, run)
    told = [sentence for _, sentence in sentences]
    parts: dict[str, str] = {}
    if request.stage in ("", "first"):
        parts["stale"] = _fell_back(told) if request.edited else ""
        parts["problems"] = panels.problems(shown, request.notice if request.edited else told)
    for name, make in REGIONS.get(request.page, {}).items():
        if not request.stage or (name in FIRST) == (request.stage == "first"):
            parts[name] = make(shown)
    say, more = scene.say(shown), False
    if request.page == "search":
        say, more, regions = hunting.slice_of(
            shown, request.stage, request.sort, halted=request.halted
        )
        parts |= regions
    return {
        "query": link(run),
        "title": scene.heading(shown) if request.page == "workbench" else "",
        "say": " ".join([*told, say] if request.edited else [say]),
        "parts": parts,
        "more": more,
        "problems": sentences,
        "stale": False,
        "form": form.state(run, _default_run(request.default), request.language),
        "hints": form.dimensions(run, shown.report.model) if request.page == "workbench" else {},
    }


def _read(request: Request) -> tuple[Run, list[Problem]]:
    """The run of a request. A link that names its version says everything; one that does not builds on the page's own."""
    whole = request.query.startswith("v=") or "&v=" in request.query or not request.default
    return parse(request.query, default="" if whole else request.default)


def _refused(request: Request, found: list[Problem]) -> bool:
    """Whether an entry must be corrected first: what was typed is wrong, or what was chosen is itself impossible."""
    key = KEYS.get(request.edited)
    if key is None or not key.kind.endswith(("choice", "preset", "flag")):
        return bool(found)
    typed = {request.edited, *request.pending}
    return any(problem.key in typed for problem in found)


def sentence_of(problem: Problem, language: str) -> str:
    """A problem in the words of the page: a setting by the name that its field has, and by its key."""
    if problem.key not in KEYS:
        return problem.sentence(language)
    label = words.text(f"label.{problem.key}", language)
    return problem._replace(key=f"{label} ({problem.key})").sentence(language)


_defaults: dict[str, Run] = {}


def _default_run(default: str) -> Run:
    """The run that a page shows before anything is changed."""
    if default not in _defaults:
        _defaults[default] = parse(default)[0]
    return _defaults[default]


def _scene(request: Request, run: Run) -> Scene:
    style = Style(request.language, run.units, request.identity)
    return Scene(estimate(run), style, request.base, request.repository, request.address)


def _stale(sentence: str, language: str) -> Markup:
    last_good = element("b", words.text("error.last_good", language))
    return Markup(element("p", last_good, " ", sentence, class_="tm-stale"))


def _fell_back(sentences: Sequence[str]) -> Markup:
    """What a choice has changed besides itself."""
    lines = [element("p", sentence, class_="tm-stale") for sentence in sentences]
    return fragment(*lines)


# The element of a page


def page_html(
    page: str,
    query: str,
    language: str = "en",
    fields: Sequence[str] = (),
    base: str = "../",
    *,
    identity: str = "calc",
    repository: str = "",
    address: str = "",
) -> str:
    """The complete element of a page, as it stands before any script runs; `query` is the page's own default.

    `address` is where the page is published: what is shared from a folder names that.
    """
    run = _checked(page, query, fields)
    asked: dict[str, Any] = {
        "language": language,
        "base": base,
        "identity": identity,
        "repository": repository,
        "address": address,
    }
    request = Request(page, default=query, **asked)
    if page == "search":
        hunting.hunt_of(identity, run).finish()
    parts = answer(request)["parts"]
    shown = _scene(request, run)
    if page == "workbench":
        inside = _workbench(shown, parts)
    elif page == "calc":
        inside = _calculator(shown, parts, fields)
    elif page == "search":
        inside = hunting.page(shown, parts, _form(shown), fields or hunting.SETTINGS)
    else:
        names = ("problems", "verdict", "quiet", "caption")
        inside = fragment([_region(parts, name) for name in names])
    return element(
        "tm-calc",
        definitions(identity),
        inside,
        element("p", class_="tm-vh tm-say", role="status"),
        class_=f"tm tm-{page}",
        id=identity,
        data_page=page,
        data_default=query,
        data_query=link(run),
        **{f"data_{name}": value for name, value in (asked | _spoken(language)).items()},
    )


def _checked(page: str, query: str, fields: Sequence[str]) -> Run:
    """The run of a page's own query; a mistake in a page must stop the build."""
    run, found = parse(query)
    wrong = [str(problem) for problem in found]
    wrong += [f"{name} is not a setting" for name in fields if name not in KEYS]
    if page not in PAGES:
        wrong.append(f"{page} is not a kind of page")
    if wrong:
        raise ValueError(" ".join(wrong))
    return run


def _spoken(language: str) -> dict[str, str]:
    """The few words that a page needs when the interpreter cannot be asked."""
    names = {
        "copied": "button.copied",
        "clipboard": "error.clipboard",
        "retry": "button.retry",
        "failed": "status.failed",
        "stopped": "status.stopped",
    }
    return {name: words.text(key, language) for name, key in names.items()}


def _region(
    parts: dict[str, str], name: str, tag: str = "div", class_: str | None = None
) -> Markup:
    return element(tag, Markup(parts.get(name, "")), data_region=name, class_=class_)


def _without_script(shown: Scene) -> Markup:
    return element("noscript", element("p", shown.word("error.no_script"), class_="tm-muted"))


def _form(shown: Scene) -> form.Form:
    run = shown.report.run
    return form.Form(run, run, shown.style.language, shown.style.identity)


def _workbench(shown: Scene, parts: dict[str, str]) -> Markup:
    filled = _form(shown)
    hints = form.dimensions(shown.report.run, shown.report.model)
    settings = element(
        "form", *form.groups(filled, hints), class_="tm-form", aria_label=shown.word("page.settings"),
        autocomplete="off",
    )  # fmt: skip
    results = [
        _region(parts, name)
        for name in ("phases", "stages", "changes", "ledger", "levels", "share")
    ]
    return fragment(
        _region(parts, "heading"),
        _region(parts, "problems"),
        _without_script(shown),
        _region(parts, "verdict", class_="tm-verdict"),
        _region(parts, "stale"),
        _region(parts, "quiet", class_="tm-verdict__more"),
        _region(parts, "assumptions"),
        _region(parts, "open", class_="tm-only-embedded"),
        element("div", settings, element("div", *results, class_="tm-results"), class_="tm-bench"),
    )


def _calculator(shown: Scene, parts: dict[str, str], fields: Sequence[str]) -> Markup:
    filled = _form(shown)
    controls = [form.field(filled, KEYS[name], {}) for name in fields]
    settings = element(
        "form",
        *controls,
        class_="tm-form",
        aria_label=shown.word("page.settings"),
        autocomplete="off",
    )
    return fragment(
        settings,
        _without_script(shown),
        _region(parts, "problems"),
        _region(parts, "stale"),
        _region(parts, "verdict"),
        _region(parts, "quiet", class_="tm-verdict__more"),
        _region(parts, "open"),
    )
