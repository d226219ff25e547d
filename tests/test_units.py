import time

import pytest

from trainmem import units


@pytest.mark.parametrize(
    ("size", "kind", "decimals", "expected"),
    [
        (2**30, "gib", 1, ("1.0", "GiB")),
        (10**9, "gb", 1, ("1.0", "GB")),
        (85 * 2**30, "gib", 2, ("85.00", "GiB")),
        (1234.5 * 2**30, "gib", 1, ("1,234.5", "GiB")),
        (0, "gib", 2, ("0.00", "GiB")),
        (-26 * 2**30, "gib", 1, ("−26.0", "GiB")),
    ],
)
def test_bytes_are_shown_with_unit_groups_and_decimals(size, kind, decimals, expected):
    """An amount of bytes is a figure with comma groups and fixed decimals, and its unit."""
    assert units.amount(size, kind, decimals) == expected


def test_something_never_reads_as_nothing():
    """A single byte is not shown as 0.00 GiB, but as less than the smallest figure."""
    assert units.gib(1, 2) == "<0.01"
    assert units.gib(0, 2) == "0.00"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (8_030_261_248, "8.03 B"),
        (124_439_808, "124 M"),
        (70_553_706_496, "70.6 B"),
        (405_853_388_800, "406 B"),
        (999_999, "1.00 M"),
        (999, "999"),
        (0, "0"),
    ],
)
def test_counts_have_three_significant_figures(number, expected):
    """A large count is shown short, and rounds into the next letter where it must."""
    assert units.count(number) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(4.0, "4"), (0.125, "0.125"), (8192, "8,192"), (1 << 27, "134,217,728"), (10.0, "10")],
)
def test_plain_numbers_have_no_needless_decimals(number, expected):
    """A number in a formula has comma groups, and decimals only where it has any."""
    assert units.number(number) == expected


@pytest.mark.parametrize(
    ("text", "kilo", "expected"),
    [
        ("8k", 1024, 8192),
        ("8K", 1000, 8000),
        ("128k", 1024, 131_072),
        ("1M", 1024, 1_048_576),
        ("8B", 1024, 8_000_000_000),
        ("8.03B", 1000, 8_030_000_000),
        ("1e9", 1000, 10**9),
        ("2,048", 1000, 2048),
        ("1,00,000", 1000, 100_000),
        ("2_048", 1000, 2048),
        (" 8 192 ", 1000, 8192),
        ("২০৪৮", 1000, 2048),
        ("٢٠٤٨", 1000, 2048),
        ("۲۰۴۸", 1000, 2048),
        ("٠٫٥k", 1024, 512),
        ("\u20688,192\u2069", 1000, 8192),
        ("-3", 1000, -3),
        ("1.0", 1000, 1),
    ],
)
def test_counts_are_read_as_people_write_them(text, kilo, expected):
    """Suffixes, groups, exponents and the digits of three scripts all give the same count."""
    assert units.parse_count(text, kilo) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "e", "1e", "k", "1,5", "1.5", "inf", "nan", "-", "0x10", "²", "1__0", "_1", "1_",
     ",123", "1e-5", "8kk", "8 apples", "\u202e8", "1e99", "1e999999999", "9" * 41, "9" * 100_000],
)  # fmt: skip
def test_what_is_no_count_is_refused(text):
    """Text that is no whole number, or an absurd one, raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        units.parse_count(text)


@pytest.mark.cpython
@pytest.mark.parametrize("text", ["9" * 1_000_000, "1e" + "9" * 60, "," * 1_000_001], ids=len)
def test_refusing_takes_no_time(text):
    """However long or absurd a text is, it is refused within a twentieth of a second."""
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"."):
        units.parse_count(text)
    assert time.perf_counter() - start < 0.05


def test_an_absurd_size_is_told_from_nonsense():
    """A number that is only too large has an error of its own, so that a range can be named."""
    with pytest.raises(units.TooLargeError):
        units.parse_count("1e99")


@pytest.mark.parametrize(
    ("text", "expected"), [("10%", 0.1), ("10", 0.1), ("0.1", 0.1), ("٪", None), ("12.5 %", 0.125)]
)
def test_shares_are_read_in_three_forms(text, expected):
    """A tenth may be written as 10 %, as 10 or as 0.1."""
    if expected is None:
        with pytest.raises(ValueError, match="number"):
            units.parse_fraction(text)
    else:
        assert units.parse_fraction(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80GB", 80 * 10**9),
        ("79.5 GiB", int(79.5 * 2**30)),
        ("24564MiB", 24564 * 2**20),
        ("80", 80 * 2**30),
        ("80g", 80 * 2**30),
        ("1,024 MiB", 2**30),
    ],
)
def test_sizes_are_read_with_their_units(text, expected):
    """A size is decimal or binary as its unit says, and in GiB where it has none."""
    assert units.parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "80 parsecs", "eighty", "1e99GB", "\x00", "8" * 100])
def test_what_is_no_size_is_refused(text):
    """Text that is no size raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        units.parse_bytes(text)


@pytest.mark.parametrize("number", [1, 17, 999, 8192, 10**6, 123_456_789, 2**40])
def test_shown_integers_are_read_back(number):
    """What we print as a whole number, we also read."""
    assert units.parse_count(units.integer(number)) == number
    assert units.parse_number(units.number(number)) == number
