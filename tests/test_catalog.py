import statistics

import pytest

from trainmem import catalog
from trainmem.units import GIB


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("gpus", "h100", "h100-sxm-80gb"),
        ("gpus", "H100-SXM-80GB", "h100-sxm-80gb"),
        ("gpus", "a100-80gb", "a100-sxm-80gb"),
        ("gpus", "rtx3090", "rtx-3090"),
        ("models", "meta-llama/Llama-2-13b-hf", "llama-2-13b"),
        ("models", "Qwen/Qwen2.5-7B", "qwen2.5-7b"),
        ("models", "nope", None),
        ("models", "", None),
        ("models", '"]\n["x', None),
        ("models", "x" * 100_000, None),
    ],
)
def test_names_are_resolved_to_ids(kind, given, expected):
    """An entry is found by its id or by another of its names, in any case of letters."""
    assert catalog.resolve(kind, given) == expected


def test_an_entry_has_its_own_lines_only():
    """An entry ends where the next heading begins."""
    entry = catalog.entry("models", "llama-2-13b")
    assert entry["name"] == "Llama 2 13B"
    assert entry["parameters"] == 13_015_864_320
    assert entry["id"] == "llama-2-13b"


def test_an_unknown_entry_is_a_key_error():
    """Asking for an entry that is not there raises KeyError."""
    with pytest.raises(KeyError):
        catalog.entry("gpus", "h999")


def test_names_are_listed_with_their_families():
    """Each entry is listed once, under the family of its file."""
    listed = [identity for _, pairs in catalog.families("gpus") for identity, _ in pairs]
    assert len(listed) == len(set(listed)) == len(catalog.names("gpus"))
    assert ("Hopper", "h100-sxm-80gb") in [
        (family, identity) for family, pairs in catalog.families("gpus") for identity, _ in pairs
    ]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("gpus", "h10", "h100-sxm-80gb"),
        ("gpus", "rtx 4090", "rtx-4090"),
        ("models", "llama 2 13", "llama-2-13b"),
        ("models", "lama-2-7b", "llama-2-7b"),
        ("models", "qwen-3-8b", "qwen3-8b"),
    ],
)
def test_the_nearest_name_is_offered(kind, given, expected):
    """A name that is slightly wrong leads to the one that was meant."""
    assert catalog.closest(given, [identity for identity, _ in catalog.names(kind)])[0] == expected


def test_nothing_near_means_nothing_offered():
    """A text that resembles no name gets no suggestion, and a long one takes no time."""
    choices = [identity for identity, _ in catalog.names("models")]
    assert catalog.closest("\x00\x00", choices) == ()
    assert catalog.closest("", choices) == ()
    assert catalog.closest("z" * 1_000_000, choices) == ()


def test_usable_memory_is_what_torch_reports():
    """An 80 GB card offers the middle of what PyTorch reports for it, not 80 of anything."""
    assert catalog.usable_bytes("h100-sxm-80gb") == (round(79.2 * GIB), "torch")


def test_usable_memory_is_derived_from_the_driver_where_torch_is_unknown():
    """A card seen only by the driver offers the driver's total less its generation's gap."""
    size, how = catalog.usable_bytes("rtx-4080")
    assert how == "driver"
    assert size == (16376 - catalog.GAP_MIB["Ada"]) * 2**20


def test_a_card_of_unknown_capacity_stays_unknown():
    """Where neither PyTorch nor the driver was seen, the label does not step in."""
    assert catalog.usable_bytes("gb300-288gb") == (None, "unknown")
    assert catalog.usable_bytes("tpu-v5e") == (None, "unknown")


def test_error_correction_takes_a_sixteenth_of_graphics_memory():
    """A GDDR card offers more with ECC off; a card with HBM offers the same."""
    with_ecc, without = (catalog.usable_bytes("rtx-a6000", ecc=ecc)[0] for ecc in (True, False))
    assert without - with_ecc == pytest.approx(49140 * 2**20 / 16, rel=0.01)
    assert catalog.usable_bytes("a100-sxm-80gb", ecc=False)[0] == round(79.2 * GIB)


def _gaps():
    """Driver's total less what PyTorch reports, in MiB, by generation and by vendor."""
    found = {}
    for identity, _ in catalog.names("gpus"):
        card = catalog.entry("gpus", identity)
        for end in ("", "_ecc_off"):
            driver, torch = card.get(f"driver_mib{end}"), card.get(f"torch_gib{end}")
            if driver and torch:
                for group in (card["architecture"], card["vendor"]):
                    found.setdefault(group, []).append(driver - torch * 1024)
    return found


def test_the_gaps_are_the_medians_of_the_data():
    """The constants that stand for what PyTorch cannot use are the medians of the cards' data."""
    medians = {group: round(statistics.median(gaps)) for group, gaps in _gaps().items()}
    assert medians == catalog.GAP_MIB
