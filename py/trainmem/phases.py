"""The phases of a training step: what one GPU holds at the highest point of each, amount by amount.

Every phase is a dict from a row's key to bytes, so a total is a sum and rows are made only when somebody reads them. The step meant
is a steady one: optimizer states exist, gradients do not unless they are accumulated or kept. Forms: checked operation by operation
against PyTorch 2.13 and transformers 5.24 (see the accuracy page); memory inside kernels and the allocator are overhead.
"""

from trainmem.architectures import ARCHITECTURES, rotary_dim
from trainmem.aside import Aside, Place, aside_of
from trainmem.ledger import PHASES
from trainmem.step import Step
from trainmem.weighing import Amounts

# The phases


def forward_end(step: Step, present: Amounts, aside: Aside) -> Amounts:
    """The loss has just been computed: all kept activations, the logits and their copies."""
    kept, casts = _below(step, step.model.layers)
    head = step.head
    cached = step.layers_cached
    return present | aside.forward | {
        "weight_casts": max(cached, casts) + head.casts,
        "kept_by_layers": kept,
        "head_inputs": head.kept,
        "logits": head.logits,
        "log_probabilities": head.log_probabilities,
        "early_gradients": head.early,
    }  # fmt: skip


def loss_backward(step: Step, present: Amounts, aside: Aside) -> Amounts:
    """The gradient of the logits exists, and so do the log-probabilities; or they are gone, and the last layer is gathered."""
    kept, casts = _below(step, step.model.layers)
    head = step.head
    here = present | {"kept_by_layers": kept, "kept_outputs": _outputs(step)}
    loss = here | aside.loss | {
        "weight_casts": casts + head.peak_casts,
        "head_inputs": min(head.kept, head.peak_kept),
        "log_probabilities": head.peak_kept - min(head.kept, head.peak_kept),
        "logit_gradients": head.working,
        "head_gradients": head.peak_gradients,
        "early_gradients": head.early,
    }  # fmt: skip
    if not aside.last:
        return loss
    return max(loss, here | aside.last | {"backward_working": step.stream}, key=_total)


def layers_backward(step: Step, present: Amounts, aside: Aside) -> Amounts:
    """The layer at which backward through the layers is highest."""
    made = [_highest_layer(step, present, aside, aside.layers)] if aside.layers else []
    if aside.windows:
        inside = _present(step, windowed=True)
        made.insert(0, _highest_layer(step, inside, aside, aside.windows))
    return max(made, key=_total)


def _highest_layer(
    step: Step, present: Amounts, aside: Aside, places: tuple[Place, ...]
) -> Amounts:
    """The highest of some layers; their heights are compared first, and the amounts of one are made."""
    place = max(places, key=lambda place: _height(step, place))
    return present | {
        "unpacked_weight": aside.unpacked,
        "head_gradients": aside.head_gradients,
        "kept_outputs": _outputs(step),
    } | _layer_backward(step, place, present["layer_input"])  # fmt: skip


def _height(step: Step, place: Place) -> int:
    """The sum of a layer's amounts, without those that are the same for every layer."""
    kind = step.first if place.layer == 0 else step.plan.at(place.layer)
    return place.total + sum(_below(step, place.layer)) + kind.input + kind.back.peak


def _layer_backward(step: Step, place: Place, held: int) -> Amounts:
    """What depends on the layer; `held`: bytes of the embedding's output where a hook keeps it."""
    kind = step.first if place.layer == 0 else step.plan.at(place.layer)
    kept, casts = _below(step, place.layer)
    back = kind.back
    return place.known | {
        "weight_casts": casts + back.casts,
        "kept_by_layers": kept,
        "layer_input": kind.input + held,
        "layer_in_backward": back.kept,
        "backward_working": back.working,
        "layer_gradients": back.weight_gradients,
    }


def embedding_tail(step: Step, aside: Aside) -> Amounts:
    """All layers are done; the embedding's dense gradient is made, and added to the head's when the two share weights."""
    size, positions = aside.embedding, aside.positions
    if step.sharing.kind == "fsdp2":
        tails = max(_fsdp_tails(step, aside), key=_total)
        return step.static | {"kept_outputs": _outputs(step)} | tails
    done = step.gradients_from(0)
    return step.static | {
        "kept_outputs": _outputs(step),
        "layer_input": step.first.input
        if step.tape.adapter
        else 0,  # the embedding's output, still held by its hook
        "gradients": step.gradients if step.accumulate else done,
        "head_gradients": aside.head_gradients,
        "embedding_gradient": size + (0 if step.accumulate else positions),
        "backward_working": _tail_working(step, size),
    }


def _tail_working(step: Step, size: int) -> int:
    """The gradient of the embedding's output; with tied weights, the sum of the two gradients, a third tensor, after it."""
    return max(step.stream, size) if step.model.tied else step.stream


def _fsdp_tails(step: Step, aside: Aside) -> tuple[Amounts, ...]:
    """FSDP2: the first layer's gradients before their reduction, the embedding's, the root's as they are sent and received."""
    layers, lowest, width = step.model.layers, step.at(0), step.forward.weights
    ranks, width_sent = step.sharing.ranks, step.sharing.reduce
    done = step.gradients if step.accumulate else step.gradients_from(0)
    size = aside.embedding
    root = {
        "gathered_root": aside.forward["gathered_root"],
        "head_gradients": aside.head_gradients,
    }
    reduce = {"reduce_buffer": lowest.sent * width_sent}
    before = {
        "gradients": done if step.accumulate else done - lowest.gradients,
        "gathered_layers": lowest.gathered,
        "layer_gradients": lowest.trainable * width,
        "backward_working": step.stream,
    }
    embedding = {
        "gradients": done,
        "embedding_gradient": size + aside.positions,
        "backward_working": _tail_working(step, size),
    }
    sent = aside.sent * width_sent
    made = aside.outside * width
    before_copy = {"gradients": done, "head_gradients": made, "reduce_buffer": sent}
    received = {
        "gradients": done,
        "embedding_gradient": size,
        "reduce_buffer": sent + sent // ranks,
    }
    waiting = {"reduce_buffer": step.at(1).sent * width_sent} if layers > 1 else {}
    return root | waiting | before, root | reduce | embedding, before_copy, received


def optimizer_step(step: Step) -> Amounts:
    """All gradients, all states, and what the update makes for a moment."""
    amounts = dict(step.static)
    return amounts | {"gradients": step.gradients, "step_temporary": step.temporary}


def phases(step: Step, aside: Aside | None = None) -> dict[str, Amounts]:
    """Every phase of the step, in order of time; `aside` where another size of the step has it already."""
    aside, present = aside or aside_of(step), _present(step)
    made = (
        forward_end(step, present, aside),
        loss_backward(step, present, aside),
        layers_backward(step, present, aside),
        embedding_tail(step, aside),
        optimizer_step(step),
    )
    return dict(zip(PHASES, made, strict=True))


# What the phases share


def _total(amounts: Amounts) -> int:
    return sum(amounts.values())


def _present(step: Step, windowed: bool = False) -> Amounts:
    """What is there from the forward to the end of backward through the layers, beside the layers themselves.

    `windowed`: backward is past the first layer without a window, with which the tables and masks of such layers end.
    With adapters and checkpointing the embedding's output is held by its hook; learned positions are added to it in a new tensor.
    """
    run, model, width = step.run, step.model, step.forward.weights
    family = ARCHITECTURES[model.arch]
    learned = family.learned_positions
    checkpointed = run.checkpointing != "none"
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
    plan = step.plan
    kept, casts = plan.below(index)
    if not index or (step.first is plan.plain and not plan.period):
        return kept, casts
    usual = plan.at(0)
    return kept + step.first.bytes - usual.bytes, casts + step.first.casts - usual.casts


def _outputs(step: Step) -> int:
    """Logits that the training loop still refers to during backward."""
    return step.head.outputs if step.run.keep_outputs else 0
