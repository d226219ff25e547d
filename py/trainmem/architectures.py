"""Architectures: one short function a family that reads like the published forward.

To add one: write a function like `llama_layer` (it records one layer on the tape and returns its output), an entry in
ARCHITECTURES below, and a reader in huggingface.py. Parameter counts, activations and FLOPs all come from that one walk.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem.tape import Tape
from trainmem.tensors import Tensor, Weight


class Model(NamedTuple):
    """The dimensions of a decoder. `positions`: the longest sequence (the size of the table where positions are learned).

    0 stands for what a model does not have: `window` (tokens that a windowed layer sees), `rotary_dim` (numbers of a head that
    are rotated, where it is not the family's share), experts, and the ranks of latent attention. `moe_ffn`: width of an expert;
    `dense_layers`: how many layers at the beginning have no experts; `value_dim`: width of a head's value where it is not its key's.
    """

    name: str
    arch: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int
    tied: bool
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    window: int = 0
    rotary_dim: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    value_dim: int = 0


class Architecture(NamedTuple):
    """A family: its layer, the norm at its end, and what stands before the first layer.

    `learned_positions`: whether there is a weight for each position, and `spare_positions` for how many more; `rotary`: the share
    of a head that is rotated; `embedding_dropout`: whether the dropout stands behind the embedding too; `listed_first`: the tensors
    that a layer lists before those in the order of its forward (a loop over tensors meets neighbours).
    """

    layer: Callable[[Tape, Model, Tensor], Tensor]
    final_norm: str = "rmsnorm"
    learned_positions: bool = False
    spare_positions: int = 0
    rotary: float = 1.0
    head_bias: bool = False
    embedding_dropout: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    listed_first: tuple[str, ...] = ()
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )


def llama_layer(tape: Tape, model: Model, x: Tensor, qk_norm: bool = False) -> Tensor:
    """Llama, Mistral, Qwen2 (which adds biases to q, k and v) and, with `qk_norm`, Qwen3."""
    wide, narrow, bias = (
        model.heads * model.head_dim,
        model.kv_heads * model.head_dim,
        model.attention_bias,
    )
    y = tape.rmsnorm(x, "input_layernorm")
    tape.begin_attention()
    q = tape.linear(y, wide, "q_proj", bias)
    if qk_norm:
        q = tape.rmsnorm(q, "q_norm", model.head_dim)
    k = tape.linear(y, narrow, "k_proj", bias)
    if qk_norm:
        k = tape.rmsnorm(k, "k_norm", model.head_dim)
    v = tape.linear(y, narrow, "v_proj", bias)
    q, k = tape.rope(q, x), tape.rope(k, x)
    attended = tape.attend(q, k, v, model.heads, model.kv_heads, model.attention_dropout)
    attended = tape.linear(attended, model.hidden, "o_proj", bias and model.arch == "llama")
    tape.end_attention()
    x = tape.add(x, attended)
    y = tape.rmsnorm(x, "post_attention_layernorm")
    gate = tape.activation(tape.linear(y, model.ffn, "gate_proj", model.mlp_bias))
    gated = tape.mul(gate, tape.linear(y, model.ffn, "up_proj", model.mlp_bias))
    return tape.add(x, tape.linear(gated, model.hidden, "down_proj", model.mlp_bias))


def qwen3_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Qwen3: Llama with a norm on each head of q and k."""
    return llama_layer(tape, model, x, qk_norm=True)


def gpt2_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """GPT-2: LayerNorm, one fused q, k, v projection, GELU written out, dropout on both branches."""
    width, bias = model.heads * model.head_dim, model.attention_bias
    y = tape.layernorm(x, "ln_1")
    tape.begin_attention()
    q, k, v = tape.split(tape.linear(y, 3 * width, "c_attn", bias), width, width, width)
    y = tape.attend(q, k, v, model.heads, model.kv_heads, model.attention_dropout, upcast=False)
    y = tape.dropout(tape.linear(y, model.hidden, "attn.c_proj", bias), model.dropout)
    tape.end_attention()
    x = tape.add(x, y)
    y = tape.linear(tape.layernorm(x, "ln_2"), model.ffn, "c_fc", model.mlp_bias)
    y = tape.linear(tape.gelu_written_out(y), model.hidden, "mlp.c_proj", model.mlp_bias)
    return tape.add(x, tape.dropout(y, model.dropout))


def gpt_neox_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """GPT-NeoX: attention and feed-forward part side by side, one fused q, k, v projection, a quarter of each head rotated."""
    width = model.heads * model.head_dim
    y = tape.layernorm(x, "input_layernorm")
    tape.begin_attention()
    qkv = tape.linear(y, 3 * width, "query_key_value", model.attention_bias)
    q, k, v = tape.split(qkv, width, width, width)
    q, k = tape.rope_joined(q, x), tape.rope_joined(k, x)
    y = tape.attend(q, k, v, model.heads, model.heads, model.attention_dropout, joined=True)
    y = tape.linear(y, model.hidden, "dense", model.attention_bias)
    tape.end_attention()
    y = tape.dropout(y, model.dropout)
    z = tape.linear(tape.layernorm(x, "post_attention_layernorm"), model.ffn, "dense_h_to_4h", True)
    z = tape.linear(tape.activation(z), model.hidden, "dense_4h_to_h", True)
    return tape.add(tape.add(tape.dropout(z, model.dropout), y), x)


def opt_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """OPT: separate projections, the query scaled beforehand, ReLU, dropout on both branches."""
    bias = model.attention_bias
    y = tape.layernorm(x, "self_attn_layer_norm")
    tape.begin_attention()
    q = tape.scale(tape.linear(y, model.hidden, "q_proj", bias))
    k, v = (tape.linear(y, model.hidden, name, bias) for name in ("k_proj", "v_proj"))
    y = tape.attend(q, k, v, model.heads, model.heads, model.attention_dropout)
    y = tape.linear(y, model.hidden, "out_proj", bias)
    tape.end_attention()
    x = tape.add(x, tape.dropout(y, model.dropout))
    y = tape.linear(tape.layernorm(x, "final_layer_norm"), model.ffn, "fc1", model.mlp_bias)
    y = tape.linear(tape.relu(y), model.hidden, "fc2", model.mlp_bias)
    return tape.add(x, tape.dropout(y, model.dropout))


def phi_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Phi-1 to Phi-2: one norm before both branches, which stand side by side; part of each head rotated; GELU written out."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    normal = tape.layernorm(x, "input_layernorm")
    tape.begin_attention()
    q = tape.linear(normal, wide, "q_proj", True)
    k, v = (tape.linear(normal, narrow, name, True) for name in ("k_proj", "v_proj"))
    q, k = tape.rope_joined(q, x), tape.rope_joined(k, x)
    y = tape.attend(q, k, v, model.heads, model.kv_heads, model.attention_dropout, joined=True)
    y = tape.linear(y, model.hidden, "dense", True)
    tape.end_attention()
    y = tape.dropout(y, model.dropout)
    z = tape.gelu_written_out(tape.linear(normal, model.ffn, "fc1", True))
    z = tape.dropout(tape.linear(z, model.hidden, "fc2", True), model.dropout)
    return tape.add(tape.add(y, z), x)


def phi3_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Phi-3, Phi-4: Llama with fused projections, whose parts are views."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    y = tape.rmsnorm(x, "input_layernorm")
    tape.begin_attention()
    qkv = tape.linear(y, wide + 2 * narrow, "qkv_proj", False)
    q, k, v = (tape.part(qkv, width) for width in (wide, narrow, narrow))
    q, k = tape.rope_joined(q, x), tape.rope_joined(k, x)
    y = tape.attend(q, k, v, model.heads, model.kv_heads, model.attention_dropout, joined=True)
    y = tape.linear(y, model.hidden, "o_proj")
    tape.end_attention()
    x = tape.add(x, tape.dropout(y, model.dropout))
    y = tape.linear(tape.rmsnorm(x, "post_attention_layernorm"), 2 * model.ffn, "gate_up_proj")
    gate, up = tape.split(y, model.ffn, model.ffn)
    y = tape.linear(tape.mul(up, tape.activation(gate)), model.hidden, "down_proj")
    return tape.add(x, tape.dropout(y, model.dropout))


def rotary_dim(model: Model) -> int:
    """Numbers of a head that are rotated."""
    return model.rotary_dim or int(model.head_dim * ARCHITECTURES[model.arch].rotary)


def outside_weights(
    model: Model, width: int, trains: bool = True, positions: bool | None = None, norm: str = ""
) -> list[Weight]:
    """The parameters in no layer, in the order in which the model lists them; the head is the embedding when tied.

    `positions` and `norm`, where given, stand for the family's own.
    """
    architecture = ARCHITECTURES[model.arch]
    learned = architecture.learned_positions if positions is None else positions
    weights = [Weight("embed_tokens", model.vocab, model.hidden, width, trains, matmul=False)]
    if learned:
        weights.append(
            Weight(
                "positions",
                model.positions + architecture.spare_positions,
                model.hidden,
                width,
                trains,
                matmul=False,
            )
        )
    weights.append(Weight("norm", model.hidden, 0, width, trains, matmul=False))
    if (norm or architecture.final_norm) == "layernorm":
        weights.append(Weight("norm.bias", model.hidden, 0, width, trains, matmul=False))
    if not model.tied:
        weights.append(Weight("lm_head", model.vocab, model.hidden, width, trains, matmul=False))
    if architecture.head_bias:
        weights.append(Weight("lm_head.bias", model.vocab, 0, width, trains, matmul=False))
    return weights


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(llama_layer),
    "mistral": Architecture(llama_layer),
    "qwen2": Architecture(llama_layer, attention_bias=True),
    "qwen3": Architecture(qwen3_layer),
    "gpt2": Architecture(
        gpt2_layer, "layernorm", learned_positions=True, rotary=0, embedding_dropout=True, attention_bias=True,
        mlp_bias=True, dropout=0.1, attention_dropout=0.1, targets=("c_attn", "c_proj", "c_fc"),
    ),
    "gpt_neox": Architecture(
        gpt_neox_layer, "layernorm", rotary=0.25, attention_bias=True, mlp_bias=True,
        listed_first=("input_layernorm", "post_attention_layernorm"),
        targets=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
    ),
    "opt": Architecture(
        opt_layer, "layernorm", learned_positions=True, spare_positions=2, rotary=0, attention_bias=True, mlp_bias=True,
        dropout=0.1, targets=("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
    ),
    "phi": Architecture(
        phi_layer, "layernorm", rotary=0.5, head_bias=True, attention_bias=True, mlp_bias=True,
        targets=("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"),
    ),
    "phi3": Architecture(
        phi3_layer, listed_first=("o_proj",), targets=("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    ),
}  # fmt: skip
