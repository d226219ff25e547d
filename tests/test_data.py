import datetime
import re
import tomllib
from pathlib import Path

import pytest

from trainmem import catalog, tables
from trainmem.run import ARCHITECTURES

DATA = Path(tables.__file__).parent / "data"
FILES = sorted(DATA.glob("**/*.toml"))
ENTRIES = [
    (path, identity)
    for path in FILES
    if path.parent.name != "words"
    for identity in tomllib.loads(path.read_text("utf-8"))
]
MODELS = [identity for path, identity in ENTRIES if path.parent.name == "models"]
GPUS = [identity for path, identity in ENTRIES if path.parent.name == "gpus"]

MODEL_KEYS = {
    "name", "also", "arch", "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "tied",
    "positions", "window", "rotary_dim", "experts", "experts_per_token", "moe_ffn", "shared_experts", "dense_layers",
    "q_rank", "kv_rank", "value_dim", "parameters", "source", "checked", "unverified", "notes",
}  # fmt: skip
GPU_KEYS = {
    "name", "also", "vendor", "architecture", "compute_capability", "year", "marketed_gb", "driver_mib",
    "driver_mib_ecc_off", "torch_gib", "torch_gib_range", "torch_gib_ecc_off", "torch_gib_ecc_off_range",
    "memory", "bandwidth_gb_per_s", "fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops",
    "fp8_tflops", "fp4_tflops", "measured_bf16_tflops", "has_bf16", "has_fp8", "has_fp4", "link",
    "link_gb_per_s", "link_pair_gb_per_s", "link_gpus", "pcie_p2p", "pcie_generation", "pcie_lanes",
    "power_w", "source", "source_compute", "source_link", "checked", "unverified", "notes",
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_our_reader_sees_what_any_toml_reader_sees(path):
    """The fast reader and the standard one agree on each value of a file."""
    text = path.read_text("utf-8")
    standard = tomllib.loads(text)
    sections = [("", standard)] if path.parent.name == "words" else standard.items()
    for identity, table in sections:
        ours = tables.lines(text.partition(f'["{identity}"]\n')[2] if identity else text)
        dates = {k: v.isoformat() for k, v in table.items() if isinstance(v, datetime.date)}
        assert ours == table | dates


@pytest.mark.parametrize(
    ("path", "identity"), ENTRIES, ids=lambda value: getattr(value, "stem", value)
)
def test_each_entry_has_a_name_first_a_source_and_a_date(path, identity):
    """Every fact says where it was read and when; the name comes first, for cheap listing."""
    entry = tomllib.loads(path.read_text("utf-8"))[identity]
    assert next(iter(entry)) == "name"
    assert entry["checked"] >= datetime.date(2026, 11, 30)
    assert entry["source"] if path.stem != "sources" else entry["url"].startswith(("https://", ""))
    assert re.fullmatch(r"[a-z0-9.-]+", identity)
    assert set(entry.get("unverified", [])) <= set(entry)


def test_no_two_entries_share_a_name():
    """An id, or another name, leads to one entry only."""
    for kind, listed in (("models", MODELS), ("gpus", GPUS)):
        called = list(listed)
        for identity in listed:
            called += [name.lower() for name in catalog.entry(kind, identity).get("also", [])]
        assert len(called) == len(set(called))


def _count(model):
    """Parameters of a decoder in closed form."""
    h, layers, f = model["hidden"], model["layers"], model["ffn"]
    heads = model["vocab"] * h * (1 if model["tied"] else 2)
    if model["arch"] in ("gpt2", "gpt_neox", "opt"):
        block = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h
        places = {"gpt2": model["positions"], "opt": model["positions"] + 2}.get(model["arch"], 0)
        return heads + places * h + layers * block + 2 * h
    if model["arch"] == "phi":
        wide, narrow = (model[key] * model["head_dim"] for key in ("heads", "kv_heads"))
        block = 2 * h * wide + 2 * h * narrow + wide + 2 * narrow + h + 2 * h * f + f + h + 2 * h
        return heads + model["vocab"] + layers * block + 2 * h
    dense = model.get("dense_layers", 0) if "experts" in model else layers
    forward = dense * 3 * h * f + (layers - dense) * _experts(model)
    return heads + layers * (_attention(model) + 2 * h) + forward + h


def _attention(model):
    """Parameters of the first branch of a layer of Llama's kind, with the norms that a family adds."""
    h, d, arch = model["hidden"], model["head_dim"], model["arch"].removesuffix("_moe")
    wide, narrow = model["heads"] * d, model["kv_heads"] * d
    if "kv_rank" in model:
        q, kv, rotated = model.get("q_rank", 0), model["kv_rank"], model["rotary_dim"]
        query = h * q + q + q * wide if q else h * wide
        values = model["heads"] * model["value_dim"]
        up = kv * (wide - model["heads"] * rotated + values)
        return query + h * (kv + rotated) + kv + up + values * h
    extra = {"qwen2": wide + 2 * narrow, "qwen3": 2 * d, "gemma2": 2 * h, "gemma3": 2 * h + 2 * d}
    return 2 * h * wide + 2 * h * narrow + extra.get(arch, 0)


def _experts(model):
    """Parameters of a router and its experts; Qwen2's shared one has a gate."""
    one = 3 * model["hidden"] * model.get("moe_ffn", model["ffn"])
    each = model.get("experts", 0) * (one + model["hidden"])
    gate = model["hidden"] * (model["arch"] == "qwen2_moe")
    return each + model.get("shared_experts", 0) * one + gate


@pytest.mark.parametrize("identity", MODELS)
def test_each_model_has_exactly_its_parameters(identity):
    """The dimensions of a preset give its published count to the last parameter."""
    model = catalog.entry("models", identity)
    assert set(model) - {"id"} <= MODEL_KEYS
    assert _count(model) == model["parameters"]
    assert model["heads"] % model["kv_heads"] == 0
    assert model["arch"] in ARCHITECTURES


@pytest.mark.parametrize("identity", GPUS)
def test_each_card_has_plausible_figures(identity):
    """Units and orders of magnitude of a card are right, and its capacities stand in order."""
    card = catalog.entry("gpus", identity)
    assert set(card) - {"id"} <= GPU_KEYS
    assert 8 <= card["marketed_gb"] <= 512
    assert 100 <= card["bandwidth_gb_per_s"] <= 10_000
    assert 10 <= card.get("bf16_tflops", 100) <= 5_000
    assert 50 <= card.get("power_w", 100) <= 1_500
    assert 2016 <= card["year"] <= 2026
    middle = card.get("torch_gib", 1)
    low, high = card.get("torch_gib_range", (middle, middle))
    assert low <= middle <= high <= card.get("driver_mib", 2**20) / 1024
    assert card.get("driver_mib", 0) <= card.get("driver_mib_ecc_off", 2**20)
    assert card.get("driver_mib", 0) * 2**20 <= card["marketed_gb"] * 2**30 * 1.001


@pytest.mark.parametrize("identity", GPUS)
def test_lower_formats_are_not_slower(identity):
    """Peaks are dense and ordered: FP8 at least BF16, BF16 at least TF32 and FP32."""
    card = catalog.entry("gpus", identity)
    rates = [card.get(f"{name}_tflops") for name in ("fp32", "tf32", "bf16", "fp8", "fp4")]
    known = [rate for rate in rates if rate]
    assert known == sorted(known)
