"""Memory against the number of GPUs: a line for each stage of sharding, both axes logarithmic, a table beside it."""

from math import log

from trainmem import units
from trainmem.found import gpu_count
from trainmem.markup import Markup, element, fragment, isolate, number
from trainmem.scene import Scene

HEIGHT = 260  # pixels between the lowest and the highest value
APART = 15  # pixels between two labels
DASHES = {"0": "1 4", "1": "6 3", "2": "9 3 2 3", "3": None}
ROOM = 1.15  # the axis ends this much beyond the extremes

Lines = dict[str, dict[int, int]]


class Axes:
    """Where a number of GPUs and an amount of memory stand: per cent from the left, pixels from the top."""

    def __init__(self, lines: Lines, usable: int | None) -> None:
        sizes = [size for line in lines.values() for size in line.values()]
        sizes += [usable] if usable else []
        self.low, self.high = min(sizes) / ROOM, max(sizes) * ROOM
        self.gpus = sorted({count for line in lines.values() for count in line})

    def x(self, gpus: int) -> float:
        """Per cent of the width."""
        return 100 * log(gpus) / log(max(2, self.gpus[-1]))

    def y(self, size: float) -> float:
        """Pixels from the top."""
        return HEIGHT * log(self.high / size) / log(self.high / self.low)

    def ticks(self, unit: int) -> list[int]:
        """1, 2 and 5 times powers of ten of a unit, inside the axis."""
        found = [factor * 10**power for power in range(7) for factor in (1, 2, 5)]
        return [n for n in found if self.low <= n * unit <= self.high]


def curve(scene: Scene, lines: Lines) -> Markup:
    """The chart with its heading, its reading and its table; nothing where no line has two points."""
    lines = {stage: dict(sorted(line.items())) for stage, line in sorted(lines.items())}
    if not any(len(line) > 1 for line in lines.values()):
        return Markup("")
    run, usable = scene.report.run, scene.report.verdict.usable
    axes = Axes(lines, usable)
    note = scene.word("search.curve_note", n=units.integer(run.micro_batch))
    readings = {gpus: _reading(scene, lines, gpus) for gpus in axes.gpus}
    return fragment(
        element("h2", scene.word("search.curve")),
        element("p", note, class_="tm-muted"),
        element(
            "div", _drawing(scene, lines, axes, usable, note), _slider(scene, axes, readings),
            class_="tm-axes tm-chart tm-curve",
        ),
        element("output", readings[run.gpus], class_="tm-reading", aria_live="off"),
        element(
            "details", element("summary", scene.word("button.show_table")), _table(scene, lines, axes),
            class_="tm-table",
        ),
    )  # fmt: skip


def _reading(scene: Scene, lines: Lines, gpus: int) -> str:
    """One place of the axis in words."""
    sizes = (
        f"ZeRO-{stage} {units.size_text(line[gpus], scene.style.units)}"
        for stage, line in lines.items()
        if gpus in line
    )
    text = f"{gpu_count(gpus, scene.style.language)}: {' · '.join(sizes)}"
    return isolate(text) if scene.style.mirrored else text


# The drawing


def _drawing(scene: Scene, lines: Lines, axes: Axes, usable: int | None, title: str) -> Markup:
    gpus = scene.report.run.gpus
    shapes = [*_grid(scene, axes), *_capacity(scene, axes, usable)]
    curves = [_path(axes, stage, line) for stage, line in lines.items()]
    inner = element(
        "svg", curves, viewBox=f"0 0 100 {HEIGHT}", preserveAspectRatio="none", width="100%",
        height=HEIGHT, overflow="visible",
    )  # fmt: skip
    dots = [
        element(
            "circle", cx=f"{axes.x(gpus):.2f}%", cy=f"{axes.y(line[gpus]):.1f}", r=4, class_="tm-dot--yours",
        )
        for line in lines.values() if gpus in line
    ]  # fmt: skip
    place = f"{axes.x(gpus):.2f}%"
    cross = element("line", x1=place, x2=place, y1=0, y2=HEIGHT, class_="tm-cross")
    identity = f"{scene.style.identity}-curve"
    return element(
        "svg", element("title", title, id=identity), shapes, cross, inner, dots, _names(axes, lines),
        class_="tm-plot", role="img", aria_labelledby=identity, style=f"block-size:{HEIGHT + 26}px",
    )  # fmt: skip


def _path(axes: Axes, stage: str, line: dict[int, int]) -> Markup:
    points = " ".join(f"{axes.x(gpus):.2f},{axes.y(size):.1f}" for gpus, size in line.items())
    return element("polyline", points=points, class_="tm-line", stroke_dasharray=DASHES[stage])


def _grid(scene: Scene, axes: Axes) -> list[Markup]:
    """Hairlines at round amounts, and numbers of GPUs under the axis; every second one on a wide page alone."""
    unit, name = (1 << 30, "GiB") if scene.style.units == "gib" else (10**9, "GB")
    found = []
    for tick in axes.ticks(unit):
        y = f"{axes.y(tick * unit):.1f}"
        found.append(element("line", x1="0%", x2="100%", y1=y, y2=y, class_="tm-rule"))
        found.append(
            element("text", units.integer(tick), x="0%", y=y, dx=-6, dy=4, text_anchor="end", class_="t2")
        )  # fmt: skip
    found.append(element("text", name, x="0%", y=-8, dx=-6, text_anchor="end", class_="t2"))
    for place, gpus in enumerate(axes.gpus):
        if gpus & (gpus - 1):
            continue
        found.append(
            element(
                "text", units.integer(gpus), x=f"{axes.x(gpus):.2f}%", y=HEIGHT + 20,
                text_anchor="middle", class_="t2 tm-tick-wide" if place % 2 else "t2",
            )
        )  # fmt: skip
    return found


def _capacity(scene: Scene, axes: Axes, usable: int | None) -> list[Markup]:
    """What the card holds."""
    if not usable:
        return []
    y = axes.y(usable)
    size = units.size_text(usable, scene.style.units)
    text = scene.word("search.usable", size=isolate(size) if scene.style.mirrored else size)
    direction = "rtl" if scene.style.mirrored else None
    anchor = "start" if scene.style.mirrored else "end"
    return [
        element("line", x1="0%", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="tm-capacity"),
        element(
            "text", text, x="100%", y=f"{y - 6:.1f}", text_anchor=anchor, direction=direction,
            class_="strong tm-halo",
        ),
    ]  # fmt: skip


def _names(axes: Axes, lines: Lines) -> list[Markup]:
    """The name of each line at its end, pushed apart where lines meet."""
    last = {stage: line[max(line)] for stage, line in lines.items()}
    found, above = [], -float(APART)
    for stage, size in sorted(last.items(), key=lambda one: axes.y(one[1])):
        above = max(axes.y(size), above + APART)
        found.append(element("text", f"ZeRO-{stage}", x="100%", y=f"{above:.1f}", dx=10, dy=4))
    return found


def _slider(scene: Scene, axes: Axes, readings: dict[int, str]) -> Markup:
    """Moves a line along the axis and reads the curves off: only what the table says, in place."""
    at = axes.gpus.index(scene.report.run.gpus)
    places = " ".join(f"{axes.x(gpus):.2f}%" for gpus in axes.gpus)
    return element(
        "input", type="range", class_="tm-cross-input", min=0, max=len(axes.gpus) - 1, value=at,
        aria_label=scene.word("label.gpus"), aria_valuetext=readings[axes.gpus[at]], data_places=places,
        data_readings="\n".join(readings.values()),
    )  # fmt: skip


def _table(scene: Scene, lines: Lines, axes: Axes) -> Markup:
    names = [scene.word("label.gpus"), *(f"ZeRO-{stage}" for stage in lines)]
    head = element("tr", [
        element("th", name, scope="col", class_="num" if place else None) for place, name in enumerate(names)
    ])  # fmt: skip
    rows = [
        element(
            "tr",
            element("th", number(units.integer(gpus)), scope="row"),
            [
                element(
                    "td", scene.amount(line[gpus]) if gpus in line else number("–"), class_="num"
                )
                for line in lines.values()
            ],
        )
        for gpus in axes.gpus
    ]
    return element(
        "table", element("thead", head), element("tbody", rows), class_="tm-ledger tm-flat"
    )
