"""Optimizers: what each keeps between steps, and what it makes for a moment during the step.

States and temporaries are computed from the parameter tensors, since some rules look at shapes. Implementations meant: those of
torch.optim (2.13) where they exist, bitsandbytes for 8-bit AdamW, the published reference code for Lion.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from trainmem.tensors import Weight

Counted = tuple[Weight, int]
"""A parameter tensor (this GPU's share of it) and how many of the same shape there are."""


class Optimizer(NamedTuple):
    """One optimizer: bytes of each state row for a tensor, and the highest temporary of a step for all tensors.

    `states`: row key -> function of (tensor, bytes of a state number). `step`: function of the tensors in model order.
    """

    states: Mapping[str, Callable[[Weight, int], int]]
    step: Callable[[Sequence[Counted]], int]
    source: str


def whole(weight: Weight, width: int) -> int:
    """One number a parameter."""
    return weight.elements * width


def factored(weight: Weight, width: int) -> int:
    """Adafactor: a row and a column for a matrix, one number a parameter for a vector (Shazeer and Stern, 2018)."""
    return weight.matrices * (weight.rows + weight.columns) * width


def eight_bit(weight: Weight, width: int) -> int:
    """bitsandbytes: one byte a parameter and an FP32 scale a block of 256; tensors under 4,096 stay in FP32."""
    if weight.elements < 4096:
        return 4 * weight.elements
    return weight.elements + 4 * -(-weight.elements // 256)


def matrices_only(weight: Weight, width: int) -> int:
    """torch's Muon takes what is a matrix; vectors, and stacks of experts, are left to AdamW."""
    return weight.elements * width if weight.columns and weight.matrices == 1 else 0


def left_over(weight: Weight, width: int) -> int:
    """AdamW's two moments for what Muon does not take."""
    return 2 * weight.elements * width - 2 * matrices_only(weight, width)


def nothing(weights: Sequence[Counted]) -> int:
    """A fused kernel, or an update in place: no temporary."""
    return 0


def copies(number: int) -> Callable[[Sequence[Counted]], int]:
    """torch's foreach form handles all tensors at once: so many copies of every parameter."""
    return lambda weights: (
        number * sum(count * weight.elements * weight.width for weight, count in weights)
    )


def largest(number: int) -> Callable[[Sequence[Counted]], int]:
    """A loop over tensors: so many copies of the largest one."""
    return lambda weights: (
        number * max((weight.elements * weight.width for weight, _ in weights), default=0)
    )


def neighbours(weights: Sequence[Counted]) -> int:
    """Adafactor's loop: the update of one tensor is still held while the next one's is made."""
    sizes = [weight.elements * weight.width for weight, _ in weights]
    pairs = [a + b for a, b in pairwise(sizes)]
    return max(pairs, default=max(sizes, default=0))


def orthogonalised(weights: Sequence[Counted]) -> int:
    """Muon: the Newton-Schulz iteration in BF16 on one matrix (two copies and two Gram matrices) beside its update.

    AdamW takes its turn afterwards, with a copy of all that is no matrix.
    """
    highest = others = 0
    for weight, copies in weights:
        if matrices_only(weight, 1):
            gram = min(weight.rows, weight.columns) ** 2
            highest = max(highest, weight.elements * (weight.width + 4) + 2 * 2 * gram)
        else:
            others += copies * weight.elements * weight.width
    return max(highest, others)


_MOMENTS = {"first_moment": whole, "second_moment": whole}

OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": Optimizer(_MOMENTS, copies(1), "adam"),
    "adamw-fused": Optimizer(_MOMENTS, nothing, "adam"),
    "adamw-forloop": Optimizer(_MOMENTS, largest(2), "adam"),
    "adamw-8bit": Optimizer(
        {"first_moment": eight_bit, "second_moment": eight_bit}, nothing, "eight-bit-optimizers"
    ),
    "sgd": Optimizer({}, nothing, "sgd"),
    "sgd-momentum": Optimizer({"momentum": whole}, nothing, "sgd"),
    "adagrad": Optimizer({"sum_of_squares": whole}, copies(2), "adagrad"),
    "adafactor": Optimizer({"factored_moment": factored}, neighbours, "adafactor"),
    "adafactor-foreach": Optimizer({"factored_moment": factored}, copies(1), "adafactor"),
    "lion": Optimizer({"momentum": whole}, largest(2), "lion"),
    "muon": Optimizer(
        {"momentum": matrices_only, "vector_moments": left_over}, orthogonalised, "muon"
    ),
}
