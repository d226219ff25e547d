"""The step: one run walked once, and everything about it that every phase needs.

Weights, states and buffers are weighed here for one GPU; `phases` adds what comes and goes.
"""

from typing import NamedTuple

from trainmem import adapters, checkpointing, loss, parallel
from trainmem.architectures import ARCHITECTURES, Model, outside_weights
from trainmem.optimizers import OPTIMIZERS, Counted
from trainmem.precision import Precision
from trainmem.run import Run, model_of
from trainmem.tape import Tape
from trainmem.tensors import Adapter, Weight

Amounts = dict[str, int]


class Step(NamedTuple):
    """One run, walked once: everything that the phases are computed from. Sizes are one GPU's."""

    run: Run
    model: Model
    precision: Precision
    forward: Precision
    sharing: parallel.Sharing
    tokens: int
    accumulate: bool
    plan: checkpointing.Plan
    first: checkpointing.Stored
    head: loss.Head
    tape: Tape
    stream: int
    layer: tuple[Weight, ...]
    outside: tuple[Weight, ...]
    static: Amounts
    gradients: int
    layer_gradients: int
    layer_elements: int
    layer_trainable: int
    outside_elements: int


def walk(run: Run) -> Step:
    """Walks one layer and the head of a run's model and weighs its weights and states."""
    model = parallel.divided(model_of(run), run.tp)
    kind = parallel.kind_of(run.sharding, run.zero, run.gpus, run.tp)
    stored, seen = parallel.recipe(run.precision, kind, run.fsdp_param)
    shared = parallel.sharing(
        kind, run.zero, run.gpus // run.tp, run.precision, run.fsdp_reduce, run.bucket
    )
    if run.lora_rank:
        stored, seen = (adapters.seen_by_forward(p, run.base) for p in (stored, seen))
    adapter = adapters.adapter(
        run.lora_rank, run.lora_targets, run.lora_dtype, run.lora_dropout, stored
    )
    accumulate = run.grad_accum > 1 or run.gradients == "kept"
    in_replay = accumulate and shared.shards_gradients == 1
    tokens = run.micro_batch * run.seq
    tape, plan = _layer(run, model, seen, adapter, in_replay, reached=True)
    first = plan.at(0)
    if (
        adapter and run.checkpointing == "none"
    ):  # the embedding is frozen: nothing before the first adapter needs a gradient
        first = _layer(run, model, seen, adapter, in_replay, reached=False)[1].plain
    trains = adapter is None
    head = loss.head(model, seen, tokens, run.loss, trains, in_replay)
    layer = tuple(
        weight._replace(width=stored.weights) if weight.trainable and trains else weight
        for weight in tape.weights
    )
    outside = tuple(outside_weights(model, stored.weights, trains))
    static, gradients = _static(run, model, stored, shared, layer, outside)
    return Step(
        run, model, stored, seen, shared, tokens, accumulate, plan, first, head, tape, tokens * model.hidden * seen.weights,
        layer, outside, static, gradients, _gradient_bytes(layer, shared), _elements(layer),
        sum(weight.elements for weight in layer if weight.trainable), _elements(outside),
    )  # fmt: skip


def _layer(
    run: Run,
    model: Model,
    precision: Precision,
    adapter: Adapter | None,
    accumulate: bool,
    reached: bool,
) -> tuple[Tape, checkpointing.Plan]:
    tape = Tape(precision, run.micro_batch * run.seq, run.seq, run.attention, adapter)
    x = tape.new(model.hidden, grad=reached)
    output = ARCHITECTURES[model.arch].layer(tape, model, x)
    return tape, checkpointing.plan(run.checkpointing, tape, x, output, accumulate)


def _elements(weights: tuple[Weight, ...]) -> int:
    return sum(weight.elements for weight in weights)


def _gradient_bytes(weights: tuple[Weight, ...], shared: parallel.Sharing) -> int:
    """Bytes of the finished gradients of some weights on one GPU."""
    ranks = shared.shards_gradients
    return sum(
        parallel.share(weight, ranks) * weight.width for weight in weights if weight.trainable
    )


def _static(
    run: Run,
    model: Model,
    precision: Precision,
    shared: parallel.Sharing,
    layer: tuple[Weight, ...],
    outside: tuple[Weight, ...],
) -> tuple[Amounts, int]:
    """What is there in every phase: weights, states, buffers; and the bytes of all gradients."""
    counted = in_model_order(layer, outside, model.layers)
    amounts: Amounts = {"weights": 0, "base_weights": 0}
    for weight, copies in counted:
        held = parallel.share(weight, shared.shards_weights)
        if weight.trainable:
            amounts["weights"] += copies * held * weight.width
        else:
            amounts["base_weights"] += copies * adapters.frozen_bytes(weight, held, run.base)
    states = _states(run, precision, shared, counted)
    amounts |= states if run.offload == "none" else {}
    amounts["inputs"] = 16 * run.micro_batch * run.seq
    gradients = model.layers * _gradient_bytes(layer, shared) + _gradient_bytes(outside, shared)
    if shared.kind == "ddp":
        amounts["ddp_buckets"] = gradients
    if shared.kind == "deepspeed":
        elements = min(shared.bucket, sum(c * w.elements for w, c in counted if w.trainable))
        amounts["reduce_bucket"] = elements * precision.gradients
    return amounts, gradients


def in_model_order(
    layer: tuple[Weight, ...], outside: tuple[Weight, ...], layers: int, first: tuple[str, ...] = ()
) -> list[Counted]:
    """Every parameter tensor as the model lists them: embeddings, each layer with its norms last unless `first` names them, the rest."""
    named = [(w, layers) for name in first for w in layer if w.name.removesuffix(".bias") == name]
    others = [(w, layers) for w in layer if w.name.removesuffix(".bias") not in first]
    products = [pair for pair in others if pair[0].matmul]
    norms = [pair for pair in others if not pair[0].matmul]
    embeddings = [(w, 1) for w in outside if w.name in ("embed_tokens", "positions")]
    rest = [(w, 1) for w in outside if w.name not in ("embed_tokens", "positions")]
    return [*embeddings, *named, *products, *norms, *rest]


def local_states(
    precision: Precision, shared: parallel.Sharing, counted: list[Counted]
) -> list[Counted]:
    """The trainable tensors as one GPU's optimizer sees them: its share, in the format of the states."""
    ranks = shared.shards_states
    mine = []
    for weight, copies in counted:
        if weight.trainable:
            rows = -(-weight.rows // ranks)
            width = precision.moments if precision.master else weight.width
            mine.append((weight._replace(rows=rows, width=width), copies))
    return mine


def _states(
    run: Run, precision: Precision, shared: parallel.Sharing, counted: list[Counted]
) -> Amounts:
    """Optimizer states and the master copy."""
    mine = local_states(precision, shared, counted)
    optimizer = OPTIMIZERS[run.optimizer]
    amounts = {
        key: sum(copies * size(weight, weight.width) for weight, copies in mine)
        for key, size in optimizer.states.items()
    }
    if precision.master:
        amounts["master"] = sum(
            copies * weight.elements * precision.master for weight, copies in mine
        )
    return amounts


def step_temporary(step: Step) -> int:
    """What the optimizer makes for a moment. With a master copy the gradients are cast to FP32 first.

    DeepSpeed takes its own fused Adam, and in stage 3 casts one group of parameters at a time.
    """
    if step.run.offload == "optimizer":
        return 0
    first = ARCHITECTURES[step.model.arch].listed_first
    counted = in_model_order(step.layer, step.outside, step.model.layers, first)
    mine = local_states(step.precision, step.sharing, counted)
    elements = sum(copies * weight.elements for weight, copies in mine)
    if step.sharing.kind == "deepspeed":
        group = parallel.GATHERED_BY_DEEPSPEED if step.sharing.stage == 3 else elements
        own = (
            0
            if step.run.optimizer.startswith("adamw")
            else OPTIMIZERS[step.run.optimizer].step(mine)
        )
        return own + (4 * min(elements, group) if step.precision.master else 0)
    return OPTIMIZERS[step.run.optimizer].step(mine) + (
        4 * elements if step.precision.master else 0
    )
