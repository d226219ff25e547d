"""What the phases need of weights and layers, whatever the micro-batch: computed once where many sizes of one step are asked for."""

from typing import NamedTuple

from trainmem import adapters, parallel
from trainmem.architectures import ARCHITECTURES
from trainmem.step import Step
from trainmem.weighing import Amounts, padded


class Place(NamedTuple):
    """A layer at which backward may be highest: its number, what is there whatever the micro-batch, and the sum of that."""

    layer: int
    known: Amounts
    total: int


class Aside(NamedTuple):
    """What the phases need of weights and layers, whatever the micro-batch, in bytes; `outside` counts trainable parameters, `sent` with their shards padded.

    `forward`, `loss`: whole weights gathered in these phases; `last`: before backward enters the last layer. `layers`: where backward may be highest, each layer's number with its
    gathered weights and the gradients that are finished by then; `windows`: the same for layers before the first without a window.
    """

    head_gradients: int
    embedding: int
    positions: int
    outside: int
    sent: int
    unpacked: int
    forward: Amounts
    loss: Amounts
    last: Amounts
    windows: tuple[Place, ...]
    layers: tuple[Place, ...]


def aside_of(step: Step) -> Aside:
    """The same for every size of a step."""
    sees_all = ARCHITECTURES[step.model.arch].sees_all
    places, root = [], _root(step)
    for index in _candidates(step):
        known = _gathered(step, root, "layers backward", index) | {
            "gradients": _finished(step, index)
        }
        places.append(Place(index, known, sum(known.values())))
    trainable = tuple(weight for weight in step.outside if weight.trainable)
    return Aside(
        _head_gradients(step),
        *_embedding_gradient(step),
        sum(weight.elements for weight in trainable),
        padded(trainable, step.sharing.ranks),
        adapters.unpacked_bytes(step.tape.weights, step.run.base),
        _gathered(step, root, "forward end"),
        _gathered(step, root, "loss backward"),
        _last_layer(step, root),
        tuple(place for place in places if place.layer < sees_all),
        tuple(place for place in places if place.layer >= sees_all),
    )


def _candidates(step: Step) -> list[int]:
    """The layers at which backward through the layers may be highest: the ends of each kind, and those beside them."""
    last, order = step.model.layers - 1, step.order
    ends = {0, min(last, ARCHITECTURES[step.model.arch].sees_all), last}
    if len(step.kinds) > 1:
        ends |= {place for kind in set(order) for place in _ends(order, kind)}
    near = max(1, step.plan.period)
    return sorted(
        {place for end in ends for place in range(max(0, end - near), min(last, end + near) + 1)}
    )


def _ends(order: tuple[int, ...], kind: int) -> tuple[int, int]:
    """The first and the last layer of a kind."""
    return order.index(kind), len(order) - 1 - order[::-1].index(kind)


def _finished(step: Step, index: int) -> int:
    """Bytes of the gradients that exist while backward is at a layer."""
    return step.gradients if step.accumulate else step.gradients_from(index + 1)


def _head_gradients(step: Step) -> int:
    """Gradients of the head and the final norm that wait while the layers' backward runs.

    A tied head's gradient waits for the embedding's even when gradients are accumulated. FSDP2 reduces these last; DeepSpeed
    divides them at once.
    """
    width = step.forward.weights if step.sharing.kind == "fsdp2" else step.precision.gradients
    embedding = step.outside[0]
    tied = embedding.elements * width if step.model.tied and embedding.trainable else 0
    if step.accumulate and step.sharing.kind != "fsdp2":
        return tied
    ranks = 1 if step.sharing.kind == "fsdp2" else step.sharing.shards_gradients
    rest = sum(
        parallel.share(w, ranks)
        for w in step.outside
        if w.trainable and w.name not in ("embed_tokens", "positions")
    )
    return tied + rest * width


def _embedding_gradient(step: Step) -> tuple[int, int]:
    """Bytes of the dense gradients of the embedding and of learned positions."""
    width = step.forward.weights if step.sharing.kind == "fsdp2" else step.precision.gradients
    sizes = [
        w.elements * width
        for w in step.outside
        if w.trainable and w.name in ("embed_tokens", "positions")
    ]
    return (sizes[0] if sizes else 0), sum(sizes[1:])


def _root(step: Step) -> int:
    """FSDP2: bytes of the weights outside the layers, gathered."""
    if step.sharing.kind != "fsdp2":
        return 0
    return step.forward.weights * padded(step.outside, step.sharing.ranks)


def _gathered(step: Step, root: int, phase: str, index: int = -1) -> Amounts:
    """Whole weights that a sharded run gathers for a moment, and gradients on their way to their shards.

    `index`: the layer in backward; the last one where there is none.
    """
    sharing, width, layers = step.sharing, step.forward.weights, step.model.layers
    if sharing.kind == "deepspeed" and sharing.stage == 3:
        whole = step.layers_elements + step.outside_elements
        return {"gathered_layers": width * min(whole, parallel.GATHERED_BY_DEEPSPEED)}
    if sharing.kind != "fsdp2":
        return {}
    layer = step.at(index).gathered
    amounts = {"gathered_root": root}
    if phase == "layers backward":
        below = 0 if sharing.reshard else _gathered_below(step, index + 1)
        ahead = step.at(index - 1).gathered if sharing.reshard and index else 0
        above = step.at(index + 1).sent if index < layers - 1 else 0
        return amounts | {
            "gathered_layers": layer if sharing.reshard else below,
            "prefetched_layer": ahead,
            "reduce_buffer": above * sharing.reduce,
        }
    if sharing.reshard:
        return amounts | {"prefetched_layer": layer}
    return amounts | {
        "gathered_layers": sum(kind.gathered * count for kind, count in step.counts()),
        "prefetched_layer": layer if phase == "forward end" else 0,
    }


def _gathered_below(step: Step, end: int) -> int:
    """Bytes of the gathered weights of the layers before `end`."""
    order = step.order[:end]
    return sum(kind.gathered * order.count(place) for place, kind in enumerate(step.kinds))


def _last_layer(step: Step, root: int) -> Amounts:
    """FSDP2: the last layer's weights beside the buffer that brought them, or that brings the next ones; the gradients of the head.

    Shards that are kept in another format are cast before they are sent.
    """
    if step.sharing.kind != "fsdp2" or not step.sharing.reshard:
        return {}
    layer = step.at(-1).gathered
    cast = layer // step.sharing.ranks if step.precision.weights != step.forward.weights else 0
    return _gathered(step, root, "loss backward") | {
        "gathered_layers": layer,
        "prefetched_layer": layer + cast,
        "head_gradients": _head_gradients(step),
    }
