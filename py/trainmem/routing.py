"""Mixture of experts: a router chooses experts for each token; its copies are sorted by expert, multiplied in groups, and added up.

The form is transformers' grouped product without dropping: no token is left out, and how evenly experts are chosen makes no
difference to memory. Indices are 8-byte integers.
"""

from trainmem.tape import Tape
from trainmem.tensors import Tensor, Weight


def router(
    tape: Tape, y: Tensor, experts: int, chosen: int, width: int, normalised: bool = False
) -> Tensor:
    """The share of each chosen expert in a token, in `width` bytes: softmax over all in FP32, then the largest."""
    logits = tape.cast(tape.linear(y, experts, "gate", adaptable=False), 4)
    soft = tape.new(experts, 4, logits.grad)
    tape.record("softmax", soft, (logits,), (soft,))
    return largest(tape, soft, chosen, width, normalised)


def wide_router(tape: Tape, y: Tensor, experts: int, chosen: int, scores: str) -> Tensor:
    """DeepSeek's: its weight and its product are FP32; `scores`: "softmax", or "sigmoid", whose shares are brought to one."""
    wide = tape.cast(y, 4)
    weight = Weight("gate", experts, y.elements // tape.tokens, 4, tape.trains)
    tape.weights.append(weight)
    tape.flops += 2 * y.elements * experts
    logits = tape.new(experts, 4, y.grad or tape.trains)
    kept, made = ((wide,), (weight,)) if tape.trains else ((), ())
    tape.record("linear", logits, (wide,), kept, made)
    soft = tape.new(experts, 4, logits.grad)
    tape.record(scores, soft, (logits,), (soft,))
    top = largest(tape, soft, chosen, 4, normalised=scores == "sigmoid")
    return tape.scale(top)


def largest(tape: Tape, soft: Tensor, chosen: int, width: int, normalised: bool) -> Tensor:
    """The largest shares: keeps where they stood, and what a division by their sum needs."""
    top = tape.new(chosen, 4, soft.grad)
    tape.record("topk", top, (soft,), (tape.new(chosen, 8),), temporary=soft.bytes)
    if normalised:
        shares = tape.new(chosen, 4, soft.grad)
        top = tape.record("normalise", shares, (top,), (shares, tape.new(1, 4)))
    return tape.cast(top, width)


def mixture(tape: Tape, y: Tensor, shares: Tensor, experts: int, chosen: int, ffn: int) -> Tensor:
    """What the chosen experts make of each token, each with a gated feed-forward part of width `ffn`."""
    hidden = y.elements // tape.tokens
    order, offsets = tape.new(chosen, 8), Tensor(experts, 4)
    share = tape.new(chosen, shares.width, shares.grad)
    tape.record("index", share, (shares,), (order,))
    copies = tape.new(chosen * hidden, y.width, y.grad)
    tape.record("index", copies, (y,), (tape.new(chosen, 8),), temporary=y.bytes)
    both = grouped(tape, copies, experts, 2 * ffn, chosen, "gate_up_proj", offsets)
    gate, up = tape.split(both, chosen * ffn, chosen * ffn)
    gated = tape.mul(tape.activation(gate), up)
    out = grouped(tape, gated, experts, hidden, chosen, "down_proj", offsets)
    weighed = Tensor(out.elements, max(out.width, share.width), out.grad or share.grad)
    tape.record("mul", weighed, (out, share), (out, share), temporary=weighed.bytes)
    back = Tensor(weighed.elements, weighed.width, weighed.grad)
    tape.record("index", back, (weighed,), (tape.new(chosen, 8),), temporary=weighed.bytes)
    total = tape.new(hidden, weighed.width, weighed.grad)
    tape.record("sum", total, (back,))
    return tape.cast(total, y.width)


def grouped(
    tape: Tape, x: Tensor, experts: int, out: int, chosen: int, name: str, offsets: Tensor
) -> Tensor:
    """One product for all experts on `chosen` copies of each token; keeps its input, and where each expert's rows begin."""
    rows, width = tape.tokens * chosen, tape.precision.weights
    weight = Weight(
        f"experts.{name}",
        out,
        x.elements // rows,
        width,
        tape.trains,
        matmul=False,
        matrices=experts,
    )
    tape.weights.append(weight)
    tape.flops += 2 * rows * out * weight.columns
    x = tape.cast(
        x, width
    )  # autocast leaves this product alone: both sides are in the weights' format
    output = Tensor(rows * out, width, x.grad or tape.trains)
    kept = ((x,) if tape.trains else ()) + (offsets,)
    return tape.record("grouped", output, (x,), kept, (weight,) if tape.trains else ())
