"""Amounts as text, and text as amounts.

Inside the package every amount is a plain number of bytes, tokens, parameters or seconds; this
module alone turns them into figures that people read, and reads figures that people type. The page
and the command line call the same functions, so they print the same characters.
"""

GIB = 2**30
GB = 10**9

LONGEST = 64  # characters of a figure that we are willing to read
LARGEST = 10**30  # no quantity of training comes near it

_UNITS = {"gib": (GIB, "GiB"), "gb": (GB, "GB")}
_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_COUNTS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


class TooLargeError(ValueError):
    """A figure that is well formed but beyond anything that can be meant."""


def _foreign() -> dict[int, str]:
    """Characters of Bengali, Arabic and Persian figures, and of typographic ones, as ASCII."""
    table = {zero + digit: str(digit) for zero in (0x09E6, 0x0660, 0x06F0) for digit in range(10)}
    table |= {ord(sign): "." for sign in "٫"}
    table |= {ord(sign): "," for sign in "٬،"}
    table |= {ord(sign): "-" for sign in "−‐‑"}
    table |= {ord(sign): "" for sign in "\u00a0\u2009\u202f\u200e\u200f\u2066\u2067\u2068\u2069 "}
    return table


_ASCII = _foreign()


# Amounts as text


def fixed(value: float, decimals: int) -> str:
    """A number with comma groups and exactly so many decimals: 1234.5 -> "1,234.5".

    What is not zero never reads as zero: 0.004 with two decimals is "<0.01".
    """
    smallest = 10.0**-decimals
    if value and abs(value) < smallest / 2:
        return f"<{smallest:.{decimals}f}"
    return f"{value:,.{decimals}f}".replace("-", "−")


def amount(size: float, units: str = "gib", decimals: int = 1) -> tuple[str, str]:
    """Bytes as a figure and its unit: 2**30 -> ("1.0", "GiB"). `units` is "gib" or "gb"."""
    scale, name = _UNITS[units]
    return fixed(size / scale, decimals), name


def gib(size: float, decimals: int = 1) -> str:
    """Bytes as a figure in GiB, without the unit."""
    return fixed(size / GIB, decimals)


def size_text(size: float, units: str = "gib", decimals: int = 1) -> str:
    """Bytes as plain text with the unit: "62.5 GiB"."""
    return " ".join(amount(size, units, decimals))


def integer(value: int) -> str:
    """A whole number with comma groups: 8192 -> "8,192"."""
    return f"{value:,}".replace("-", "−")


def count(value: float) -> str:
    """A large count in three significant figures: 8030261248 -> "8.03 B"."""
    for scale, letter in _COUNTS:
        scaled = value / scale
        if scaled >= 0.9995:
            decimals = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:,.{decimals}f} {letter}"
    return number(value)


def number(value: float) -> str:
    """A number with comma groups and no needless decimals: 4.0 -> "4", 0.125 -> "0.125"."""
    if value == int(value):
        return integer(int(value))
    return f"{value:,.4f}".rstrip("0").replace("-", "−")


plain = number


def factor(value: float, unit: str, units: str = "gib") -> tuple[str, str]:
    """A factor of a formula: exact while it is short, else in three figures; sizes in the reader's units."""
    if unit != "bytes" or value < 10**6:
        return (number(value) if value < 10**6 else count(value)), unit
    if value >= GIB:
        return amount(value, units, 2)
    scale, name = (1 << 20, "MiB") if units == "gib" else (10**6, "MB")
    return fixed(value / scale, 1), name


def percent(fraction: float, decimals: int = 0) -> str:
    """A share as text: 0.1 -> "10%"."""
    return f"{100 * fraction:.{decimals}f}%"


# Text as amounts


def _clean(text: str) -> str:
    """The text in ASCII, without spaces; refuses what is too long to be a figure."""
    if len(text) > LONGEST:
        raise ValueError("too long to be a number")
    return text.translate(_ASCII).strip().lower()


def _split(text: str) -> tuple[str, str]:
    """A figure and the letters after it: "1e9b" -> ("1e9", "b")."""
    end = len(text)
    while end and text[end - 1].isalpha():
        end -= 1
    return text[:end], text[end:]


def _ungroup(digits: str) -> str:
    """Digits without their separators: "2,048", "1,00,000" and "2_048" are understood."""
    if "," in digits:
        first, *groups = digits.split(",")
        if not first or len(groups[-1]) != 3 or any(len(group) not in (2, 3) for group in groups):
            raise ValueError("commas are not where a number has them")
        digits = first + "".join(groups)
    elif "_" in digits:
        if digits.startswith("_") or digits.endswith("_") or "__" in digits:
            raise ValueError("underscores are not where a number has them")
        digits = digits.replace("_", "")
    return digits


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _decimal(text: str) -> tuple[int, int]:
    """A figure as (mantissa, power of ten), exactly: "8.03" -> (803, -2)."""
    sign = -1 if text.startswith("-") else 1
    text = text[1:] if text[:1] in ("-", "+") else text
    body, has_exponent, exponent = text.partition("e")
    whole, _, fraction = body.partition(".")
    whole = _ungroup(whole)
    bare = exponent[1:] if exponent[:1] in ("-", "+") else exponent
    if not _is_digits(whole + fraction) or (has_exponent and not _is_digits(bare)):
        raise ValueError("not a number")
    power = int(exponent or "0")
    if abs(power) > 99 and int(whole + fraction):
        raise TooLargeError("too large")
    return sign * int(whole + fraction), power - len(fraction)


def _whole(mantissa: int, power: int, scale: int) -> int:
    """The product mantissa x 10**power x scale, which must be a whole number below LARGEST."""
    top = mantissa * scale
    if power >= 0:
        if top and (power > 30 or abs(top) * 10**power > LARGEST):
            raise TooLargeError("too large")
        return top * int(10**power) if top else 0
    if top % 10**-power:
        raise ValueError("not a whole number")
    return top // int(10**-power)


def _scaled(text: str, kilo: int) -> tuple[int, int, int]:
    """A figure with its letter as (mantissa, power of ten, scale)."""
    digits, letters = _split(_clean(text))
    scales = {"": 1, "k": kilo, "m": kilo * kilo, "b": 10**9, "g": 10**9, "t": 10**12}
    if letters not in scales:
        raise ValueError("not a number")
    return *_decimal(digits), scales[letters]


def parse_count(text: str, kilo: int = 1000) -> int:
    """A whole number that somebody typed: "2,048", "1e9", "8B", "8k", "২০৪৮".

    `k` and `M` stand for `kilo` and `kilo` squared. Give kilo=1024 where the quantity is a length
    in tokens, because context lengths are powers of two: an "8k" context has 8,192 tokens. `B` (or
    `G`) and `T` are always 10**9 and 10**12. Raises ValueError, or its kind TooLargeError.
    """
    return _whole(*_scaled(text, kilo))


def parse_number(text: str, kilo: int = 1000) -> float:
    """A number that may have decimals: "0.5", "1e-3", "8k", "٠٫٥"; exact where it is whole.

    `kilo` is as in parse_count. Raises ValueError, or its kind TooLargeError.
    """
    mantissa, power, scale = _scaled(text, kilo)
    if power >= 0 or mantissa * scale % 10**-power == 0:
        return _whole(mantissa, power, scale)
    return float(f"{mantissa * scale}e{power}")


def parse_fraction(text: str) -> float:
    """A share: "10%", "10" and "0.1" are all a tenth. Raises ValueError."""
    clean = _clean(text)
    is_percent = clean.endswith(("%", "٪"))
    value = parse_number(clean[:-1] if is_percent else clean)
    return value / 100 if is_percent or abs(value) >= 1 else value


def parse_bytes(text: str, unit: str = "GiB") -> int:
    """A size in bytes: "80GB" (80e9), "79.2 GiB", "24564MiB"; a bare figure is in `unit`."""
    digits, letters = _split(_clean(text))
    name = letters or unit.lower()
    scale = _BYTES.get(name) or _BYTES.get(name + "ib") or 0
    if not scale:
        raise ValueError("not a size")
    mantissa, power = _decimal(digits)
    if power >= 0:
        return _whole(mantissa, power, scale)
    return mantissa * scale // int(10**-power)
