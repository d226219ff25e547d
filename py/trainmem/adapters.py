"""LoRA and QLoRA: which tensors train, what the frozen base takes, what a wrapped linear keeps.

What a LoRA linear saves for backward is in tensors.Tape; this module reads the settings and weighs the frozen base.
Sources: Hu et al. (2021), Dettmers et al. (2023), and the code of PEFT 0.21 and bitsandbytes.
"""

from trainmem.precision import Precision
from trainmem.tensors import Adapter, Weight

PACKED = {"nf4": 0.5 + 4 / 64, "int8": 1.0}
"""Bytes a packed weight: NF4 with one FP32 scale a block of 64; INT8, whose FP32 scale a row is added below."""


def adapter(
    rank: int, targets: str, dtype: str, dropout: float, precision: Precision
) -> Adapter | None:
    """The adapter that the keys describe; None when every weight trains. PEFT keeps adapters in FP32 unless told otherwise."""
    if not rank:
        return None
    width = 4 if dtype == "fp32" else precision.weights
    return Adapter(rank, frozenset(targets.split(",")), width, dropout)


def seen_by_forward(precision: Precision, base: str) -> Precision:
    """A base that is stored in another format than the recipe's computes in BF16 and needs no autocast copies."""
    return (
        precision if base == "recipe" else Precision(2, 2, 2, precision.moments, 0, False, "BF16")
    )


def frozen_bytes(weight: Weight, elements: int, base: str) -> int:
    """Bytes of a frozen weight's `elements`: packed if it is a linear's inside a layer, else in the base's format."""
    if base in PACKED and weight.matmul and weight.columns:
        scales = 4 * weight.rows if base == "int8" else 0
        return int(elements * PACKED[base]) + scales * elements // weight.elements
    return elements * weight.width


def unpacked_bytes(weights: list[Weight], base: str) -> int:
    """The largest packed weight, unpacked to BF16 for one product: it exists in forward and in backward."""
    if base not in PACKED:
        return 0
    return 2 * max(
        (weight.elements for weight in weights if weight.matmul and not weight.trainable), default=0
    )
