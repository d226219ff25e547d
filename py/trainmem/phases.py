"""The phases of a training step: what one GPU holds at the highest point of each, amount by amount.

Every phase is a dict from a row's key to bytes, so a total is a sum and rows are made only when somebody reads them. The step meant
is a steady one: optimizer states exist, gradients do not unless they are accumulated or kept. Forms: checked operation by operation
against PyTorch 2.13 and transformers 5.24 (see the accuracy page); memory inside kernels and the allocator are overhead.
"""

from trainmem import adapters, parallel
from trainmem.architectures import ARCHITECTURES, rotary_dim
from trainmem.ledger import PHASES
from trainmem.step import Amounts, Step

# The phases


def forward_end(step: Step) -> Amounts:
    """The loss has just been computed: all kept activations, the logits and their copies."""
    kept, casts = _below(step, step.model.layers)
    head = step.head
    cached = step.layers_cached
    return _present(step) | _gathered(step, "forward end") | {
        "weight_casts": max(cached, casts) + head.casts,
        "kept_by_layers": kept,
        "head_inputs": head.kept,
        "logits": head.logits,
        "log_probabilities": head.log_probabilities,
        "early_gradients": head.early,
    }  # fmt: skip


def loss_backward(step: Step) -> Amounts:
    """The gradient of the logits exists, and so do the log-probabilities."""
    kept, casts = _below(step, step.model.layers)
    head = step.head
    return _present(step) | _gathered(step, "loss backward") | {
        "weight_casts": casts + head.peak_casts,
        "kept_by_layers": kept,
        "head_inputs": min(head.kept, head.peak_kept),
        "log_probabilities": head.peak_kept - min(head.kept, head.peak_kept),
        "logit_gradients": head.working,
        "kept_outputs": _outputs(step),
        "head_gradients": head.peak_gradients,
        "early_gradients": head.early,
    }  # fmt: skip


def layers_backward(step: Step) -> Amounts:
    """The layer at which backward through the layers is highest: the last, the first, or one beside them."""
    last, order = step.model.layers - 1, step.order
    ends = {0, min(last, ARCHITECTURES[step.model.arch].sees_all), last}
    if len(step.kinds) > 1:
        ends |= {place for kind in set(order) for place in _ends(order, kind)}
    near = max(1, step.plan.period)
    candidates = {
        place for end in ends for place in range(max(0, end - near), min(last, end + near) + 1)
    }
    return max((_layer_backward(step, index) for index in sorted(candidates)), key=_total)


def _ends(order: tuple[int, ...], kind: int) -> tuple[int, int]:
    """The first and the last layer of a kind."""
    return order.index(kind), len(order) - 1 - order[::-1].index(kind)


def _layer_backward(step: Step, index: int) -> Amounts:
    kind = step.first if index == 0 else step.plan.at(index)
    kept, casts = _below(step, index)
    back = kind.back
    amounts = _present(step, index) | _gathered(step, "layers backward", index)
    return amounts | {
        "weight_casts": casts + back.casts,
        "kept_by_layers": kept,
        "layer_input": kind.input + amounts["layer_input"],
        "layer_in_backward": back.kept,
        "backward_working": back.working,
        "unpacked_weight": adapters.unpacked_bytes(step.tape.weights, step.run.base),
        "layer_gradients": back.weight_gradients,
        "head_gradients": _head_gradients(step),
        "gradients": step.gradients if step.accumulate else step.gradients_from(index + 1),
        "kept_outputs": _outputs(step),
    }


def embedding_tail(step: Step) -> Amounts:
    """All layers are done; the embedding's dense gradient is made, and added to the head's when the two share weights."""
    size, positions = _embedding_gradient(step)
    amounts = step.static | {"kept_outputs": _outputs(step)}
    if step.sharing.kind == "fsdp2":
        return max(_fsdp_tails(step, amounts, size, positions), key=_total)
    done = step.gradients_from(0)
    return amounts | {
        "layer_input": step.first.input
        if step.tape.adapter
        else 0,  # the embedding's output, still held by its hook
        "gradients": step.gradients if step.accumulate else done,
        "head_gradients": _head_gradients(step),
        "embedding_gradient": size + (0 if step.accumulate else positions),
        "backward_working": _tail_working(step, size),
    }


def _tail_working(step: Step, size: int) -> int:
    """The gradient of the embedding's output; with tied weights, the sum of the two gradients, a third tensor, after it."""
    return max(step.stream, size) if step.model.tied else step.stream


def _fsdp_tails(step: Step, amounts: Amounts, size: int, positions: int) -> tuple[Amounts, ...]:
    """FSDP2: the first layer's gradients before their reduction, the embedding's, the root's as they are sent and received."""
    layers, lowest, width = step.model.layers, step.at(0), step.forward.weights
    above = step.at(1) if layers > 1 else lowest
    done = step.gradients if step.accumulate else step.gradients_from(0)
    root = {"gathered_root": step.outside_elements * width, "head_gradients": _head_gradients(step)}
    reduce = {"reduce_buffer": lowest.trainable * step.sharing.reduce}
    before = {
        "gradients": done if step.accumulate else done - lowest.gradients,
        "gathered_layers": lowest.elements * width,
        "layer_gradients": lowest.trainable * width,
        "backward_working": step.stream,
    }
    embedding = {
        "gradients": done,
        "embedding_gradient": size + positions,
        "backward_working": _tail_working(step, size),
    }
    outside = sum(weight.elements for weight in step.outside if weight.trainable)
    sent = outside * step.sharing.reduce
    before_copy = {"gradients": done, "head_gradients": outside * width, "reduce_buffer": sent}
    received = {
        "gradients": done,
        "embedding_gradient": size,
        "reduce_buffer": sent + sent // step.sharing.ranks,
    }
    waiting = {"reduce_buffer": above.trainable * step.sharing.reduce} if layers > 1 else {}
    start = amounts | root | waiting | before
    return (
        start, amounts | root | reduce | embedding, amounts | before_copy, amounts | received,
    )  # fmt: skip


def optimizer_step(step: Step) -> Amounts:
    """All gradients, all states, and what the update makes for a moment."""
    amounts = dict(step.static)
    return amounts | {"gradients": step.gradients, "step_temporary": step.temporary}


def phases(step: Step) -> dict[str, Amounts]:
    """Every phase of the step, in order of time."""
    makers = (forward_end, loss_backward, layers_backward, embedding_tail, optimizer_step)
    return {name: make(step) for name, make in zip(PHASES, makers, strict=True)}


# What the phases share


def _total(amounts: Amounts) -> int:
    return sum(amounts.values())


def _present(step: Step, index: int | None = None) -> Amounts:
    """What is there from the forward to the end of backward through the layers, beside the layers themselves.

    `index`: the layer at which backward is; tables and masks of layers without a window end with the first of these.
    With adapters and checkpointing the embedding's output is held by its hook; learned positions are added to it in a new tensor.
    """
    run, model, width = step.run, step.model, step.forward.weights
    family = ARCHITECTURES[model.arch]
    learned = family.learned_positions
    checkpointed = run.checkpointing != "none"
    windowed = index is not None and index < family.sees_all
    masks = (
        family.embedding_dropout and model.dropout > 0 and (checkpointed or not step.tape.adapter)
    )
    return step.static | {
        "gradients": step.gradients if step.accumulate else 0,
        "position_tables": (1 if windowed else family.tables)
        * 2
        * run.seq
        * rotary_dim(model)
        * width,
        "layer_input": step.stream if learned and step.tape.adapter and checkpointed else 0,
        "embedding_dropout": step.tokens * model.hidden * masks,
        "position_ids": _position_ids(step),
        "attention_mask": _masks(step, windowed) if checkpointed else 0,
    }


def _masks(step: Step, windowed: bool) -> int:
    """Masks that checkpointed layers are handed: written-out attention has one to add, or two in families with windows.

    The fused kernels need one bit a pair, kept as a byte, where a window is no longer than the sequence. Every second layer
    from the first on, all that are checkpointed have one.
    """
    run, model = step.run, step.model
    if run.attention == "eager":
        sees_all = ARCHITECTURES[model.arch].sees_all
        alone = windowed or run.checkpointing in ("every-2", "every-4") or not sees_all
        return (1 if alone else 2) * step.tokens * run.seq * step.forward.weights
    return run.seq * run.seq if 0 < model.window <= run.seq else 0


def _position_ids(step: Step) -> int:
    """Places of the tokens, 8 bytes each: kept by learned positions that train, and by checkpointed layers.

    OPT counts them for each sequence from its mask, and its layers are handed others than its table.
    """
    family = ARCHITECTURES[step.model.arch]
    learned = family.learned_positions and not step.tape.adapter
    checkpointed = step.run.checkpointing != "none"
    if family.spare_positions:
        return 8 * step.tokens * (learned + checkpointed) + 8
    return 8 * step.run.seq * (learned or checkpointed) + 8


def _below(step: Step, index: int) -> tuple[int, int]:
    """Bytes kept, and low-precision weights held, by the layers before `index`."""
    kept, casts = step.plan.below(index)
    if not index:
        return kept, casts
    usual = step.plan.at(0)
    return kept + step.first.bytes - usual.bytes, casts + step.first.casts - usual.casts


def _outputs(step: Step) -> int:
    """Logits that the training loop still refers to during backward."""
    return step.head.outputs if step.run.keep_outputs else 0


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


def _gathered(step: Step, phase: str, index: int = -1) -> Amounts:
    """Whole weights that a sharded run gathers for a moment, and gradients on their way to their shards.

    `index`: the layer in backward; the last one where there is none.
    """
    sharing, width, layers = step.sharing, step.forward.weights, step.model.layers
    if sharing.kind == "deepspeed" and sharing.stage == 3:
        whole = step.layers_elements + step.outside_elements
        return {"gathered_layers": width * min(whole, parallel.GATHERED_BY_DEEPSPEED)}
    if sharing.kind != "fsdp2":
        return {}
    layer = width * step.at(index).elements
    amounts = {"gathered_root": width * step.outside_elements}
    if phase == "layers backward":
        below = width * sum(
            kind.elements * (step.order[: index + 1].count(k)) for k, kind in enumerate(step.kinds)
        )
        ahead = width * step.at(index - 1).elements if sharing.reshard and index else 0
        above = step.at(index + 1).trainable if index < layers - 1 else 0
        return amounts | {
            "gathered_layers": layer if sharing.reshard else below,
            "prefetched_layer": ahead,
            "reduce_buffer": above * sharing.reduce,
        }
    if sharing.reshard:
        return amounts | {"prefetched_layer": layer}
    return amounts | {
        "gathered_layers": width * step.layers_elements,
        "prefetched_layer": layer if phase == "forward end" else 0,
    }
