"""The step: one run walked once, and everything about it that every phase needs.

Weights, states and buffers are weighed here for one GPU; `phases` adds what comes and goes.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem import adapters, checkpointing, loss, parallel, weighing
from trainmem.architectures import ARCHITECTURES, Model, kinds, outside_weights
from trainmem.optimizers import Counted
from trainmem.precision import Precision
from trainmem.run import Run, model_of
from trainmem.tape import Tape
from trainmem.tensors import Adapter, Weight
from trainmem.weighing import Amounts


class Asked(NamedTuple):
    """What the walk of a layer depends on, beside the number of sequences.

    `accumulate`: whether weight gradients are added to ones that exist. `reached`: whether anything before needs a gradient.
    """

    model: Model
    precision: Precision
    seq: int
    attention: str
    checkpointing: str
    adapter: Adapter | None
    accumulate: bool
    reached: bool = True


class Layer(NamedTuple):
    """One kind of layer: its weights as they are stored, and what they are on one GPU.

    elements, trainable: parameters; gradients: bytes of the finished ones; cached: bytes of the copies that autocast makes;
    gathered: bytes of the whole layer where it is gathered from shards (packed weights travel packed);
    sent: parameters in the reduction of its gradients. The last shard of a tensor is padded, and so are both.
    """

    weights: tuple[Weight, ...]
    elements: int
    trainable: int
    gradients: int
    cached: int
    gathered: int
    sent: int


class Step(NamedTuple):
    """One run, walked once: everything that the phases are computed from. Sizes are one GPU's.

    `tape`, `layer` and the sizes that begin with `layer_` are those of the commonest kind of layer.
    """

    run: Run
    model: Model
    precision: Precision
    forward: Precision
    sharing: parallel.Sharing
    tokens: int
    accumulate: bool
    plan: checkpointing.Plan | checkpointing.Mixed
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
    temporary: int = 0
    asked: tuple[Asked, ...] = ()
    kinds: tuple[Layer, ...] = ()
    order: tuple[int, ...] = ()

    def at(self, index: int) -> Layer:
        """The kind of one layer."""
        return self.kinds[self.order[index]]

    def counts(self, begin: int = 0) -> list[tuple[Layer, int]]:
        """Each kind, and how many layers of it there are from `begin` on."""
        if len(self.kinds) == 1:
            return [(self.kinds[0], len(self.order) - begin)]
        order = self.order[begin:]
        return [(kind, order.count(place)) for place, kind in enumerate(self.kinds)]

    @property
    def layers_elements(self) -> int:
        """Parameters of all layers."""
        if not self.kinds:
            return self.model.layers * self.layer_elements
        return sum(kind.elements * count for kind, count in self.counts())

    @property
    def layers_cached(self) -> int:
        """Bytes of the copies that autocast makes of their weights."""
        if len(self.kinds) == 1:
            return self.kinds[0].cached * len(self.order)
        return sum(kind.cached * count for kind, count in self.counts())

    def gradients_from(self, begin: int) -> int:
        """Bytes of the finished gradients of the layers from `begin` on."""
        if len(self.kinds) == 1:
            return self.kinds[0].gradients * (len(self.order) - begin)
        return sum(kind.gradients * count for kind, count in self.counts(begin))

    @property
    def layers_trainable(self) -> int:
        """Those that train."""
        if not self.kinds:
            return self.model.layers * self.layer_trainable
        return sum(kind.trainable * count for kind, count in self.counts())


Walked = tuple[Tape, checkpointing.Plan]


def walk_layer(asked: Asked, sequences: int, traced: bool = False) -> Walked:
    """Walks one layer for so many sequences."""
    tape = Tape(asked.precision, sequences * asked.seq, asked.seq, asked.attention, asked.adapter)
    tape.traced = traced
    x = tape.new(asked.model.hidden, grad=asked.reached)
    output = ARCHITECTURES[asked.model.arch].layer(tape, asked.model, x)
    return tape, checkpointing.plan(asked.checkpointing, tape, x, output, asked.accumulate)


def walk(
    run: Run,
    layer_walk: Callable[[Asked, int], Walked] = walk_layer,
    head_walk: loss.Projection = loss.projection,
) -> Step:
    """Walks each kind of layer and the head of a run's model and weighs its weights and states.

    A search hands in walks that remember what they have walked.
    """
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
    walked = seen._replace(moments=0, master=0, label="")  # no layer depends on these
    there = kinds(model, run.seq)
    asked = tuple(
        Asked(one, walked, run.seq, run.attention, run.checkpointing, adapter, in_replay)
        for one in there.models
    )
    tapes, plan, first, head, tokens = _sized(model, asked, there.order, run, layer_walk, head_walk)
    layers = tuple(_weighed(tape, stored, shared, adapter is None, run.base) for tape in tapes)
    outside = tuple(outside_weights(model, stored.weights, adapter is None))
    counted = _counted(model, layers, there.order, outside)
    mine = weighing.local_states(stored, shared, counted)
    static = weighing.static(run, stored, shared, counted, mine)
    gradients = weighing.gradient_bytes(outside, shared)
    gradients += sum(there.order.count(i) * one.gradients for i, one in enumerate(layers))
    static |= {"inputs": 16 * tokens} | weighing.buckets(stored, shared, counted, gradients)
    return Step(
        run, model, stored, seen, shared, tokens, accumulate, plan, first, head, tapes[0],
        tokens * model.hidden * seen.weights, layers[0].weights, outside, static, gradients, layers[0].gradients,
        layers[0].elements, layers[0].trainable, _elements(outside), weighing.step_temporary(run, stored, shared, mine), asked,
        layers, there.order,
    )  # fmt: skip


def resized(
    step: Step,
    run: Run,
    layer_walk: Callable[[Asked, int], Walked],
    head_walk: loss.Projection,
) -> Step:
    """The step of a run that differs from this one's in its micro-batch alone."""
    _, plan, first, head, tokens = _sized(
        step.model, step.asked, step.order, run, layer_walk, head_walk
    )
    static = step.static | {"inputs": 16 * tokens}
    stream = tokens * step.model.hidden * step.forward.weights
    return step._replace(
        run=run, tokens=tokens, plan=plan, first=first, head=head, stream=stream, static=static
    )


def _sized(
    model: Model,
    asked: tuple[Asked, ...],
    order: tuple[int, ...],
    run: Run,
    layer_walk: Callable[[Asked, int], Walked],
    head_walk: loss.Projection,
) -> tuple[
    list[Tape],
    checkpointing.Plan | checkpointing.Mixed,
    checkpointing.Stored,
    loss.Head,
    int,
]:
    """What grows with the micro-batch: the layers, the first one, the head, and the number of tokens."""
    walks = [layer_walk(one, run.micro_batch) for one in asked]
    plan = checkpointing.mixed(tuple(plan for _, plan in walks), order)
    first, lowest = plan.at(0), asked[order[0]]
    if (
        lowest.adapter and run.checkpointing == "none"
    ):  # the embedding is frozen: nothing before the first adapter needs a gradient
        first = layer_walk(lowest._replace(reached=False), run.micro_batch)[1].plain
    tokens, trains = run.micro_batch * run.seq, lowest.adapter is None
    head = loss.head(
        model, lowest.precision, tokens, run.loss, trains, lowest.accumulate, head_walk
    )
    return [tape for tape, _ in walks], plan, first, head, tokens


def _weighed(
    tape: Tape, stored: Precision, shared: parallel.Sharing, trains: bool, base: str
) -> Layer:
    """The weights of a walked layer, in the format in which they are stored; one that the family keeps wider stays so."""
    width = tape.precision.weights
    weights = tuple(
        weight.cut(weight.rows, stored.weights)
        if weight.trainable and trains and weight.width == width
        else weight
        for weight in tape.weights
    )
    trainable = sum(weight.elements for weight in weights if weight.trainable)
    gradients = weighing.gradient_bytes(weights, shared)
    ranks = shared.shards_weights
    gathered = 0
    for weight in weights:
        whole = ranks * parallel.share(weight, ranks)
        gathered += (
            whole * width
            if weight.trainable
            else adapters.frozen_bytes(weight.cut(weight.rows, width), whole, base)
        )
    sent = weighing.padded(tuple(weight for weight in weights if weight.trainable), ranks)
    return Layer(
        weights, _elements(weights), trainable, gradients, tape.cast_bytes(), gathered, sent
    )


def _elements(weights: tuple[Weight, ...]) -> int:
    return sum(weight.elements for weight in weights)


def _counted(
    model: Model, layers: tuple[Layer, ...], order: tuple[int, ...], outside: tuple[Weight, ...]
) -> list[Counted]:
    """Every parameter tensor in the model's order, the kinds of layers in the order in which they come."""
    first = ARCHITECTURES[model.arch].listed_first
    places = sorted(set(order), key=order.index)  # a model may be too short for every kind
    return weighing.in_model_order(
        [(layers[i].weights, order.count(i)) for i in places], outside, first
    )
