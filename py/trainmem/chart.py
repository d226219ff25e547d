"""The memory of one GPU, drawn: the bar with its labels, the thin bars of the phases, the key, and a file of its own.

Colours are classes of the style sheet, text is set in pixels; `plot` has the shapes.
"""

from trainmem import units, words
from trainmem.ledger import PARTS
from trainmem.markup import Markup, element, fragment, isolate, number
from trainmem.plot import (
    Load,
    Span,
    Style,
    figure_text,
    horizontal,
    patterns,
    rect,
    round_step,
    scale_of,
    segment,
    size_label,
    spans,
    swatch,
    vertical,
    word_text,
)

HEIGHT = 98
TOP, THICK, BOTTOM = 36, 30, 66
FIRST_LINE, SECOND_LINE, FOOT = 26, 10, 88  # baselines: names, names a line up, amounts under it
CHARACTER = 0.9  # per cent of the width a character takes, in the narrowest view that shows names
NAMELESS = (
    0.4  # per cent of the width below which a part has no name over the bar, only in the ledger
)
OVERHANG = 1.2  # a name may be this much wider than its segment
INSIDE, INSIDE_NARROW = 8, 14  # per cent of the width from which an amount fits into its segment


def bar(load: Load, style: Style, sentence: str) -> Markup:
    """The bar of one GPU with direct labels, capacity, headroom and expected range."""
    title = f"{style.identity}-bar"
    return element(
        "svg", element("title", sentence, id=title), *_drawing(load, style),
        class_="tm-plot tm-bar", role="img", aria_labelledby=title, style=f"block-size:{HEIGHT}px",
    )  # fmt: skip


def _drawing(load: Load, style: Style) -> list[Markup]:
    """Everything inside the frame of the bar, in painting order."""
    scale = scale_of(load)
    segments = spans(load.parts, scale)
    capacity = 100 * load.usable / scale if load.usable else None
    shapes = _card(load, style, scale)
    for span in segments:
        shapes += segment(span, style, TOP, THICK)
    shapes += _values(segments, style, capacity)
    shapes += _names(segments, style, capacity)
    if capacity is not None:
        shapes += [
            vertical(style, capacity, TOP - 6, BOTTOM + 6, name)
            for name in ("tm-capacity tm-under", "tm-capacity")
        ]
    shapes += _excess(load, style, scale) if load.over else _range(load, style, scale)
    return shapes + _ticks(load, style, scale)


def _card(load: Load, style: Style, scale: float) -> list[Markup]:
    """The outline of the card, and diagonals over what the reader keeps back, as far as it is still free."""
    if not load.usable:
        return []
    capacity = 100 * load.usable / scale
    outline = rect(style, 0, capacity, TOP, THICK, class_="tm-track")
    if load.limit is None or load.limit >= load.usable or load.over:
        return [outline]
    kept_from = 100 * max(load.limit, load.total) / scale
    fill = f"url(#{style.identity}-p-headroom)"
    diagonals = rect(style, kept_from, capacity, TOP, THICK, class_="tm-headroom", fill=fill)
    if load.total > load.limit:
        return [diagonals, outline]
    return [diagonals, outline, vertical(style, kept_from, TOP, BOTTOM, "tm-limit")]


def _values(segments: list[Span], style: Style, capacity: float | None) -> list[Markup]:
    """Amounts inside the segments that have room for them; the smaller ones only in a wide view."""
    shown = []
    for span in segments:
        if _has_value_inside(span):
            amount = units.amount(span.size, style.units)[0]
            wide = "" if span.width >= INSIDE_NARROW else " tm-wide"
            name = f"tm-in--{span.part} strong{wide}"
            shown.append(figure_text(style, _middle(span, capacity), 56, amount, name))
    return shown


def _has_value_inside(span: Span) -> bool:
    return span.width >= INSIDE and span.part != "overhead"


def _names(segments: list[Span], style: Style, capacity: float | None) -> list[Markup]:
    """Names over the segments; one that does not fit goes a line up, with a hairline down to its segment.

    Where names a line up would push each other aside, every other one stays on the first line, if there is room.
    """
    shapes: list[Markup] = []
    taken: list[tuple[float, float]] = []  # where the first line is written on
    wide: list[tuple[float, float, str]] = []  # middle of the segment, width of the label, label
    for span in segments:
        if span.width < NAMELESS:
            continue
        label = _label(span, style)
        width = CHARACTER * sum(character.isprintable() for character in label)
        middle = _middle(span, capacity)
        centre = max(middle, (taken[-1][1] if taken else 0) + width / 2)
        if width <= OVERHANG * span.width and centre - middle <= 1:
            taken.append((centre - width / 2, centre + width / 2 + 1))
            shapes.append(word_text(style, centre, FIRST_LINE, label, "tm-wide"))
        elif span is segments[-1] and _free(taken, span.start, span.start + width):
            taken.append((span.start, span.start + width + 1))
            shapes.append(
                word_text(style, span.start, FIRST_LINE, label, "tm-wide", anchor="start")
            )
        else:
            wide.append((middle, width, label))
    raised: list[tuple[float, float, str]] = []
    for middle, width, label in wide:
        crowded = bool(raised) and raised[-1][0] + raised[-1][1] / 2 + 1 > middle - width / 2
        if crowded and _free(taken, middle - width / 2, middle + width / 2):
            taken.append((middle - width / 2, middle + width / 2 + 1))
            shapes.append(word_text(style, middle, FIRST_LINE, label, "tm-wide"))
        else:
            raised.append((middle, width, label))
    return shapes + _raised(raised, style)


def _free(taken: list[tuple[float, float]], start: float, stop: float) -> bool:
    """Whether a stretch of a line is inside the drawing and nothing is written on it."""
    return start >= 0 and stop <= 100 and all(stop < a or start > b for a, b in taken)


def _raised(labels: list[tuple[float, float, str]], style: Style) -> list[Markup]:
    """Names a line up, each with its hairline; one that is pushed aside hangs on the end where that is."""
    shapes: list[Markup] = []
    for (middle, width, label), start in zip(labels, _side_by_side(labels), strict=True):
        at, anchor = start + width / 2, "middle"
        if start > middle - width / 2 + 1:
            at, anchor = start, "start"
        elif start < middle - width / 2 - 1:
            at, anchor = start + width, "end"
        shapes.append(word_text(style, at, SECOND_LINE, label, "tm-wide", anchor=anchor))
        shapes.append(vertical(style, middle, SECOND_LINE + 4, TOP - 2, "tm-tick tm-wide"))
    return shapes


def _side_by_side(labels: list[tuple[float, float, str]]) -> list[float]:
    """Where labels of one line start: each over its own segment if there is room, none over another."""
    starts: list[float] = []
    earliest: list[float] = []  # where a label starts when all before it are pushed to the edge
    end = edge = 0.0
    for middle, width, _ in labels:
        earliest.append(edge)
        starts.append(max(end, middle - width / 2))
        end, edge = starts[-1] + width + 1, edge + width + 1
    follower = 101.0
    for at in range(len(labels) - 1, -1, -1):
        middle, width, _ = labels[at]
        starts[at] = min(starts[at], follower - width - 1, max(middle - 0.5, earliest[at]))
        follower = starts[at]
    return starts


def _label(span: Span, style: Style) -> str:
    """The name of a part, with its amount where that has no room inside the segment."""
    name = words.text(f"part.{span.part}", style.language)
    if _has_value_inside(span):
        return name
    amount = units.amount(span.size, style.units)[0]
    return f"{name} {isolate(amount) if style.mirrored else amount}"


def _middle(span: Span, capacity: float | None) -> float:
    """Where a segment is labelled: its middle, or that of its larger side if the capacity line cuts it."""
    if capacity is None or not span.start < capacity < span.stop:
        return (span.start + span.stop) / 2
    if capacity - span.start >= span.stop - capacity:
        return (span.start + capacity) / 2
    return (capacity + span.stop) / 2


def _range(load: Load, style: Style, scale: float) -> list[Markup]:
    """The expected range, as a bracket under the end of the bar."""
    low, high, y = 100 * load.low / scale, 100 * load.high / scale, BOTTOM + 8
    ends = [vertical(style, at, y - 4, y, "tm-band") for at in (low, high)]
    return [horizontal(style, low, high, y, "tm-band"), *ends]


def _excess(load: Load, style: Style, scale: float) -> list[Markup]:
    """What is too much, as a bracket from the capacity line to the end."""
    capacity, end = 100 * (load.usable or 0) / scale, 100 * load.total / scale
    y = BOTTOM + 8
    shapes = [
        horizontal(style, capacity, end, y, "tm-excess"),
        vertical(style, end, y - 4, y, "tm-excess"),
    ]
    text = words.text("bar.over", style.language, over=size_label(load.over, style))
    if end - capacity > CHARACTER * (len(text) + 8):
        name = "tm-excess-text strong tm-wide"
        shapes.append(word_text(style, end, FOOT, text, name, anchor="end"))
    return shapes


def _ticks(load: Load, style: Style, scale: float) -> list[Markup]:
    """Round amounts along the bar, and the usable memory at its line."""
    unit = units.GIB if style.units == "gib" else units.GB
    step = round_step(scale / unit)
    capacity = 100 * load.usable / scale if load.usable else None
    centred = capacity is not None and 14 < capacity < 90
    shapes = []
    free_to = 100 * load.total / scale
    if capacity is not None and load.usable:
        free_to = capacity - (8 if centred else 12)
        anchor = "middle" if centred else "end" if capacity >= 90 else "start"
        label = size_label(load.usable, style)
        shapes.append(figure_text(style, capacity, FOOT, label, "strong", anchor=anchor))
    for index in range(100):
        at = 100 * index * step * unit / scale
        if at > max(load.total, load.usable or 0) * 100 / scale:
            break
        shapes.append(vertical(style, at, BOTTOM, BOTTOM + 4, "tm-tick"))
        if at <= free_to:
            anchor = "middle" if index else "start"
            shapes.append(
                figure_text(style, at, FOOT, units.plain(index * step), "t2", anchor=anchor)
            )
    return shapes


# Phases and key


def thin(parts: dict[str, int], usable: int | None, style: Style, scale: float) -> Markup:
    """A bar without words, for one line of a list on a common scale."""
    shapes: list[Markup] = []
    for span in spans(parts, scale):
        shapes += segment(span, style, "20%", "60%")
    if usable:
        at = 100 * usable / scale
        shapes.append(vertical(style, at, 0, "100%", "tm-capacity"))
    return element("svg", *shapes, class_="tm-plot", aria_hidden="true")


def bars(
    lines: list[tuple[str, dict[str, int], bool]], usable: int | None, style: Style, scale: float
) -> Markup:
    """One line for each (name, parts, is it the peak), as a list: the phases of a step, or the GPUs of a pipeline."""
    items = []
    for name, parts, is_peak in lines:
        shown = element("span", thin(parts, usable, style, scale), class_="tm-phases__bar")
        total = number(*units.amount(sum(parts.values()), style.units))
        items.append(element("li", element("span", name), shown, total, data_peak=is_peak))
    return element("ol", *items, class_="tm-phases")


def key(parts: dict[str, int], style: Style) -> Markup:
    """The key of a bar: each part that holds something, with its swatch, its name and its amount."""
    items = []
    for part in PARTS:
        if parts.get(part, 0) > 0:
            name = element("span", words.text(f"part.{part}", style.language))
            amount = number(*units.amount(parts[part], style.units))
            items.append(element("li", swatch(part, style), name, amount))
    return element("ul", *items, class_="tm-key")


# A file of its own

STYLE = Markup(
    'svg{font-family:"Source Sans 3",system-ui,sans-serif;font-size:13px;fill:#1d1f22;color:#1d1f22}'
    ".paper{fill:#fcfbf8}.head{font-size:16px;font-weight:600}.t2{fill:#565b61}.strong{font-weight:600}"
    ".tm-s{stroke:#fcfbf8;stroke-width:2}.tm-s--parameters{fill:#172e8f}.tm-s--gradients{fill:#5391b8}"
    ".tm-s--optimizer{fill:#6c0c16}.tm-s--activations{fill:#bc6c05}"
    ".tm-s--overhead{fill:#fcfbf8;stroke:#1d1f22;stroke-width:1}"
    ".tm-in--parameters,.tm-in--optimizer{fill:#fff}.tm-in--gradients,.tm-in--activations{fill:#111315}"
    ".tm-pat{display:none}.tm-track{fill:none;stroke:#8b8a84}.tm-headroom-line{stroke:#85847e}"
    ".tm-capacity{stroke:#1d1f22;stroke-width:2}.tm-capacity.tm-under{stroke:#fcfbf8;stroke-width:6}"
    ".tm-limit{stroke:#565b61;stroke-dasharray:3 2}.tm-band{stroke:#1d1f22;stroke-width:1.5}"
    ".tm-excess{stroke:#a3221c;stroke-width:2}.tm-excess-text{fill:#a3221c}.tm-tick{stroke:#8b8a84}"
    "@media print{.tm-pat{display:inline}.tm-s{fill:#fff;stroke:#000}text{fill:#000}.tm-in--parameters{fill:#fff}}"
)


def document(load: Load, style: Style, heading: str, sentence: str, foot: str = "") -> str:
    """The bar as an SVG file: colours and patterns inside, a heading and a sentence over it, the link under it."""
    x, direction = (696, "rtl") if style.mirrored else (24, None)
    body = fragment(
        element("title", sentence, id="tm-title"),
        element("style", STYLE),
        patterns(style.identity),
        element("rect", width=720, height=210, class_="paper"),
        element("text", heading, x=x, y=32, class_="head", direction=direction),
        element("text", sentence, x=x, y=54, class_="t2", direction=direction),
        element(
            "svg", *_drawing(load, style), x=24, y=70, width=672, height=HEIGHT, overflow="visible"
        ),
        element("text", foot, x=24, y=196, class_="t2") if foot else None,
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="720" height="210" viewBox="0 0 720 210" '
        f'role="img" aria-labelledby="tm-title">{body}</svg>\n'
    )
