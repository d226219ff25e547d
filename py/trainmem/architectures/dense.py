"""Decoders whose layers are all alike, with one feed-forward part: Llama and its kin, GPT-2, GPT-NeoX, OPT, Phi."""

from trainmem.architectures.model import Model
from trainmem.tape import Tape
from trainmem.tensors import Tensor


def llama_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Llama, Mistral, Qwen2 (which adds biases to q, k and v)."""
    return gated(tape, model, attention(tape, model, x))


def qwen3_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Qwen3: Llama with a norm on each head of q and k."""
    return gated(tape, model, attention(tape, model, x, norm=model.head_dim))


def attention(tape: Tape, model: Model, x: Tensor, norm: int = 0) -> Tensor:
    """Llama's first branch, added to its input; `norm`: over how many numbers of q and k there is a norm."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    bias = model.attention_bias
    y = tape.rmsnorm(x, "input_layernorm")
    tape.begin_attention()
    q = tape.linear(y, wide, "q_proj", bias)
    if norm:
        q = tape.rmsnorm(q, "q_norm", norm)
    k = tape.linear(y, narrow, "k_proj", bias)
    if norm:
        k = tape.rmsnorm(k, "k_norm", min(norm, narrow))
    v = tape.linear(y, narrow, "v_proj", bias)
    q, k = tape.rope(q, x), tape.rope(k, x)
    y = tape.attend(
        q, k, v, model.heads, model.kv_heads, model.attention_dropout, window=model.window
    )
    y = tape.linear(y, model.hidden, "o_proj", bias and model.arch not in ("qwen2", "qwen2_moe"))
    tape.end_attention()
    return tape.add(x, y)


def gated(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Llama's second branch, added to its input."""
    y = tape.rmsnorm(x, "post_attention_layernorm")
    gate = tape.activation(tape.linear(y, model.ffn, "gate_proj", model.mlp_bias))
    y = tape.mul(gate, tape.linear(y, model.ffn, "up_proj", model.mlp_bias))
    return tape.add(x, tape.linear(y, model.hidden, "down_proj", model.mlp_bias))


def feed_forward(tape: Tape, y: Tensor, ffn: int, prefix: str = "") -> Tensor:
    """Llama's gated feed-forward part, for every token."""
    gate = tape.activation(tape.linear(y, ffn, prefix + "gate_proj"))
    gated = tape.mul(gate, tape.linear(y, ffn, prefix + "up_proj"))
    return tape.linear(gated, y.elements // tape.tokens, prefix + "down_proj")


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
    y = tape.attend(
        q,
        k,
        v,
        model.heads,
        model.kv_heads,
        model.attention_dropout,
        joined=True,
        window=model.window,
    )
    y = tape.linear(y, model.hidden, "o_proj")
    tape.end_attention()
    x = tape.add(x, tape.dropout(y, model.dropout))
    y = tape.linear(tape.rmsnorm(x, "post_attention_layernorm"), 2 * model.ffn, "gate_up_proj")
    gate, up = tape.split(y, model.ffn, model.ffn)
    y = tape.linear(tape.mul(up, tape.activation(gate)), model.hidden, "down_proj")
    return tape.add(x, tape.dropout(y, model.dropout))
