"""Precision recipes: which number format the weights, the arithmetic, the gradients and the optimizer use."""

from typing import NamedTuple

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1, "nf4": 0.5}


class Precision(NamedTuple):
    """Bytes per element, by use.

    weights: the parameters that the model holds; also the format of the residual stream.
    compute: what matrix products are done in; with `autocast` it differs from `weights`, and low-precision copies appear.
    gradients: what backward leaves in `.grad`. moments: each of the optimizer's states. master: a separate FP32 copy (0: none).
    """

    weights: int
    compute: int
    gradients: int
    moments: int
    master: int
    autocast: bool
    label: str


PRECISIONS = {
    "fp32-true": Precision(4, 4, 4, 4, 0, False, "FP32"),
    "bf16-true": Precision(2, 2, 2, 2, 0, False, "BF16"),
    "bf16-mixed": Precision(4, 2, 4, 4, 0, True, "BF16"),
    "fp16-mixed": Precision(4, 2, 4, 4, 0, True, "FP16"),
    "bf16-master": Precision(2, 2, 2, 4, 4, False, "BF16"),
}
"""torch's autocast keeps FP32 weights and casts per operation; "bf16-master" is the form of Micikevicius et al. (2018),
arXiv 1710.03740: low-precision weights and gradients, an FP32 master copy and FP32 moments (DeepSpeed, Megatron-Core)."""
