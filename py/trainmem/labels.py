"""The names of the parts over a bar: each over its own segment, on two lines, none over another.

How wide text will be is not known here: a label counts as wide as it is in the narrowest view that shows names.
"""

from trainmem import units, words
from trainmem.markup import Markup, isolate
from trainmem.plot import Span, Style, horizontal, vertical, word_text

TOP = 36  # where the bar begins
FIRST_LINE, SECOND_LINE = 26, 10  # baselines: names, names a line up
CHARACTER = 0.9  # per cent of the width a character takes, in the narrowest view that shows names
NAMELESS = (
    0.4  # per cent of the width below which a part has no name over the bar, only in the ledger
)
OVERHANG = 1.2  # a name may be this much wider than its segment
INSIDE = 8  # per cent of the width from which an amount fits into its segment


def has_value_inside(span: Span) -> bool:
    return span.width >= INSIDE and span.part != "overhead"


def names(segments: list[Span], style: Style, capacity: float | None) -> list[Markup]:
    """Names over the segments; one that does not fit goes a line up, with a hairline down to its segment.

    Where names a line up would push each other aside, every other one stays on the first line, if there is room.
    """
    shapes: list[Markup] = []
    taken: list[tuple[float, float]] = []  # where the first line is written on
    small: list[tuple[Span, float, str]] = []  # segment, its middle, label
    for span in segments:
        if span.width < NAMELESS:
            continue
        label = _label(span, style)
        width, middle = width_of(label), middle_of(span, capacity)
        centre = max(middle, (taken[-1][1] if taken else 0) + width / 2)
        if width <= OVERHANG * span.width and centre - middle <= 1:
            taken.append((centre - width / 2, centre + width / 2 + 1))
            shapes.append(word_text(style, centre, FIRST_LINE, label, "tm-wide"))
        elif span is segments[-1] and _free(taken, span.start, span.start + width):
            taken.append((span.start, span.start + width + 1))
            shapes.append(_starting(span, label, style))
        else:
            small.append((span, middle, label))
    return shapes + _small(small, taken, style)


def _small(
    labels: list[tuple[Span, float, str]], taken: list[tuple[float, float]], style: Style
) -> list[Markup]:
    """Names of segments that are narrower than they: a line up, or over their segment where they would be pushed aside."""
    shapes: list[Markup] = []
    raised: list[tuple[float, float, str]] = []
    for span, middle, label in labels:
        width = width_of(label)
        crowded = bool(raised) and raised[-1][0] + raised[-1][1] / 2 + 1 > middle - width / 2
        if crowded and _free(taken, middle - width / 2, middle + width / 2):
            taken.append((middle - width / 2, middle + width / 2 + 1))
            shapes.append(word_text(style, middle, FIRST_LINE, label, "tm-wide"))
        elif crowded and _free(taken, span.start, span.start + width):
            taken.append((span.start, span.start + width + 1))
            shapes.append(_starting(span, label, style))
        else:
            raised.append((middle, width, label))
    return shapes + _raised(raised, style)


def _starting(span: Span, label: str, style: Style) -> Markup:
    """A name over its segment that begins where the segment begins."""
    return word_text(style, span.start, FIRST_LINE, label, "tm-wide", anchor="start")


def width_of(label: str) -> float:
    """Per cent of the width that a label takes at most."""
    return CHARACTER * sum(character.isprintable() for character in label)


def _free(taken: list[tuple[float, float]], start: float, stop: float) -> bool:
    """Whether a stretch of a line is inside the drawing and nothing is written on it."""
    return start >= 0 and stop <= 100 and all(stop < a or start > b for a, b in taken)


def _raised(labels: list[tuple[float, float, str]], style: Style) -> list[Markup]:
    """Names a line up, each with its hairline, which goes along to a name that is pushed aside."""
    shapes: list[Markup] = []
    for (middle, width, label), start in zip(labels, _side_by_side(labels), strict=True):
        at, anchor = start + width / 2, "middle"
        if start > middle - width / 2 + 1:
            at, anchor = start, "start"
        elif start < middle - width / 2 - 1:
            at, anchor = start + width, "end"
        shapes.append(word_text(style, at, SECOND_LINE, label, "tm-wide", anchor=anchor))
        shapes.append(vertical(style, middle, SECOND_LINE + 4, TOP - 2, "tm-tick tm-wide"))
        if anchor != "middle" and not start <= middle <= start + width:
            near, far = sorted((middle, at))
            shapes.append(horizontal(style, near, far, SECOND_LINE + 4, "tm-tick tm-wide"))
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
    if has_value_inside(span):
        return name
    amount = units.amount(span.size, style.units)[0]
    return f"{name} {isolate(amount) if style.mirrored else amount}"


def middle_of(span: Span, capacity: float | None) -> float:
    """Where a segment is labelled: its middle, or that of its larger side if the capacity line cuts it."""
    if capacity is None or not span.start < capacity < span.stop:
        return (span.start + span.stop) / 2
    if capacity - span.start >= span.stop - capacity:
        return (span.start + capacity) / 2
    return (capacity + span.stop) / 2
