"""The panels of a page: verdict, bar, phases, changes and share row, each a piece of HTML made from a report.

A panel is one region of a page. Sentences come whole from the words tables; numbers are put into them as elements, so
that they keep their direction in every language.
"""

from collections.abc import Sequence
from urllib.parse import urlencode

from trainmem import chart, units, words
from trainmem.changes import Change
from trainmem.ledger import PHASES
from trainmem.link import link
from trainmem.markup import MINUS, Markup, element, fragment, number
from trainmem.plot import scale_of
from trainmem.scene import Scene, heading, load_of, say, summary

MOST_CHANGES = 8
LEAST_SAVING = units.GIB // 20  # less would be shown as "less than 0.1"
ICONS = {
    "fits": "M3 9l3.5 3.5L13 4",
    "tight": "M2 8c2-4 4-4 6 0s4 4 6 0",
    "over": "M4 4l8 8M12 4l-8 8",
    "unknown": "M5 6a3 3 0 1 1 3 3v1.5M8 13v.5",
}


def title(scene: Scene) -> Markup:
    """The run as the heading of its page; a number and its sign stay on one line."""
    return element("h1", heading(scene).replace(" × ", "\u00a0×\u00a0"))


def badge(scene: Scene) -> Markup:
    """The verdict in a word, with a sign and a shape of its own."""
    kind = scene.report.verdict.kind
    sign = element("svg", element("path", d=ICONS[kind]), viewBox="0 0 16 16", aria_hidden="true")
    return element(
        "span",
        sign,
        element("span", scene.word(f"verdict.{kind}")),
        class_="tm-badge",
        data_verdict=kind,
    )


def verdict_line(scene: Scene) -> Markup:
    """Badge, reading, and what is free or too much."""
    verdict = scene.report.verdict
    need = number(*units.amount(verdict.need, scene.style.units), "tm-read")
    if verdict.usable:
        bare = number(units.amount(verdict.need, scene.style.units)[0], "", "tm-read")
        reading = scene.sentence("reading.of", need=bare, usable=scene.amount(verdict.usable))
    else:
        reading = need
    gpus = number(units.integer(scene.report.run.gpus))
    each = element("span", scene.sentence(scene.each("reading.each"), gpus=gpus), class_="tm-wide")
    return element(
        "p",
        badge(scene),
        element("output", reading, " ", each, aria_live="off"),
        _distance(scene),
        element(
            "span", scene.word("status.calculating"), class_="tm-calculating", aria_hidden="true"
        ),
        class_="tm-verdict__line",
    )


def _distance(scene: Scene) -> Markup | None:
    """How far the run is from the limit."""
    verdict = scene.report.verdict
    if verdict.usable is None or verdict.limit is None:
        return None
    if verdict.need > verdict.usable:
        over = scene.sentence("bar.over", over=scene.amount(verdict.need - verdict.usable))
        return element("span", over, class_="tm-over-by", data_verdict=verdict.kind)
    free = scene.amount(verdict.usable - verdict.need)
    kept = number(f"{units.plain(scene.report.run.headroom)} %")
    if verdict.need > verdict.limit:
        text = scene.sentence("reading.inside", free=free, headroom=kept)
    else:
        under = scene.amount(verdict.limit - verdict.need)
        text = scene.sentence("reading.free", free=free, under=under, headroom=kept)
    return element("span", text, class_="tm-muted tm-wide")


def bar(scene: Scene) -> Markup:
    """The bar of the fullest GPU at its peak."""
    return chart.bar(load_of(scene.report), scene.style, say(scene))


def verdict(scene: Scene) -> Markup:
    """Verdict line and bar."""
    return fragment(verdict_line(scene), bar(scene))


def quiet(scene: Scene) -> Markup:
    """Under the bar: its key where it has no labels, the phase of the peak, the expected range, what exceeds the step."""
    report = scene.report
    gpus = number(units.integer(report.run.gpus))
    low, high = report.band("device")
    text = [
        element(
            "span", scene.sentence(scene.each("reading.each"), gpus=gpus), " · ", class_="tm-narrow"
        ),
        element("b", scene.word("verdict.peak", phase=scene.phase(report.peak_phase))),
        " ",
        scene.sentence(
            "verdict.range",
            low=number(units.amount(low, scene.style.units)[0]),
            high=scene.amount(high),
        ),
    ]
    name, most = max(report.outside_step.items(), key=lambda item: item[1], default=("", 0))
    if most > report.device:
        text += [
            " ",
            scene.sentence(
                "note.outside",
                phase=Markup(element("span", scene.phase(name))),
                amount=scene.amount(most),
            ),
        ]
    return fragment(
        element("div", chart.key(report.by_part, scene.style), class_="tm-narrow"),
        element("p", text, class_="tm-muted"),
    )


# Phases, changes


def phases(scene: Scene) -> Markup:
    """The same GPU in each phase of a step, on the scale of the bar above."""
    report = scene.report
    lines = [
        (scene.phase(name), report.parts_at(name), name == report.peak_phase)
        for name in PHASES if name in report.phases
    ]  # fmt: skip
    load = load_of(report)
    shown = chart.bars(lines, load.usable, scene.style, scale_of(load))
    return fragment(
        element("h2", scene.word("page.phases")),
        element("p", scene.word("page.phases_note"), class_="tm-muted"),
        shown,
    )


def stages(scene: Scene) -> Markup:
    """Each pipeline stage's GPU at its own highest phase, the fullest one marked; nothing where there is one stage."""
    ranks = scene.report.ranks
    if len(ranks) == 1:
        return Markup("")
    most = max(rank.device for rank in ranks)
    lines = [
        (scene.word("page.stage", n=rank.stage + 1), rank.by_part, rank.device == most)
        for rank in ranks
    ]
    load = load_of(scene.report)
    return fragment(
        element("h2", scene.word("page.stages")),
        element("p", scene.word("page.stages_note"), class_="tm-muted"),
        chart.bars(lines, load.usable, scene.style, scale_of(load)),
    )


def changes(scene: Scene) -> Markup:
    """Single changes that save most, as links with the whole new state in them."""
    fits = scene.report.verdict.kind == "fits"
    found = scene.report.changes()
    shown = [change for change in found if change.saving >= LEAST_SAVING][:MOST_CHANGES]
    if fits and not shown:
        return Markup("")
    nothing = not fits and not any(change.fits for change in shown)
    return element(
        "section",
        element("h2", scene.word("fix.saves" if fits else "fix.heading")),
        element("p", scene.word("fix.none"), class_="tm-muted") if nothing else None,
        element("ul", [_chip(scene, change, fits) for change in shown], class_="tm-chips"),
        class_="tm-noprint",
    )


def _chip(scene: Scene, change: Change, fits: bool) -> Markup:
    figure, unit = units.amount(change.saving, scene.style.units)
    values = {
        name: units.integer(value) if isinstance(value, int) else value
        for name, value in change.values.items()
    }
    name = scene.word(f"change.{change.key}", **values)
    makes_fit = None
    if change.fits and not fits:
        sign = element(
            "svg", element("path", d=ICONS["fits"]), viewBox="0 0 16 16", aria_hidden="true"
        )
        makes_fit = element(
            "span",
            sign,
            element("span", scene.word("fix.fits"), class_="tm-vh"),
            class_="tm-chip__fits",
        )
    target = link(change.run)
    content = element("span", name), number(MINUS + figure, unit), makes_fit
    return element(
        "li", element("a", *content, class_="tm-chip", href=f"?{target}", data_query=target)
    )


def share(scene: Scene) -> Markup:
    """The link, the command, Markdown, and the way to report a wrong number."""
    query = link(scene.report.run)
    command = f'trainmem estimate "{query}"'
    first = element(
        "button",
        scene.word("button.copy_link"),
        type="button",
        class_="tm-button tm-button--first",
        data_copy="link",
    )
    others = [
        element(
            "button",
            scene.word(f"button.{word}"),
            type="button",
            class_="tm-button",
            data_copy=kind,
            data_text=text,
        )
        for word, kind, text in (
            ("copy_cli", "command", command),
            ("copy_markdown", "markdown", None),
        )
    ]
    row = element("div", element("code", command), first, others, class_="tm-share")
    report = element("a", scene.word("button.report"), href=_issue(scene, query))
    return fragment(
        element("h2", scene.word("page.share")),
        row,
        element("p", report, class_="tm-noprint") if scene.repository else None,
    )


def _issue(scene: Scene, query: str) -> str:
    """The address of a new report, filled in with the run and with what we say about it."""
    report = scene.report
    shown = scene.plain_amount(report.device)
    values = {
        "template": "wrong-number.yml",
        "title": f"{heading(scene)}: {shown}",
        "link": f"{scene.address or 'workbench/'}?{query}",
        "shown": shown,
    }
    return f"{scene.repository}/issues/new?{urlencode(values)}"


def open_workbench(scene: Scene) -> Markup:
    """The same run with all its settings; from inside another page, in a window of its own."""
    run = scene.report.run
    target = f"{scene.base}workbench/index.html?{link(run.but(embed=False))}"
    own = {"target": "_blank", "rel": "noopener"} if run.embed else {}
    return element(
        "p", element("a", scene.word("button.open_workbench"), href=target, **own), class_="tm-open"
    )


def problems(scene: Scene, sentences: Sequence[str]) -> Markup:
    """What a link said that could not be used, on top of the page."""
    if not sentences:
        return Markup("")
    title = words.counted("error.link", len(sentences), scene.style.language)
    items = [element("li", sentence) for sentence in sentences[:20]]
    return element(
        "div", element("p", title), element("ul", items), class_="tm-problems", role="alert"
    )


def caption(scene: Scene) -> Markup:
    """The run in a sentence, under a bar that has no form."""
    link_ = element("div", open_workbench(scene), class_="tm-only-embedded")
    return fragment(element("p", summary(scene), class_="tm-muted"), link_)
