"""The colours of the style sheet: contrast as WCAG computes it, also as colour-blind readers see them."""

import itertools
import re

import pytest

pytestmark = pytest.mark.cpython  # reads the style sheet, which is no part of the package

SCHEMES = ("default", "slate")
PIGMENTS = ("parameters", "gradients", "optimizer", "activations")
PAPERS = ("paper",)
TEXTS = {
    "paper": ("ink", "ink-2", "touch", "fits", "tight", "over", "error"),
    "raised": ("ink", "ink-2", "touch"),
    "sunken": ("ink", "ink-2", "touch"),
    "touch-wash": ("ink", "ink-2", "touch"),
    "touch": ("paper",),
    "over": ("paper",),
    **{part: (f"on-{part}",) for part in PIGMENTS},
}
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


@pytest.fixture(scope="session")
def sheet(root):
    """The style sheet without comments."""
    text = (root / "docs/theme/assets/css/tm.css").read_text("utf-8")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.fixture(scope="session")
def colours(sheet):
    """{scheme: {token: linear RGB}}."""
    found = {}
    for scheme in SCHEMES:
        block = re.search(rf'\[data-md-color-scheme="{scheme}"\] {{(.*?)}}', sheet, re.DOTALL)
        tokens = re.findall(r"--tm-([a-z0-9-]+): #([0-9a-f]{6});", block.group(1))
        found[scheme] = {name: linear(code) for name, code in tokens}
    return found


def linear(code):
    """A colour as linear RGB, each from 0 to 1."""
    shares = [int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def luminance(colour, vision="normal"):
    seen = [sum(m * c for m, c in zip(row, colour, strict=True)) for row in VISION[vision]]
    red, green, blue = (min(1, max(0, share)) for share in seen)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other, vision="normal"):
    light, dark = sorted((luminance(one, vision), luminance(other, vision)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("ground", "texts"), TEXTS.items())
def test_text_reads_on_its_ground(colours, scheme, ground, texts):
    """Every text has at least 4.5 to 1 on each ground that it stands on."""
    tokens = colours[scheme]
    for text in texts:
        assert contrast(tokens[text], tokens[ground]) >= 4.5, text


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISION)
def test_each_part_stands_out_from_the_paper(colours, scheme, vision):
    """Every pigment has 3 to 1 on paper, for colour-blind readers too."""
    tokens = colours[scheme]
    for part in (*PIGMENTS, "overhead"):
        assert contrast(tokens[part], tokens["paper"], vision) >= 3, part


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISION)
def test_neighbours_in_the_bar_differ(colours, scheme, vision):
    """Parts that lie side by side differ by 3 to 1 in lightness, so the bar reads without colour."""
    tokens = colours[scheme]
    for one, other in itertools.pairwise(PIGMENTS):
        assert contrast(tokens[one], tokens[other], vision) >= 3, (one, other)
    # gradients and optimizer states may be absent: then these meet
    assert contrast(tokens["activations"], tokens["overhead"], vision) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("edge", ["field-edge", "rule-strong", "headroom"])
def test_edges_of_controls_are_seen(colours, scheme, edge):
    """Edges, ticks and the hatching of the headroom have 3 to 1 on paper."""
    tokens = colours[scheme]
    assert contrast(tokens[edge], tokens["paper"]) >= 3


def test_both_schemes_name_the_same_colours(colours):
    """A colour that one scheme has, the other has too."""
    assert colours["default"].keys() == colours["slate"].keys()


def test_pigments_colour_nothing_but_the_parts(sheet):
    """The colours of the parts are used for the parts alone."""
    for selector, body in re.findall(r"([^{}]+){([^{}]*)}", sheet):
        for part in PIGMENTS:
            if f"var(--tm-{part})" in body:
                assert part in selector, selector.strip()


def test_layout_follows_the_reading_direction(sheet):
    """No property names a side of the screen, so right-to-left pages mirror."""
    sides = r"(?:margin|padding|border|inset)-(?:left|right)\b|\b(?:left|right)\s*:|text-align: (?:left|right)"
    assert [] == re.findall(sides, sheet)


def test_file_has_the_colours_of_the_light_page(sheet, root):
    """An SVG file carries the light scheme's pigments."""
    from trainmem import chart

    light = re.search(r'\[data-md-color-scheme="default"\] {(.*?)}', sheet, re.DOTALL).group(1)
    for part in PIGMENTS:
        code = re.search(rf"--tm-{part}: (#[0-9a-f]{{6}});", light).group(1)
        assert f".tm-s--{part}{{fill:{code}}}" in chart.STYLE
