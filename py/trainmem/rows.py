"""What each amount of a phase is: its part, its source, and its formula with the run's numbers in it.

`phases` computes amounts by key; a Row is made from a key and an amount here, and only when somebody reads it.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem.ledger import Factors, Ledger, Row, divided, product
from trainmem.optimizers import OPTIMIZERS
from trainmem.overhead import Overhead
from trainmem.step import Step
from trainmem.weighing import Amounts


class Kind(NamedTuple):
    """Part, source and formula of one key."""

    part: str
    source: str
    formula: Callable[[Step, int], Factors]


def plain(step: Step, size: int) -> Factors:
    """No formula beyond the amount itself."""
    return product((size, "bytes"))


def per_parameter(
    count: Callable[[Step], int], shards: Callable[[Step], int]
) -> Callable[[Step, int], Factors]:
    """Bytes a parameter x parameters / GPUs."""

    def formula(step: Step, size: int) -> Factors:
        parameters, ranks = count(step), shards(step)
        if size * ranks < parameters / 2:  # not something of each parameter
            return plain(step, size)
        return divided(
            product((_even(size * ranks, parameters), "bytes"), (parameters, "parameters")),
            (ranks, "gpus"),
        )

    return formula


def _even(size: float, number: int) -> float:
    """Bytes each, without the noise of a padded last shard."""
    each = size / max(1, number)
    if each > 100 or abs(each - round(each)) < 0.002 * each:
        return round(each)
    return round(each, 2 if each >= 1 else 4)


def trainable(step: Step) -> int:
    """Parameters that train, on one tensor-parallel GPU."""
    return sum(w.elements for w in step.outside if w.trainable) + step.layers_trainable


def frozen(step: Step) -> int:
    """Parameters that do not."""
    return step.outside_elements + step.layers_elements - trainable(step)


def one(step: Step) -> int:
    """Not divided."""
    return 1


def weight_shards(step: Step) -> int:
    """GPUs that share the weights."""
    return step.sharing.shards_weights


def state_shards(step: Step) -> int:
    """GPUs that share the optimizer states."""
    return step.sharing.shards_states


def gradient_shards(step: Step) -> int:
    """GPUs that share the gradients."""
    return step.sharing.shards_gradients


def per_token(width: Callable[[Step], tuple[int, str]]) -> Callable[[Step, int], Factors]:
    """Bytes x something x tokens."""

    def formula(step: Step, size: int) -> Factors:
        number, unit = width(step)
        return product(
            (_even(size, number * step.tokens), "bytes"), (number, unit), (step.tokens, "tokens")
        )

    return formula


def by_layers(step: Step, size: int) -> Factors:
    """Layers x bytes a token x tokens, where every layer keeps the same."""
    each = step.plan.plain.bytes
    layers = size // each if each else 0
    if step.plan.period or not layers or layers * each != size:
        return product((_even(size, step.tokens), "bytes"), (step.tokens, "tokens"))
    return product((layers, "layers"), (_even(each, step.tokens), "bytes"), (step.tokens, "tokens"))


def one_layer(step: Step, size: int) -> Factors:
    """Bytes a token x tokens."""
    return product((_even(size, step.tokens), "bytes"), (step.tokens, "tokens"))


def layers_done(step: Step, size: int) -> Factors:
    """The gradients of all parameters, or of the layers that backward has left behind."""
    if size == step.gradients:
        return per_parameter(trainable, gradient_shards)(step, size)
    done, rest = divmod(size, step.layer_gradients or 1)
    if rest or not done:
        return plain(step, size)
    ranks = step.sharing.shards_gradients
    each = _even(step.layer_gradients * ranks, step.layer_trainable)
    return divided(
        product((done, "layers"), (each, "bytes"), (step.layer_trainable, "parameters")),
        (ranks, "gpus"),
    )


def vocabulary(step: Step) -> tuple[int, str]:
    """Rows of the head on this GPU."""
    return step.model.vocab, "vocabulary"


def hidden(step: Step) -> tuple[int, str]:
    """Width of the residual stream."""
    return step.model.hidden, "hidden"


def in_format(width: Callable[[Step], int]) -> Callable[[Step, int], Factors]:
    """Bytes of a format x as many parameters as the amount holds."""
    return lambda step, size: product((width(step), "bytes"), (size // width(step), "parameters"))


def gathered_width(step: Step) -> int:
    """Bytes of a weight as it is gathered and computed with."""
    return step.forward.compute


def reduced_width(step: Step) -> int:
    """Bytes of a gradient on its way to its shard."""
    return step.sharing.reduce


def gradient_width(step: Step) -> int:
    """Bytes of a gradient before it is reduced."""
    return step.forward.weights if step.sharing.kind == "fsdp2" else step.precision.gradients


def of_embedding(step: Step) -> int:
    """Parameters of the embedding."""
    return step.outside[0].elements


_STATE = per_parameter(trainable, state_shards)
_GATHERED, _REDUCED, _GRADIENT = (
    in_format(width) for width in (gathered_width, reduced_width, gradient_width)
)
_EMBEDDING = per_parameter(of_embedding, one)
_LOGITS = per_token(vocabulary)

KINDS: dict[str, Kind] = {
    "weights": Kind("parameters", "oracle", per_parameter(trainable, weight_shards)),
    "base_weights": Kind("parameters", "qlora", per_parameter(frozen, weight_shards)),
    "weight_casts": Kind("parameters", "pytorch-amp", _GATHERED),
    "gathered_root": Kind("parameters", "pytorch-fsdp2", _GATHERED),
    "gathered_layers": Kind("parameters", "pytorch-fsdp2", _GATHERED),
    "prefetched_layer": Kind("parameters", "pytorch-fsdp2", _GATHERED),
    "unpacked_weight": Kind("parameters", "bitsandbytes", plain),
    "gradients": Kind("gradients", "pytorch-autograd", layers_done),
    "layer_gradients": Kind("gradients", "pytorch-autograd", plain),
    "head_gradients": Kind("gradients", "pytorch-autograd", _GRADIENT),
    "embedding_gradient": Kind("gradients", "pytorch-autograd", _GRADIENT),
    "early_gradients": Kind("gradients", "liger", _EMBEDDING),
    "reduce_buffer": Kind("gradients", "pytorch-fsdp2", _REDUCED),
    "reduce_bucket": Kind("gradients", "deepspeed", _GRADIENT),
    "ddp_buckets": Kind("gradients", "pytorch-ddp", per_parameter(trainable, one)),
    "master": Kind("optimizer", "mixed-precision", _STATE),
    "first_moment": Kind("optimizer", "adam", _STATE),
    "second_moment": Kind("optimizer", "adam", _STATE),
    "momentum": Kind("optimizer", "sgd", _STATE),
    "sum_of_squares": Kind("optimizer", "adagrad", _STATE),
    "factored_moment": Kind("optimizer", "adafactor", plain),
    "vector_moments": Kind("optimizer", "adam", plain),
    "step_temporary": Kind("optimizer", "pytorch-optim", per_parameter(trainable, state_shards)),
    "dummy_gradients": Kind("gradients", "megatron", plain),
    "gather_buffer": Kind("activations", "megatron", one_layer),
    "pipeline_buffers": Kind("activations", "megatron", one_layer),
    "inputs": Kind("activations", "transformers-source", one_layer),
    "position_tables": Kind("activations", "transformers-source", plain),
    "position_ids": Kind("activations", "transformers-source", plain),
    "embedding_dropout": Kind("activations", "pytorch-autograd", per_token(hidden)),
    "attention_mask": Kind("activations", "transformers-source", plain),
    "kept_by_layers": Kind("activations", "oracle", by_layers),
    "layer_input": Kind("activations", "checkpointing", per_token(hidden)),
    "layer_in_backward": Kind("activations", "oracle", one_layer),
    "backward_working": Kind("activations", "pytorch-autograd", one_layer),
    "head_inputs": Kind("activations", "oracle", one_layer),
    "logits": Kind("activations", "transformers-source", _LOGITS),
    "log_probabilities": Kind("activations", "pytorch-cross-entropy", _LOGITS),
    "logit_gradients": Kind("activations", "pytorch-cross-entropy", _LOGITS),
    "kept_outputs": Kind("activations", "transformers-source", _LOGITS),
}


def ledger(step: Step, amounts: Amounts) -> Ledger:
    """The rows of one phase, in the order of KINDS; amounts of nothing are left out."""
    return Ledger(_row(step, key, amounts[key]) for key in KINDS if amounts.get(key))


def _row(step: Step, key: str, size: int) -> Row:
    kind, optimizer = KINDS[key], OPTIMIZERS[step.run.optimizer]
    source = (
        optimizer.source if key in optimizer.states and key != "vector_moments" else kind.source
    )
    return Row(kind.part, key, size, source, lambda: kind.formula(step, size))


def overhead_rows(extra: Overhead, allocated: int) -> Ledger:
    """The rows of what is no tensor."""
    each = extra.communicators[0] // extra.groups if extra.groups else 0
    slack = round(extra.slack[0] / allocated, 3)
    rows = (
        Row(
            "overhead",
            "slack",
            extra.slack[0],
            "torch-caching-allocator",
            lambda: product((slack, ""), (allocated, "bytes")),
        ),
        Row(
            "overhead",
            "workspace",
            extra.workspace,
            "cublas-workspace",
            lambda: product((extra.workspace, "bytes")),
        ),
        Row(
            "overhead",
            "context",
            extra.context[0],
            "cuda-context",
            lambda: product((extra.context[0], "bytes")),
        ),
        Row(
            "overhead",
            "communicators",
            extra.communicators[0],
            "nccl",
            lambda: product((extra.groups, "communicators"), (each, "bytes")),
        ),
    )
    return Ledger(row for row in rows if row.bytes)
