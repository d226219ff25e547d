"""The memory of one GPU, drawn: the bar with its labels, the thin bars of the phases, the key, and a file of its own.

Colours are classes of the style sheet, text is set in pixels; `plot` has the shapes.
"""

from trainmem import units, words
from trainmem.labels import CHARACTER, TOP, has_value_inside, middle_of, names, width_of
from trainmem.ledger import PARTS
from trainmem.markup import Markup, element, fragment, number
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
THICK, BOTTOM = 30, 66
FOOT = 88  # baseline of the amounts under the bar
NARROW_CHARACTER = 1.9  # per cent of the width a digit takes on a phone
INSIDE_NARROW = 14  # per cent of the width from which an amount fits into its segment there


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
    shapes += names(segments, style, capacity)
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
        if has_value_inside(span):
            amount = units.amount(span.size, style.units)[0]
            wide = "" if span.width >= INSIDE_NARROW else " tm-wide"
            name = f"tm-in--{span.part} strong{wide}"
            shown.append(figure_text(style, middle_of(span, capacity), 56, amount, name))
    return shown


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
    if _excess_text(load, style, scale):
        text = words.text("bar.over", style.language, over=size_label(load.over, style))
        name = "tm-excess-text strong tm-wide"
        shapes.append(word_text(style, end, FOOT, text, name, anchor="end"))
    return shapes


def _excess_text(load: Load, style: Style, scale: float) -> list[tuple[float, float]]:
    """Where the amount that is too much is written, if there is room for it."""
    text = words.text("bar.over", style.language, over=size_label(load.over, style))
    end, room = 100 * load.total / scale, 100 * load.over / scale
    return [(end - width_of(text), end)] if room > CHARACTER * (len(text) + 8) else []


def _ticks(load: Load, style: Style, scale: float) -> list[Markup]:
    """Round amounts along the bar, wherever there is room, and the usable memory at its line."""
    unit = units.GIB if style.units == "gib" else units.GB
    step = round_step(scale / unit)
    shapes = []
    wide, narrow = _excess_text(load, style, scale), []  # where something is written already
    if load.usable:
        capacity = 100 * load.usable / scale
        anchor = "middle" if 14 < capacity < 90 else "end" if capacity >= 90 else "start"
        label = size_label(load.usable, style)
        shapes.append(figure_text(style, capacity, FOOT, label, "strong", anchor=anchor))
        wide.append(_around(capacity, CHARACTER * (len(label) + 1), anchor))
        narrow.append(_around(capacity, NARROW_CHARACTER * (len(label) + 1), anchor))
    for index in range(100):
        at = 100 * index * step * unit / scale
        if at > max(load.total, load.usable or 0) * 100 / scale:
            break
        shapes.append(vertical(style, at, BOTTOM, BOTTOM + 4, "tm-tick"))
        label, anchor = units.plain(index * step), "middle" if index else "start"
        in_wide = _is_free(_around(at, CHARACTER * len(label), anchor), wide)
        in_narrow = _is_free(_around(at, NARROW_CHARACTER * len(label), anchor), narrow)
        if in_wide or in_narrow:
            where = "" if in_wide and in_narrow else " tm-wide" if in_wide else " tm-narrow"
            shapes.append(figure_text(style, at, FOOT, label, "t2" + where, anchor=anchor))
    return shapes


def _around(at: float, width: float, anchor: str) -> tuple[float, float]:
    """From where to where a label goes."""
    start = at - {"start": 0, "middle": width / 2, "end": width}[anchor]
    return start, start + width


def _is_free(label: tuple[float, float], taken: list[tuple[float, float]]) -> bool:
    return all(label[1] < start or label[0] > stop for start, stop in taken)


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
    ".tm-pat,.tm-narrow{display:none}.tm-track{fill:none;stroke:#8b8a84}.tm-headroom-line{stroke:#85847e}"
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
