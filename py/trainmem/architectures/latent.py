"""DeepSeek V2 and V3: keys and values from one narrow latent; the first layers dense, then experts, some of them for every token."""

from trainmem import routing
from trainmem.architectures.dense import feed_forward
from trainmem.architectures.model import Model
from trainmem.tape import Tape
from trainmem.tensors import Tensor


def deepseek_v2_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """DeepSeek V2: shares by softmax, not brought to one."""
    return _layer(tape, model, x, "softmax")


def deepseek_v3_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """DeepSeek V3, R1: shares by sigmoid, brought to one."""
    return _layer(tape, model, x, "sigmoid")


def _layer(tape: Tape, model: Model, x: Tensor, scores: str) -> Tensor:
    """Experts work first, then the shared ones; the router multiplies in FP32, and its weight is FP32 in every recipe."""
    x = tape.add(x, latent_attention(tape, model, x))
    y = tape.rmsnorm(x, "post_attention_layernorm")
    if not model.experts:
        return tape.add(x, feed_forward(tape, y, model.ffn))
    shares = routing.wide_router(tape, y, model.experts, model.experts_per_token, scores)
    width = model.moe_ffn or model.ffn
    z = routing.mixture(tape, y, shares, model.experts, model.experts_per_token, width)
    if model.shared_experts:
        z = tape.add(z, feed_forward(tape, y, model.shared_experts * width, "shared_experts."))
    return tape.add(x, z)


def latent_attention(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """A rotated part of each key is the same for all heads; the rest, and the values, come from the latent."""
    heads, key, rotated = model.heads, model.head_dim, model.rotary_dim
    y = tape.rmsnorm(x, "input_layernorm")
    tape.begin_attention()
    if model.q_rank:
        q = tape.rmsnorm(tape.linear(y, model.q_rank, "q_a_proj"), "q_a_layernorm")
        q = tape.linear(q, heads * key, "q_b_proj")
    else:
        q = tape.linear(y, heads * key, "q_proj")
    q_plain, q_turned = tape.split(q, heads * (key - rotated), heads * rotated)
    both = tape.linear(y, model.kv_rank + rotated, "kv_a_proj_with_mqa", model.attention_bias)
    latent, k_turned = tape.split(both, model.kv_rank, rotated)
    latent = tape.rmsnorm(latent, "kv_a_layernorm")
    q = tape.join(q_plain, tape.rope(q_turned, x), heads * key)
    value = model.value_dim or key
    wide = tape.linear(latent, heads * (key - rotated + value), "kv_b_proj")
    k_plain, v = tape.split(wide, heads * (key - rotated), heads * value)
    k = tape.join(k_plain, tape.rope(k_turned, x), heads * key)
    y = tape.attend(q, k, v, heads, heads, model.attention_dropout)
    y = tape.linear(y, model.hidden, "o_proj", model.attention_bias)
    tape.end_attention()
    return y
