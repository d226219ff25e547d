"""Sharing a run between GPUs: what is divided, what is gathered for a moment, and in which format it travels.

Implementations: PyTorch's DistributedDataParallel and FSDP2 (`fully_shard` on every layer and on the rest, as torch 2.13 does it),
and DeepSpeed's ZeRO 1 to 3. Tensor parallelism divides heads, the feed-forward width and the vocabulary as Megatron-Core does.
"""

from typing import NamedTuple

from trainmem.architectures import Model
from trainmem.precision import BYTES, PRECISIONS, Precision
from trainmem.tensors import Weight

GATHERED_BY_DEEPSPEED = 1_000_000_000  # elements: stage3_max_live_parameters, DeepSpeed's default


class Sharing(NamedTuple):
    """How one run is shared.

    kind: "alone", "ddp", "deepspeed" or "fsdp2"; stage: 0 to 3; ranks: data-parallel GPUs. `reduce`: bytes of a gradient on its
    way; `reshard`: whether FSDP2 frees a layer's gathered weights after its forward; `bucket`: elements of DeepSpeed's buffers.
    """

    kind: str
    stage: int
    ranks: int
    reduce: int
    reshard: bool
    bucket: int

    @property
    def shards_weights(self) -> int:
        """Over how many GPUs the weights are divided."""
        return self.ranks if self.stage == 3 or self.kind == "fsdp2" else 1

    @property
    def shards_gradients(self) -> int:
        """Over how many GPUs finished gradients are divided."""
        return self.ranks if self.stage >= 2 or self.kind == "fsdp2" else 1

    @property
    def shards_states(self) -> int:
        """Over how many GPUs the optimizer states are divided."""
        return self.ranks if self.stage >= 1 else 1


def kind_of(sharding: str, zero: str, gpus: int, tp: int) -> str:
    """The implementation: transformers takes FSDP2 for stages 2 and 3, DeepSpeed for stage 1, DDP for stage 0."""
    if gpus // tp <= 1:
        return "alone"
    if zero == "0":
        return "ddp"
    if sharding == "auto":
        return "deepspeed" if zero == "1" else "fsdp2"
    return sharding


def sharing(
    run_kind: str, zero: str, ranks: int, precision: str, reduce: str, bucket: int
) -> Sharing:
    """What the keys of a link mean for a data-parallel group of `ranks` GPUs."""
    fallback = 4 if precision in ("fp32-true", "bf16-mixed", "fp16-mixed") else 2
    width = fallback if reduce == "auto" else int(BYTES[reduce])
    stage = 0 if run_kind in ("alone", "ddp") else int(zero)
    return Sharing(run_kind, stage, max(1, ranks), width, stage == 3, bucket)


def recipe(name: str, kind: str, parameter: str) -> tuple[Precision, Precision]:
    """The precision of what is stored, and the one that a layer's forward sees.

    FSDP2 stores FP32 shards and gathers them in `parameter`'s format instead of autocasting. DeepSpeed's mixed precision keeps
    low-precision weights beside an FP32 master copy.
    """
    stored = PRECISIONS[name]
    if kind == "deepspeed" and stored.autocast:
        stored = PRECISIONS["bf16-master"]._replace(label=stored.label)
    if kind != "fsdp2":
        return stored, stored
    width = stored.compute if parameter == "auto" else int(BYTES[parameter])
    label = stored.label if parameter == "auto" else parameter.upper()
    return stored._replace(autocast=False), Precision(
        width, width, width, stored.moments, 0, False, label
    )


def share(weight: Weight, ranks: int) -> int:
    """Elements of a weight on the fullest of `ranks` GPUs: FSDP2 and ZeRO cut the first dimension, the last piece is padded."""
    if ranks == 1:
        return weight.elements
    if weight.matrices == 1:  # as `piece` cuts it, without the weight itself
        return -(-weight.rows // ranks) * (weight.columns or 1)
    return weight.piece(ranks, weight.width).elements


def divided(model: Model, tp: int) -> Model:
    """The part of a model that one of `tp` tensor-parallel GPUs computes; norms and the residual stream stay whole."""
    if tp == 1:
        return model
    return model._replace(
        heads=model.heads // tp,
        kv_heads=max(1, model.kv_heads // tp),
        ffn=model.ffn // tp,
        moe_ffn=model.moe_ffn // tp,
        vocab=-(-model.vocab // tp),
    )
