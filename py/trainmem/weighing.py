"""What a run's weights are on one GPU: stored, their gradients and states, the buffers on the way, the optimizer's moment."""

from trainmem import adapters, parallel
from trainmem.optimizers import OPTIMIZERS, Counted
from trainmem.precision import Precision
from trainmem.run import Run
from trainmem.tensors import Weight

Amounts = dict[str, int]


def padded(weights: tuple[Weight, ...], ranks: int) -> int:
    """Elements of all shards together."""
    return ranks * sum(parallel.share(weight, ranks) for weight in weights)


def gradient_bytes(weights: tuple[Weight, ...], shared: parallel.Sharing) -> int:
    """Bytes of the finished gradients of some weights on one GPU."""
    ranks = shared.shards_gradients
    return sum(
        parallel.share(weight, ranks) * weight.width for weight in weights if weight.trainable
    )


def static(
    run: Run,
    precision: Precision,
    shared: parallel.Sharing,
    counted: list[Counted],
    mine: list[Counted],
) -> Amounts:
    """What is there in every phase: weights and states."""
    amounts: Amounts = {"weights": 0, "base_weights": 0}
    for weight, copies in counted:
        held = parallel.share(weight, shared.shards_weights)
        if weight.trainable:
            amounts["weights"] += copies * held * weight.width
        else:
            amounts["base_weights"] += copies * adapters.frozen_bytes(weight, held, run.base)
    return amounts | (_states(run, precision, mine) if run.offload == "none" else {})


def buckets(
    precision: Precision, shared: parallel.Sharing, counted: list[Counted], gradients: int
) -> Amounts:
    """Where gradients are gathered on their way between GPUs."""
    if shared.kind == "ddp":
        return {"ddp_buckets": gradients}
    if shared.kind == "deepspeed":
        elements = min(shared.bucket, sum(c * w.elements for w, c in counted if w.trainable))
        return {"reduce_bucket": elements * precision.gradients}
    return {}


def in_model_order(
    layers: list[tuple[tuple[Weight, ...], int]],
    outside: tuple[Weight, ...],
    first: tuple[str, ...] = (),
) -> list[Counted]:
    """Every parameter tensor as the model lists them: embeddings, each layer with its norms last unless `first` names them, the rest."""
    embeddings = [(w, 1) for w in outside if w.name in ("embed_tokens", "positions")]
    rest = [(w, 1) for w in outside if w.name not in ("embed_tokens", "positions")]
    listed: list[Counted] = []
    for layer, copies in layers:
        named = [w for name in first for w in layer if w.name.removesuffix(".bias") == name]
        others = [w for w in layer if w.name.removesuffix(".bias") not in first]
        products = [w for w in others if w.matmul]
        norms = [w for w in others if not w.matmul]
        listed += [(w, copies) for w in (*named, *products, *norms)]
    return [*embeddings, *listed, *rest]


def local_states(
    precision: Precision, shared: parallel.Sharing, counted: list[Counted]
) -> list[Counted]:
    """The trainable tensors as one GPU's optimizer sees them: its share, in the format of the states."""
    ranks = shared.shards_states
    mine = []
    for weight, copies in counted:
        if weight.trainable:
            width = precision.moments if precision.master else weight.width
            mine.append((weight.piece(ranks, width), copies))
    return mine


def _states(run: Run, precision: Precision, mine: list[Counted]) -> Amounts:
    """Optimizer states and the master copy."""
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


def step_temporary(
    run: Run, precision: Precision, shared: parallel.Sharing, mine: list[Counted]
) -> int:
    """What the optimizer makes for a moment. With a master copy the gradients are cast to FP32 first.

    DeepSpeed takes its own fused Adam, and in stage 3 casts one group of parameters at a time.
    """
    if run.offload == "optimizer":
        return 0
    elements = sum(copies * weight.elements for weight, copies in mine)
    optimizer = OPTIMIZERS[run.optimizer]
    if shared.kind == "deepspeed":
        group = parallel.GATHERED_BY_DEEPSPEED if shared.stage == 3 else elements
        own = 0 if run.optimizer.startswith("adamw") else optimizer.step(mine)
        return own + (4 * min(elements, group) if precision.master else 0)
    return optimizer.step(mine) + (4 * elements if precision.master else 0)
