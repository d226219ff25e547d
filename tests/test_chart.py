"""The charts: lengths that add up, words that do not lie over each other, mirroring, and the file."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmem import chart, words
from trainmem import labels as over_bar
from trainmem.ledger import PARTS
from trainmem.plot import Load, Style, definitions, round_step, scale_of, spans

GIB = 2**30
FITS = Load(
    dict(zip(PARTS, (15 * GIB, 2 * GIB, 11 * GIB, 31 * GIB, 3 * GIB), strict=True)),
    58 * GIB,
    66 * GIB,
    79 * GIB,
    71 * GIB,
)
OVER = FITS._replace(parts={**FITS.parts, "optimizer": 90 * GIB}, low=130 * GIB, high=150 * GIB)
UNKNOWN = FITS._replace(usable=None, limit=None)
SIZES = st.integers(0, 10**13)
LOADS = st.builds(
    lambda sizes, usable: Load(
        dict(zip(PARTS, sizes, strict=True)),
        sum(sizes),
        sum(sizes) * 11 // 10,
        usable,
        usable and usable * 9 // 10,
    ),
    st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES),
    st.none() | st.integers(10**9, 10**12),
)


def drawn(load, style=None):
    return ElementTree.fromstring(chart.bar(load, style or Style(), "A sentence."))


def percent(element, name):
    return float(element.get(name).rstrip("%"))


def of_class(tree, name):
    return [found for found in tree.iter() if name in found.get("class", "").split()]


@given(LOADS)
def test_segments_add_up_to_the_whole(load):
    """The widths of the segments add up to the total's share of the scale, one after another."""
    segments = of_class(drawn(load), "tm-s")
    width = sum(percent(segment, "width") for segment in segments)
    assert width == pytest.approx(100 * load.total / scale_of(load), abs=0.05)
    at = 0
    for segment in segments:
        assert percent(segment, "x") == pytest.approx(at, abs=0.05)
        at += percent(segment, "width")


@given(LOADS)
def test_urdu_mirrors_the_bar(load):
    """In a right-to-left language every segment lies where its mirror image was."""
    there, here = (of_class(drawn(load, Style(language)), "tm-s") for language in ("en", "ur"))
    for one, other in zip(there, here, strict=True):
        mirrored = 100 - percent(one, "x") - percent(one, "width")
        assert percent(other, "x") == pytest.approx(mirrored, abs=0.03)


@given(LOADS)
def test_nothing_leaves_the_figure(load):
    """Nothing is drawn outside of the figure, whatever is loaded."""
    for found in drawn(load).iter():
        for name in ("x", "x1", "x2"):
            if found.get(name):
                assert -0.01 <= percent(found, name) <= 100.01


def test_parts_keep_their_order_and_empty_ones_are_not_drawn():
    """Parts lie in the fixed order; one that holds nothing has no segment."""
    load = FITS._replace(parts={**FITS.parts, "gradients": 0})
    assert [span.part for span in spans(load.parts, 100)] == [
        "parameters",
        "optimizer",
        "activations",
        "overhead",
    ]


def test_every_part_is_named_once():
    """Each part that is drawn has its name beside it, and its amount once."""
    texts = [found.text for found in drawn(FITS).iter("text")]
    for name, amount in (("Parameters", "15.0"), ("Gradients 2.0", None), ("Overhead 3.0", None)):
        assert texts.count(name) == 1
        assert amount is None or texts.count(amount) == 1


def labels(tree):
    """(line, start, end) in per cent of each name, at the widest that a character gets."""
    for text in of_class(tree, "tm-wide"):
        if text.tag == "text" and text.get("y") in {"10", "26"}:
            width = chart.CHARACTER * len(text.text)
            start = (
                percent(text, "x")
                - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
            )
            yield text.get("y"), start, start + width


def texts(tree):
    """The names, in the order of `labels`."""
    wide = [text for text in of_class(tree, "tm-wide") if text.get("y") in {"10", "26"}]
    return [text.text for text in wide if text.tag == "text"]


@pytest.mark.parametrize("load", [FITS, OVER, UNKNOWN], ids=["fits", "over", "unknown"])
def test_names_do_not_overlap(load):
    """No name lies over another one."""
    found = sorted(labels(drawn(load)))
    for (line, _, end), (next_line, start, _) in itertools.pairwise(found):
        assert line != next_line or start >= end - 0.01


@pytest.mark.parametrize(
    "sizes", [(44, 0, 60, 569, 34), (9, 9, 9, 900, 40), (30, 30, 90, 0, 8), (1, 2, 3, 500, 1)]
)
def test_a_name_stands_at_its_segment(sizes):
    """Each name lies over its segment, or a hairline leads from the segment to it."""
    parts = {part: size * GIB for part, size in zip(PARTS, sizes, strict=True)}
    load = Load(parts, sum(sizes) * GIB, sum(sizes) * GIB, 79 * GIB, 71 * GIB)
    tree = drawn(load)
    lines = [one for one in of_class(tree, "tm-wide") if one.tag == "line"]
    ways = [{percent(one, "x1"), percent(one, "x2")} for one in lines]
    for segment in of_class(tree, "tm-s"):
        start = percent(segment, "x")
        stop = start + percent(segment, "width")
        if stop - start < over_bar.NAMELESS:
            continue
        name = words.text(f"part.{segment.get('data-part')}")
        ((line, left, right),) = [
            label for label, text in zip(labels(tree), texts(tree), strict=True) if name in text
        ]
        hairs = [way for way in ways if any(start <= x <= stop for x in way)]
        reached = {x for hair in hairs for way in ways if way & hair for x in way}
        over = line == "26" and left < stop and right > start
        assert over or any(left - 0.1 <= x <= right + 0.1 for x in reached), name


def test_amounts_stand_all_along_the_bar():
    """Beyond the capacity too the axis has its numbers, where no other text stands."""
    parts = dict(zip(PARTS, (44 * GIB, 0, 60 * GIB, 569 * GIB, 34 * GIB), strict=True))
    texts = of_class(drawn(Load(parts, 680 * GIB, 780 * GIB, 79 * GIB, 71 * GIB)), "t2")
    shown = [(text.text, "tm-wide" in text.get("class")) for text in texts]
    assert [text for text, _ in shown] == ["0", "200", "400", "600"]
    assert ("400", False) in shown
    assert "tm-narrow" in texts[-1].get("class")  # where the excess is not written under the bar


def test_capacity_is_drawn_only_where_it_is_known():
    """A card whose memory we don't know has no capacity line, no headroom and no verdict of the bar."""
    assert of_class(drawn(FITS), "tm-capacity")
    for name in ("tm-capacity", "tm-track", "tm-headroom", "tm-limit"):
        assert of_class(drawn(UNKNOWN), name) == []


def test_too_much_is_bracketed_from_capacity_to_the_end():
    """What does not fit is marked from the capacity line to the end of the bar, with its amount."""
    tree = drawn(OVER)
    across = of_class(tree, "tm-excess")[0]
    assert percent(across, "x1") == pytest.approx(100 * OVER.usable / scale_of(OVER), abs=0.01)
    assert percent(across, "x2") == pytest.approx(100 * OVER.total / scale_of(OVER), abs=0.01)
    assert "62.0 GiB" in of_class(tree, "tm-excess-text")[0].text
    assert of_class(drawn(FITS), "tm-excess") == []


def test_expected_range_is_a_bracket_under_the_bar():
    """The bracket runs from the low to the high end of the expected range."""
    across = of_class(drawn(FITS), "tm-band")[0]
    low, high = (100 * size / scale_of(FITS) for size in (FITS.low, FITS.high))
    assert (percent(across, "x1"), percent(across, "x2")) == pytest.approx((low, high), abs=0.01)


def test_units_switch():
    """With units=gb the amounts and the ticks are in GB."""
    texts = [found.text for found in drawn(FITS, Style(units="gb")).iter("text")]
    assert "84.8 GB" in texts
    assert not any("GiB" in text for text in texts)


@given(st.floats(1e-3, 1e7))
def test_ticks_are_few_and_round(length):
    """Ticks are 1, 2 or 5 times a power of ten apart, and between two and seven of them fit."""
    step = round_step(length)
    assert 2 <= length / step <= 6.6
    assert f"{step:.0e}"[0] in "125"


@pytest.mark.parametrize("language", ["en", "ur", "bn"])
def test_patterns_exist_for_every_fill(language):
    """Each pattern that a bar, a swatch or a phase refers to is defined with the same prefix."""
    style = Style(language, identity="calc-2")
    parts = chart.bar(FITS, style, "") + chart.key(FITS.parts, style)
    parts += chart.bars([("x", FITS.parts, True)], FITS.usable, style, scale_of(FITS))
    defined = set(re.findall(r'id="([^"]+)"', definitions("calc-2")))
    assert set(re.findall(r"url\(#([^)]+)\)", parts)) <= defined


def test_phases_share_one_scale_and_one_line():
    """Every line of the phases has its capacity line at the same place; the peak is marked."""
    lines = [("one", FITS.parts, False), ("two", OVER.parts, True)]
    tree = ElementTree.fromstring(chart.bars(lines, FITS.usable, Style(), scale_of(OVER)))
    places = {found.get("x1") for found in of_class(tree, "tm-capacity")}
    assert len(places) == 1
    assert [item.get("data-peak") for item in tree.iter("li")] == [None, ""]


@pytest.mark.parametrize("language", ["en", "ur", "bn"])
def test_file_stands_alone(language):
    """The file is well-formed SVG with its own colours, patterns and words, and refers to nothing outside."""
    text = chart.document(
        FITS, Style(language), "A <model>", 'It "fits" & more', "https://example.org/?a=1&b=2"
    )
    tree = ElementTree.fromstring(text)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(re.findall(r'id="([^"]+)"', text))
    assert "var(" not in text
    assert "https://example.org/?a=1&amp;b=2" in text
