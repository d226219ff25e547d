"""What the charts are drawn with: a scale in per cent, shapes that mirror themselves, segments and their patterns.

Lengths are in per cent and heights in pixels, so that text keeps its size at every width. In a right-to-left language
a bar grows from the right: positions are mirrored, digits are not.
"""

from typing import NamedTuple

from trainmem import units
from trainmem.ledger import PARTS
from trainmem.markup import Markup, element, isolate

RIGHT_TO_LEFT = frozenset({"ur"})
ROOM = 1.055  # the scale ends this much beyond the largest thing drawn


class Load(NamedTuple):
    """What one bar shows, in bytes: the parts, the expected range of their sum, and the card."""

    parts: dict[str, int]
    low: int
    high: int
    usable: int | None
    limit: int | None

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(self.parts.values())

    @property
    def over(self) -> int:
        """Bytes beyond the usable memory; 0 where it fits or the card is unknown."""
        return max(0, self.total - self.usable) if self.usable else 0


class Style(NamedTuple):
    """How a figure is written: language, GiB or GB, and the prefix of its ids."""

    language: str = "en"
    units: str = "gib"
    identity: str = "tm"

    @property
    def mirrored(self) -> bool:
        """Whether bars grow from the right."""
        return self.language in RIGHT_TO_LEFT


class Span(NamedTuple):
    """A segment in per cent of the width, in reading direction."""

    part: str
    start: float
    stop: float
    size: int

    @property
    def width(self) -> float:
        """Per cent of the width."""
        return self.stop - self.start


def scale_of(*loads: Load) -> float:
    """Bytes at the end of the scale: all bars of a figure share it."""
    return ROOM * max(max(load.usable or 0, load.total, load.high, 1) for load in loads)


def spans(parts: dict[str, int], scale: float) -> list[Span]:
    """The segments that hold something, side by side, in the fixed order of the parts."""
    found: list[Span] = []
    at = 0.0
    for part in PARTS:
        held = parts.get(part, 0)
        if held > 0:
            width = 100 * held / scale
            found.append(Span(part, at, at + width, held))
            at += width
    return found


def round_step(length: float, most: float = 6.5) -> float:
    """A round distance (1, 2 or 5 times a power of ten) that divides a length into at most so many pieces."""
    step = 1e-6
    while True:
        for factor in (1, 2, 5):
            if length / (step * factor) <= most:
                return step * factor
        step *= 10


def size_label(size: float, style: Style) -> str:
    """An amount with its unit, as one word of a label."""
    text = " ".join(units.amount(size, style.units))
    return isolate(text) if style.mirrored else text


# Shapes


def rect(
    style: Style, start: float, stop: float, y: float | str, height: float | str, **rest: str
) -> Markup:
    """A box from one position to another."""
    x = 100 - stop if style.mirrored else start
    width = f"{max(stop - start, 0):.2f}%"
    return element("rect", x=f"{x:.2f}%", y=y, width=width, height=height, **rest)


def vertical(style: Style, x: float, y1: float | str, y2: float | str, name: str) -> Markup:
    """A line from top to bottom at one position."""
    at = f"{100 - x if style.mirrored else x:.2f}%"
    return element("line", x1=at, y1=y1, x2=at, y2=y2, class_=name)


def horizontal(style: Style, x1: float, x2: float, y: float, name: str) -> Markup:
    """A line along the bar."""
    if style.mirrored:
        x1, x2 = 100 - x1, 100 - x2
    return element("line", x1=f"{x1:.2f}%", y1=y, x2=f"{x2:.2f}%", y2=y, class_=name)


def figure_text(
    style: Style, at: float, y: float, text: str, name: str, *, anchor: str = "middle"
) -> Markup:
    """A label that is only a number: digits stay, so the anchor changes sides with the bar."""
    if style.mirrored:
        at, anchor = 100 - at, {"start": "end", "end": "start"}.get(anchor, anchor)
    return element("text", text, x=f"{at:.2f}%", y=y, class_=name, text_anchor=anchor)


def word_text(
    style: Style, at: float, y: float, text: str, name: str, *, anchor: str = "middle"
) -> Markup:
    """A label with words in it: it takes the reading direction, and its anchor is meant in that direction."""
    x, direction = (100 - at, "rtl") if style.mirrored else (at, None)
    return element(
        "text", text, x=f"{x:.2f}%", y=y, class_=name, text_anchor=anchor, direction=direction
    )


def segment(span: Span, style: Style, y: float | str, height: float | str) -> list[Markup]:
    """One part: its pigment, and over it the pattern that stands for the pigment where there is no colour."""
    part, fill = span.part, f"url(#{style.identity}-p-{span.part})"
    over = "tm-hatch" if part == "overhead" else "tm-pat"
    return [
        rect(style, span.start, span.stop, y, height, class_=f"tm-s tm-s--{part}", data_part=part),
        rect(style, span.start, span.stop, y, height, class_=over, fill=fill),
    ]


def swatch(part: str, style: Style) -> Markup:
    """A square in the colour of a part."""
    fill = f"url(#{style.identity}-p-{part})"
    over = "tm-hatch" if part == "overhead" else "tm-pat"
    return element(
        "svg",
        element("rect", width="100%", height="100%", class_=f"tm-s--{part}"),
        element("rect", width="100%", height="100%", class_=over, fill=fill),
        class_="tm-swatch", aria_hidden="true",
    )  # fmt: skip


# Patterns

_CELLS = {  # size of the cell, turn in degrees, what is in it
    "parameters": (4, 0, '<rect width="4" height="4" fill="currentColor"></rect>'),
    "gradients": (6, 45, '<line x2="0" y2="6" stroke="currentColor"></line>'),
    "optimizer": (5, 0, '<path d="M0 0H5M0 0V5" stroke="currentColor" fill="none"></path>'),
    "activations": (4, 0, '<circle cx="2" cy="2" r="0.9" fill="currentColor"></circle>'),
    "overhead": (4, 0, '<line x1="0" y1="2" x2="4" y2="2" stroke="currentColor"></line>'),
    "headroom": (5, -45, '<line class="tm-headroom-line" x2="0" y2="5"></line>'),
}


def patterns(identity: str) -> Markup:
    """The definitions that the figures of one calculator refer to, under its own prefix."""
    return element("defs", *[_pattern(identity, name) for name in _CELLS])


def _pattern(identity: str, name: str) -> Markup:
    cell, turn, drawing = _CELLS[name]
    return element(
        "pattern", Markup(drawing), id=f"{identity}-p-{name}", width=cell, height=cell,
        patternUnits="userSpaceOnUse", patternTransform=f"rotate({turn})" if turn else None,
    )  # fmt: skip


def definitions(identity: str) -> Markup:
    """The patterns of one calculator; never hidden by `display`, or they would vanish from the figures."""
    return element(
        "svg", patterns(identity), width=0, height=0, aria_hidden="true", focusable="false",
        style="position:absolute",
    )  # fmt: skip
