"""Architectures: one short function a family that reads like the published forward.

To add one: write a function like `llama_layer` (it records one layer on the tape and returns its output), an entry in
ARCHITECTURES below, and a reader in huggingface.py. Parameter counts, activations and FLOPs all come from that one walk.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem.tape import Tape
from trainmem.tensors import Tensor, Weight


class Model(NamedTuple):
    """The dimensions of a decoder. `positions`: the longest sequence (the size of the table where positions are learned)."""

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


class Architecture(NamedTuple):
    """A family: its layer, the norm at its end, and what stands before the first layer."""

    layer: Callable[[Tape, Model, Tensor], Tensor]
    final_norm: str = "rmsnorm"
    learned_positions: bool = False
    rotary: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
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
    q, k, v = tape.split(tape.linear(y, 3 * width, "c_attn", bias), 3)
    y = tape.attend(q, k, v, model.heads, model.kv_heads, model.attention_dropout, upcast=False)
    y = tape.dropout(tape.linear(y, model.hidden, "attn.c_proj", bias), model.dropout)
    tape.end_attention()
    x = tape.add(x, y)
    y = tape.linear(tape.layernorm(x, "ln_2"), model.ffn, "c_fc", model.mlp_bias)
    y = tape.linear(tape.gelu_written_out(y), model.hidden, "mlp.c_proj", model.mlp_bias)
    return tape.add(x, tape.dropout(y, model.dropout))


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
            Weight("positions", model.positions, model.hidden, width, trains, matmul=False)
        )
    weights.append(Weight("norm", model.hidden, 0, width, trains, matmul=False))
    if (norm or architecture.final_norm) == "layernorm":
        weights.append(Weight("norm.bias", model.hidden, 0, width, trains, matmul=False))
    if not model.tied:
        weights.append(Weight("lm_head", model.vocab, model.hidden, width, trains, matmul=False))
    return weights


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(llama_layer),
    "mistral": Architecture(llama_layer),
    "qwen2": Architecture(llama_layer, attention_bias=True),
    "qwen3": Architecture(qwen3_layer),
    "gpt2": Architecture(
        gpt2_layer, "layernorm", learned_positions=True, rotary=False, attention_bias=True, mlp_bias=True,
        dropout=0.1, attention_dropout=0.1, targets=("c_attn", "c_proj", "c_fc"),
    ),
}  # fmt: skip
