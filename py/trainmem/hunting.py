"""The panels of a layout search: progress, the table of layouts, the smallest number of GPUs, and memory against GPUs."""

from collections.abc import Sequence
from typing import NamedTuple

from trainmem import form, units
from trainmem.curve import curve
from trainmem.found import Found, fewest, gpu_count, said
from trainmem.hunt import Hunt
from trainmem.layouts import name_of
from trainmem.link import link
from trainmem.markup import MINUS, Markup, element, fragment, number
from trainmem.panels import ICONS
from trainmem.run import KEYS, Run
from trainmem.scene import Scene
from trainmem.search import Candidate, rank

SETTINGS = (
    "model", "framework", "precision", "optimizer", "seq", "micro_batch", "checkpointing", "loss", "gpus", "gpu",
    "headroom", "units",
)  # fmt: skip
"""What the page of a search asks for; any other setting that its link names holds as well."""
SLICE = 0.025  # seconds of work in one answer; with the drawing it stays below 50 ms
MOST_ROWS = 40
NO_BREAK = "\u00a0"
COLUMNS = ("layout", "need", "free", "largest", "need_largest", "sequences")
FALLING = frozenset({"free", "largest", "sequences"})
"""Columns whose largest values come first when they are chosen."""


class Order(NamedTuple):
    """By which column the table is sorted, and whether the largest come first."""

    column: str = "need"
    falling: bool = False


def order_of(text: str) -> Order:
    """What a page asks for: a column, with a minus before it where the largest come first."""
    column = text.removeprefix("-")
    return Order(column, text.startswith("-")) if column in COLUMNS else Order()


_hunts: dict[str, Hunt] = {}


def hunt_of(identity: str, run: Run) -> Hunt:
    """The search of one calculator; another run begins another one."""
    bare = run.but(units="gib", embed=False)
    if identity not in _hunts or _hunts[identity].run != bare:
        _hunts[identity] = Hunt(bare)
    return _hunts[identity]


def parts(scene: Scene, hunt: Hunt, sort: str, *, stopped: bool = False) -> dict[str, str]:
    """The regions of the page."""
    return {
        "progress": progress(scene, hunt, stopped=stopped),
        "layouts": table(scene, hunt, order_of(sort)),
        "smallest": smallest(scene, hunt),
        "curve": curve(scene, hunt.curve) if hunt.done else Markup(""),
    }


def slice_of(
    scene: Scene, stage: str, sort: str, *, halted: bool
) -> tuple[str, bool, dict[str, str]]:
    """What a page is told of a search: a sentence once it is done, whether there is more, and the regions.

    It goes on for a slice, unless the page asks for another order alone ("sort") or its reader has halted it.
    """
    hunt = hunt_of(scene.style.identity, scene.report.run)
    if stage != "sort" and not halted:
        hunt.advance(SLICE)
    more = not hunt.done and not halted
    return sentence(scene, hunt), more, parts(scene, hunt, sort, stopped=halted)


def sentence(scene: Scene, hunt: Hunt) -> str:
    """What was found, for the live region."""
    found = _found(hunt)
    language = scene.style.language
    return f"{said(found, language)} {fewest(found, language)}" if hunt.done else ""


def _found(hunt: Hunt) -> Found:
    return Found(hunt.run, hunt.run.gpus, None, hunt.found, hunt.smallest)


def progress(scene: Scene, hunt: Hunt, *, stopped: bool) -> Markup:
    """How far the search is, with a button that stops it or goes on; how many evaluations it took once it is done."""
    count = units.integer(hunt.evaluations)
    if hunt.done:
        return element("p", scene.word("search.evaluations", n=count), class_="tm-muted")
    share = round(100 * hunt.progress)
    label = scene.word("search.progress", done=len(hunt.found), n=count)
    word = "button.go_on" if stopped else "button.stop"
    button = element(
        "button", scene.word(word), type="button", class_="tm-button",
        data_hunt="more" if stopped else "stop",
    )  # fmt: skip
    bar = element("progress", max=100, value=share, aria_label=scene.word("search.running"))
    return element("div", bar, element("span", label), button, class_="tm-progress")


# The table


def table(scene: Scene, hunt: Hunt, order: Order) -> Markup:
    """The layouts, sorted; each leads to the workbench with its largest micro-batch."""
    if not hunt.found:
        return Markup("")
    rows = sorted(hunt.found, key=rank)
    if order != Order():
        rows.sort(key=lambda one: _value(one, order.column), reverse=order.falling)
    told = element("p", said(_found(hunt), scene.style.language)) if hunt.done else None
    head = element("tr", [_head(scene, name, order) for name in COLUMNS])
    body = element("tbody", [_row(scene, candidate) for candidate in rows[:MOST_ROWS]])
    name = scene.word("search.table", n=units.integer(hunt.run.micro_batch))
    caption = element("caption", name, class_="tm-vh")
    rest = len(rows) - MOST_ROWS
    more = scene.word("search.more_rows", n=units.integer(rest)) if rest > 0 else None
    return fragment(
        told,
        element("p", name, class_="tm-muted"),
        element(
            "div",
            element("table", caption, element("thead", head), body, class_="tm-ledger tm-flat tm-sorted"),
            class_="tm-scroll", tabindex="0", role="region", aria_label=name,
        ),
        element("p", more, class_="tm-muted") if more else None,
    )  # fmt: skip


def _value(candidate: Candidate, column: str) -> tuple[float, ...]:
    run = candidate.run
    usable = candidate.verdict.usable or 0
    values = {
        "layout": (run.tp * run.pp * run.cp * run.vpp, int(run.zero), run.sharding == "deepspeed"),
        "need": (candidate.verdict.need,),
        "free": (usable - candidate.verdict.need,),
        "largest": (candidate.largest,),
        "need_largest": (candidate.best.need if candidate.largest else 0,),
        "sequences": (candidate.sequences,),
    }
    return values[column]


def _head(scene: Scene, name: str, order: Order) -> Markup:
    """A column's name as a button; the one that sorts says in which direction."""
    chosen = order.column == name
    falling = not order.falling if chosen else name in FALLING
    sorts = {True: "descending", False: "ascending"}[order.falling] if chosen else None
    button = element(
        "button", scene.word(f"search.{name}"), type="button", class_="tm-sort",
        data_sort=("-" if falling else "") + name,
    )  # fmt: skip
    return element(
        "th",
        button,
        scope="col",
        aria_sort=sorts,
        class_=None if name == "layout" else "num" + _wide(name),
    )


def _wide(name: str) -> str:
    """What a narrow page leaves out."""
    return " tm-cell-wide" if name in ("free", "need_largest", "sequences") else ""


def _row(scene: Scene, candidate: Candidate) -> Markup:
    verdict, best = candidate.verdict, candidate.best
    target = f"{scene.base}workbench/index.html?{link(_shown(scene, candidate.best_run))}"
    sign = element(
        "span",
        element("svg", element("path", d=ICONS[verdict.kind]), viewBox="0 0 16 16", aria_hidden="true"),
        element("span", scene.word(f"verdict.{verdict.kind}"), class_="tm-vh"),
        class_="tm-sign", data_verdict=verdict.kind,
    )  # fmt: skip
    name = _name(candidate.run)
    nothing = number("–")
    fits = candidate.largest > 0
    cells = (
        ("need", scene.amount(verdict.need)),
        ("free", _free(scene, candidate) or nothing),
        ("largest", number(units.integer(candidate.largest)) if fits else nothing),
        ("need_largest", scene.amount(best.need) if fits else nothing),
        ("sequences", number(units.integer(candidate.sequences)) if fits else nothing),
    )
    return element(
        "tr",
        element("th", sign, " ", element("a", name, href=target), scope="row"),
        [element("td", cell, class_="num" + _wide(key)) for key, cell in cells],
        data_verdict=verdict.kind,
    )


def _name(run: Run) -> Markup:
    """The name of a layout; a line breaks between its parts only."""
    kept = name_of(run).replace(" ", NO_BREAK).replace(f"·{NO_BREAK}", "· ")
    return element("bdi", kept, dir="ltr")


def _free(scene: Scene, candidate: Candidate) -> Markup | None:
    """What a layout leaves of the card, or by how much it is over."""
    verdict = candidate.verdict
    if verdict.usable is None:
        return None
    figure, unit = units.amount(verdict.over or verdict.free, scene.style.units)
    return number((MINUS if verdict.over else "") + figure, unit)


def _shown(scene: Scene, run: Run) -> Run:
    return run.but(units=scene.report.run.units)


def smallest(scene: Scene, hunt: Hunt) -> Markup:
    """The smallest number of GPUs, with a link to its best layout."""
    if not hunt.done or hunt.card.usable is None:
        return Markup("")
    language = scene.style.language
    if hunt.smallest is None:
        return element("p", fewest(_found(hunt), language))
    run = hunt.smallest.run
    target = f"{scene.base}workbench/index.html?{link(_shown(scene, run))}"
    gpus = gpu_count(run.gpus, language)
    layout = element("a", _name(run), href=target)
    told = scene.sentence("search.smallest", gpus=element("b", gpus), layout=layout)
    return element("p", told, class_="tm-smallest")


def page(scene: Scene, parts: dict[str, str], filled: form.Form, fields: Sequence[str]) -> Markup:
    """The element of the page, settings beside results."""
    controls = [form.field(filled, KEYS[name], {}) for name in fields]
    settings = element(
        "form", controls, class_="tm-form", aria_label=scene.word("page.settings"), autocomplete="off"
    )  # fmt: skip
    results = [_region(parts, name) for name in ("progress", "smallest", "layouts", "curve")]
    return fragment(
        _region(parts, "problems"),
        element("noscript", element("p", scene.word("error.no_script"), class_="tm-muted")),
        _region(parts, "stale"),
        element("div", settings, element("div", results, class_="tm-results"), class_="tm-bench"),
    )


def _region(parts: dict[str, str], name: str) -> Markup:
    return element("div", Markup(parts.get(name, "")), data_region=name)
