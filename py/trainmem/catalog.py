"""What has no rule: models, graphics cards and sources, as entries of the files under data/.

An entry is a `["id"]` heading with `key = value` lines under it. Looking one up reads its few lines
alone; nothing else is read into memory as a table.
"""

from trainmem.tables import Table, files, lines, load
from trainmem.units import GIB

MIB = 2**20

# What the driver counts but PyTorch cannot allocate, in MiB: the median over the cards of a
# generation for which both figures were seen, else of its vendor. Derived; a test recomputes it
# from the data.
GAP_MIB = {
    "Volta": 276,
    "Turing": 451,
    "Ampere": 531,
    "Ada": 460,
    "Hopper": 495,
    "Blackwell": 560,
    "CDNA3": 4,
    "NVIDIA": 491,
    "AMD": 4,
}

_texts: dict[str, tuple[tuple[str, str], ...]] = {}
_entries: dict[tuple[str, str], Table] = {}


def _files(kind: str) -> tuple[tuple[str, str], ...]:
    """(path, text) of each file of a kind, read once."""
    if kind not in _texts:
        paths = ["sources.toml"] if kind == "sources" else files(kind)
        _texts[kind] = tuple((path, load(path)) for path in paths)
    return _texts[kind]


def _section(kind: str, name: str) -> str:
    """The lines under the heading `["name"]`, or "" where no file has it."""
    heading = f'\n["{name}"]\n'
    for _, text in _files(kind):
        _, found, rest = text.partition(heading)
        if found:
            return rest
    return ""


def resolve(kind: str, name: str) -> str | None:
    """The id of what somebody calls `name`: the id itself, or another name of the entry."""
    name = name.strip().lower()
    if not name or len(name) > 100 or '"' in name or "\n" in name:
        return None
    if _section(kind, name):
        return name
    quoted = f'"{name}"'
    for _, text in _files(kind):
        identity = ""
        for line in text.splitlines():
            if line.startswith('["'):
                identity = line[2:-2]
            elif line.startswith("also = ") and quoted in line.lower():
                return identity
    return None


def entry(kind: str, name: str) -> Table:
    """The table of one entry of "models", "gpus" or "sources"; raises KeyError for other names."""
    if (kind, name) not in _entries:
        identity = resolve(kind, name)
        if identity is None:
            raise KeyError(name)
        _entries[kind, name] = {"id": identity, **lines(_section(kind, identity))}
    return _entries[kind, name]


def families(kind: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """(family, ((id, name), ...)) for each file; the family is the file's first line."""
    return tuple((text.partition("\n")[0].strip("# "), _names(text)) for _, text in _files(kind))


def _names(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    identity = ""
    for line in text.splitlines():
        if line.startswith('["'):
            identity = line[2:-2]
        elif identity and line.startswith("name = "):
            found.append((identity, line[8:-1]))
            identity = ""
    return tuple(found)


def names(kind: str) -> tuple[tuple[str, str], ...]:
    """(id, name) of all entries of a kind, in the order of the files."""
    return tuple(pair for _, pairs in families(kind) for pair in pairs)


# Nearest names


def _pairs(text: str) -> set[str]:
    """Two-letter runs of a name, without what people leave out: case, spaces and hyphens."""
    bare = "".join(letter for letter in text.lower() if letter.isalnum() or letter == ".")
    return {bare[start : start + 2] for start in range(len(bare) - 1)} or {bare}


def likeness(text: str, choice: str) -> float:
    """How alike two names are, from 0 to 1.3: shared two-letter runs, and a shared start.

    A short text that a longer name contains counts as near it: "h10" is nearer to "h100-sxm-80gb"
    than to "a10".
    """
    mine, other = _pairs(text), _pairs(choice)
    shared = len(mine & other)
    start = 0
    while start < min(len(text), len(choice)) and text[start].lower() == choice[start].lower():
        start += 1
    both = 2 * shared / (len(mine) + len(other))
    return (both + shared / len(mine)) / 2 + 0.3 * start / max(len(text), 1)


def closest(text: str, choices: tuple[str, ...] | list[str], limit: int = 3) -> tuple[str, ...]:
    """The choices most like a text, best first; none where nothing resembles it."""
    text = text[:60]
    scored = [(-likeness(text, choice), place) for place, choice in enumerate(choices)]
    return tuple(choices[place] for score, place in sorted(scored)[:limit] if score < -0.3)


# What a card can hold


def _number(card: Table, key: str) -> float | None:
    found = card.get(key)
    return found if isinstance(found, (int, float)) else None


def _driver_mib(card: Table, ecc: bool) -> float | None:
    """MiB that the driver reports. GDDR keeps ECC's check bits in a sixteenth of the memory."""
    on, off = _number(card, "driver_mib"), _number(card, "driver_mib_ecc_off")
    if not ecc and off:
        return off
    return on or (off * 15 // 16 if off else None)


MODELLED_VENDORS = ("NVIDIA", "AMD")
"""Where PyTorch runs on CUDA or ROCm; other cards have other allocators, and get no verdict unless their memory is given."""


def usable_bytes(gpu: str, *, ecc: bool = True) -> tuple[int | None, str]:
    """Bytes of a card that PyTorch can allocate, and how we know: "torch", "driver", "unknown".

    "torch" is the middle of what PyTorch itself reports as total capacity. "driver" is derived: the
    driver's total less the median gap between the two on cards of that generation. The figure of
    the label is never used. `ecc` matters for cards that keep ECC's bits in GDDR memory.
    """
    card = entry("gpus", gpu)
    if card["vendor"] not in MODELLED_VENDORS:
        return None, "unknown"
    keeps_bits = "driver_mib_ecc_off" in card
    torch = _number(card, "torch_gib_ecc_off" if keeps_bits and not ecc else "torch_gib")
    if torch:
        return round(torch * GIB), "torch"
    driver = _driver_mib(card, ecc)
    gap = GAP_MIB.get(str(card["architecture"]), GAP_MIB.get(str(card["vendor"])))
    if driver is None or gap is None:
        return None, "unknown"
    return round((driver - gap) * MIB), "driver"
