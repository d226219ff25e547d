"""Decoders whose feed-forward part is a mixture of experts: Mixtral, Qwen's and OLMoE. Attention is Llama's or near it."""

from trainmem import routing
from trainmem.architectures.dense import attention, feed_forward
from trainmem.architectures.model import Model
from trainmem.tape import Tape
from trainmem.tensors import Tensor


def mixtral_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Mixtral: Llama's attention; the shares of the experts stay in FP32 and add up to one."""
    x = attention(tape, model, x)
    y = tape.rmsnorm(x, "post_attention_layernorm")
    return tape.add(x, routed(tape, model, y, 4, normalised=True))


def olmoe_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """OLMoE: a norm over all of q and all of k."""
    x = attention(tape, model, x, norm=model.heads * model.head_dim)
    y = tape.rmsnorm(x, "post_attention_layernorm")
    return tape.add(x, routed(tape, model, y, tape.precision.compute))


def qwen2_moe_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Qwen1.5-MoE, Qwen2-MoE: biases on q, k and v; an expert for all, let through by a gate of its own."""
    x = attention(tape, model, x)
    y = tape.rmsnorm(x, "post_attention_layernorm")
    shared = feed_forward(tape, y, model.shared_experts * width(model), "shared_expert.")
    chosen = routed(tape, model, y, tape.precision.compute)
    gate = tape.sigmoid(tape.linear(y, 1, "shared_expert_gate"))
    let = tape.new(model.hidden, shared.width, shared.grad or gate.grad)
    tape.record("mul", let, (gate, shared), (gate, shared), temporary=let.bytes)
    return tape.add(x, tape.add(chosen, let))


def qwen3_moe_layer(tape: Tape, model: Model, x: Tensor) -> Tensor:
    """Qwen3-MoE: Qwen3's attention, no shared expert."""
    x = attention(tape, model, x, norm=model.head_dim)
    y = tape.rmsnorm(x, "post_attention_layernorm")
    return tape.add(x, routed(tape, model, y, tape.precision.compute))


def width(model: Model) -> int:
    """Width inside one expert."""
    return model.moe_ffn or model.ffn


def routed(tape: Tape, model: Model, y: Tensor, share: int, normalised: bool = False) -> Tensor:
    """The router and its experts; their shares have `share` bytes."""
    shares = routing.router(tape, y, model.experts, model.experts_per_token, share, normalised)
    return routing.mixture(tape, y, shares, model.experts, model.experts_per_token, width(model))
