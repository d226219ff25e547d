"""Gemma 2 and 3: norms before and after each branch, windows in most layers, soft caps in Gemma 2."""

from trainmem.architectures.model import Model
from trainmem.tape import Tape
from trainmem.tensors import Tensor


def gemma2_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Gemma 2: attention scores are capped, which no fused kernel here does, so attention is written out."""
    y = tape.gemma_norm(x, "input_layernorm")
    tape.begin_attention()
    y = _attention(tape, model, x, y, capped=True)
    tape.end_attention()
    return _feed_forward(tape, model, tape.add(x, tape.gemma_norm(y, "post_attention_layernorm")))


def gemma3_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Gemma 3: norms on the heads of q and k instead of caps."""
    y = tape.gemma_norm(x, "input_layernorm")
    tape.begin_attention()
    y = _attention(tape, model, x, y, qk_norm=True)
    tape.end_attention()
    return _feed_forward(tape, model, tape.add(x, tape.gemma_norm(y, "post_attention_layernorm")))


def _attention(
    tape: Tape, model: Model, x: Tensor, y: Tensor, capped: bool = False, qk_norm: bool = False
) -> Tensor:
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    q = tape.linear(y, wide, "q_proj", model.attention_bias)
    k = tape.linear(y, narrow, "k_proj", model.attention_bias)
    v = tape.linear(y, narrow, "v_proj", model.attention_bias)
    if qk_norm:
        q, k = (
            tape.gemma_norm(q, "q_norm", model.head_dim),
            tape.gemma_norm(k, "k_norm", model.head_dim),
        )
    q, k = tape.rope(q, x), tape.rope(k, x)
    y = tape.attend(
        q,
        k,
        v,
        model.heads,
        model.kv_heads,
        model.attention_dropout,
        capped=capped,
        window=model.window,
    )
    return tape.linear(y, model.hidden, "o_proj", model.attention_bias)


def _feed_forward(tape: Tape, model: Model, x: Tensor) -> Tensor:
    y = tape.gemma_norm(x, "pre_feedforward_layernorm")
    gate = tape.activation(tape.linear(y, model.ffn, "gate_proj"))
    y = tape.mul(gate, tape.linear(y, model.ffn, "up_proj"))
    y = tape.linear(y, model.hidden, "down_proj")
    return tape.add(x, tape.gemma_norm(y, "post_feedforward_layernorm"))
