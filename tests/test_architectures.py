"""Layers against the published closed forms, and parameter counts against the published counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmem import catalog
from trainmem.architectures import ARCHITECTURES, Model, outside_weights, targets
from trainmem.estimate import estimate
from trainmem.precision import PRECISIONS
from trainmem.run import Run
from trainmem.tape import Tape
from trainmem.tensors import Adapter

SHAPES = st.fixed_dictionaries({
    "hidden": st.integers(1, 300), "ffn": st.integers(1, 500), "kv_heads": st.integers(1, 6),
    "group": st.integers(1, 4), "head_dim": st.integers(1, 64), "batch": st.integers(1, 3), "seq": st.integers(1, 50),
})  # fmt: skip


def model(arch, shape, **keys):
    heads = shape["kv_heads"] * shape["group"]
    family = ARCHITECTURES[arch]
    values = {
        "attention_bias": family.attention_bias, "mlp_bias": family.mlp_bias,
        "dropout": family.dropout, "attention_dropout": family.attention_dropout,
    }  # fmt: skip
    values |= family.defaults
    return Model(
        "", arch, 2, shape["hidden"], shape["ffn"], heads, shape["kv_heads"], shape["head_dim"], 100, 64, False,
        **values | keys,
    )  # fmt: skip


def layer(found, recipe, shape, attention="sdpa"):
    """One layer walked: its tape."""
    tape = Tape(PRECISIONS[recipe], shape["batch"] * shape["seq"], shape["seq"], attention)
    ARCHITECTURES[found.arch].layer(tape, found, tape.new(found.hidden))
    return tape


def sizes(found):
    """h, f, q, k, a as the forms write them."""
    return (
        found.hidden, found.ffn, found.heads * found.head_dim, found.kv_heads * found.head_dim, found.heads,
    )  # fmt: skip


@pytest.mark.parametrize("arch", ["llama", "mistral", "qwen2"])
@pytest.mark.parametrize(("recipe", "stream"), [("bf16-true", 16), ("bf16-mixed", 26)])
@given(shape=SHAPES)
def test_a_llama_layer_keeps_the_published_bytes(arch, recipe, stream, shape):
    """16h (26h under autocast) + 4q + 4k + 8f + 4a + 8 bytes a token; biases keep nothing."""
    found = model(arch, shape)
    h, f, q, k, a = sizes(found)
    kept = layer(found, recipe, shape).kept_bytes()
    assert kept - 24 == shape["batch"] * shape["seq"] * (
        stream * h + 4 * (q + k) + 8 * f + 4 * a + 8
    )


@pytest.mark.parametrize(("recipe", "stream"), [("bf16-true", 16), ("bf16-mixed", 26)])
@given(shape=SHAPES)
def test_qwen3_keeps_its_norms_of_heads_too(recipe, stream, shape):
    """Qwen3 adds 6(q + k) + 4(a + kv) bytes a token to the form of Llama."""
    found = model("qwen3", shape)
    h, f, q, k, a = sizes(found)
    llama = stream * h + 4 * (q + k) + 8 * f + 4 * a + 8
    extra = 6 * (q + k) + 4 * (a + found.kv_heads)
    kept = layer(found, recipe, shape).kept_bytes()
    assert kept - 24 == shape["batch"] * shape["seq"] * (llama + extra)


@pytest.mark.parametrize(("recipe", "stream"), [("bf16-true", 58), ("bf16-mixed", 86)])
@given(heads=st.integers(1, 6), head_dim=st.integers(1, 32), seq=st.integers(1, 40))
def test_a_gpt2_layer_keeps_the_published_bytes(recipe, stream, heads, head_dim, seq):
    """58h (86h under autocast) + 4a + 16 bytes a token, with dropout and the GELU written out."""
    hidden = heads * head_dim
    shape = {
        "hidden": hidden,
        "ffn": 4 * hidden,
        "kv_heads": heads,
        "group": 1,
        "head_dim": head_dim,
        "batch": 1,
        "seq": seq,
    }
    kept = layer(model("gpt2", shape), recipe, shape).kept_bytes()
    assert kept - 24 == seq * (stream * hidden + 4 * heads + 16)


@given(shape=SHAPES)
def test_eager_attention_keeps_a_matrix_of_scores(shape):
    """Eager attention replaces 4q + 4k + 4a by 2q + 4q (k and v, repeated) + 2q + 6as.

    The one head of a single sequence is not repeated but shown several times.
    """
    found = model("llama", shape)
    h, f, q, k, a = sizes(found)
    repeated = k if found.kv_heads == shape["batch"] == 1 else q
    kept = layer(found, "bf16-true", shape, "eager").kept_bytes()
    s = shape["seq"]
    assert kept == shape["batch"] * s * (16 * h + 4 * q + 4 * repeated + 6 * a * s + 8 * f + 8)


@pytest.mark.parametrize(
    ("preset", "bf16", "autocast"),
    [("llama-2-7b", 45.5, 55.5), ("llama-3.1-8b", 49.0, 59.0), ("llama-3.1-70b", 48.5, 58.5),
     ("llama-3.2-1b", 53.1, 63.1), ("qwen2.5-7b", 62.9, 72.9), ("qwen3-0.6b", 70.2, 80.2), ("gpt2", 58.1, 86.1)],
)  # fmt: skip
def test_bytes_a_token_in_units_of_the_hidden_size(preset, bf16, autocast):
    """The published bytes a token and layer of well-known models, which the textbook puts at 34h."""
    for recipe, expected in (("bf16-true", bf16), ("bf16-mixed", autocast)):
        report = estimate(Run(model=preset, precision=recipe, seq=1024))
        assert report.layer_saved / (1024 * report.model.hidden) == pytest.approx(
            expected, abs=0.06
        )


@given(shape=SHAPES, bias=st.booleans())
def test_a_llama_layer_has_the_weights_of_its_shape(shape, bias):
    """Two norms, four projections of attention and three of the feed-forward part, with the biases asked for."""
    found = model("llama", shape, attention_bias=bias, mlp_bias=bias)
    h, f, q, k, _ = sizes(found)
    tape = layer(found, "bf16-true", shape)
    expected = 2 * h + 2 * h * q + 2 * h * k + 3 * h * f + bias * (q + 2 * k + h + 2 * f + h)
    assert sum(weight.elements for weight in tape.weights) == expected
    tokens = shape["batch"] * shape["seq"]
    products = 2 * tokens * (2 * h * q + 2 * h * k + 3 * h * f)
    assert tape.flops == products + 4 * tokens * shape["seq"] * q


def test_qwen2_has_no_bias_on_its_output_projection():
    """Qwen2's biases stand on q, k and v alone."""
    shape = {"hidden": 8, "ffn": 5, "kv_heads": 1, "group": 2, "head_dim": 4, "batch": 1, "seq": 1}
    names = {w.name for w in layer(model("qwen2", shape), "bf16-true", shape).weights}
    assert {"q_proj.bias", "k_proj.bias", "v_proj.bias"} <= names
    assert not {"o_proj.bias", "gate_proj.bias"} & names


@pytest.mark.parametrize("preset", [name for name, _ in catalog.names("models")])
def test_parameter_counts_are_the_published_ones(preset):
    """Each preset's walk has exactly as many parameters as the model has."""
    assert (
        estimate(Run(model=preset, seq=16)).parameters
        == catalog.entry("models", preset)["parameters"]
    )


def test_well_known_counts():
    """Counts that everybody can look up."""
    known = {"llama-2-7b": 6_738_415_616, "llama-2-13b": 13_015_864_320, "llama-3.1-8b": 8_030_261_248,
             "llama-3.1-70b": 70_553_706_496, "gpt2": 124_439_808, "mistral-7b-v0.3": 7_248_023_552}  # fmt: skip
    assert {name: estimate(Run(model=name, seq=16)).parameters for name in known} == known


def test_what_stands_outside_the_layers():
    """Embedding, final norm, and a head of its own where it is not tied; learned positions and a norm's bias in GPT-2."""
    shape = {"hidden": 8, "ffn": 5, "kv_heads": 1, "group": 2, "head_dim": 4}
    untied = outside_weights(model("llama", shape), 2)
    assert sum(w.elements for w in untied) == 2 * 100 * 8 + 8
    tied = outside_weights(model("llama", shape)._replace(tied=True), 2)
    assert sum(w.elements for w in tied) == 100 * 8 + 8
    gpt2 = outside_weights(model("gpt2", shape)._replace(tied=True), 2)
    assert sum(w.elements for w in gpt2) == (100 + 64) * 8 + 2 * 8


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_adapters_may_stand_on_every_linear(arch):
    """The targets of a family are names of its linears, and all of its linears; routers and stacked experts are none."""
    shape = {"hidden": 8, "ffn": 5, "kv_heads": 2, "group": 1, "head_dim": 4, "batch": 1, "seq": 1}
    adapter, adapted = Adapter(2, frozenset({"all-linear"}), 4, 0), set()
    for q_rank in (0, 3):  # DeepSeek's queries may be compressed
        found = model(arch, shape, q_rank=q_rank)
        tape = Tape(PRECISIONS["bf16-true"], 1, 1, adapter=adapter)
        ARCHITECTURES[arch].layer(tape, found, tape.new(found.hidden))
        here = {w.name.split(".")[-2] for w in tape.weights if w.name.endswith(".lora_A")}
        assert here == set(targets(found))
        adapted |= here
    assert adapted == set(ARCHITECTURES[arch].targets)


@pytest.mark.parametrize("arch", ["olmoe", "qwen3_moe"])
@given(shape=SHAPES, experts=st.integers(2, 9), chosen=st.integers(1, 4))
def test_experts_keep_the_published_bytes(arch, shape, experts, chosen):
    """K(4h + 8f + 34) + 4E bytes a token take the place of a dense feed-forward part; 4E more name where experts begin."""
    keys = {"experts": experts, "experts_per_token": min(chosen, experts), "moe_ffn": 3}
    found = model(arch, shape, **keys)
    dense = model("qwen3", shape | {"ffn": 3})
    tokens, k = shape["batch"] * shape["seq"], keys["experts_per_token"]
    both = [layer(one, "bf16-true", shape).kept_bytes() for one in (found, dense)]
    groups = 0 if arch == "qwen3_moe" else 4 * (2 - found.heads - found.kv_heads)
    mixture = k * (4 * found.hidden + 8 * 3 + 34) + 4 * experts
    assert both[0] - both[1] == tokens * (mixture - 8 * 3 + groups) + 4 * experts
