"""Megatron-Core with Transformer Engine: its layer, its states, its buffers, and what each pipeline stage holds.

Tensor parallelism divides heads, the feed-forward width and the vocabulary; sequence parallelism divides what would stay whole
(norms, masks, the residual stream) as well; context parallelism divides the sequence. Mixed precision keeps BF16 or FP16 weights,
FP32 main gradients and an FP32 master copy; the distributed optimizer (stage 1) divides master and moments over the data-parallel
group, context parallelism included. Forms: read in the sources of Megatron-LM and Transformer Engine (August 2026) and checked
against the peak memory that Megatron's own functional tests record.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem import checkpointing, loss, parallel
from trainmem.architectures import ARCHITECTURES, Model, outside_weights
from trainmem.ledger import PHASES
from trainmem.optimizers import OPTIMIZERS, Counted
from trainmem.precision import PRECISIONS, Precision
from trainmem.run import Run, model_of
from trainmem.step import Step
from trainmem.tensors import Weight
from trainmem.transformer_engine import Layout, MegatronTape, layer, layout_of, norm_of
from trainmem.weighing import Amounts

BYTES_A_LOGIT = {"full": 6, "vocab-parallel": 6, "fused": 10, "fused-te": 4}
"""At the peak, for a logit of this GPU's share of the vocabulary. Vocabulary-parallel cross-entropy turns one FP32 copy in place from
exponentials to gradients, beside the BF16 logits. Megatron's own fused form is compiled in pieces and holds two FP32 tensors (inferred
from two runs). Transformer Engine's fused form: 4, measured by SimuMax on releases before July 2026."""

PADDED_TO = 128  # make-vocab-size-divisible-by, times the tensor-parallel size


def layers_on(model: Model, layout: Layout, stage: int) -> int:
    """Layers of a stage; what does not divide goes to the first stages."""
    whole, rest = divmod(model.layers, layout.pipeline)
    return whole + (stage < rest)


def in_flight(run: Run, layout: Layout, stage: int, layers: int) -> int:
    """Layers whose activations a stage holds at once.

    1F1B: as many micro-batches as there are stages from here to the end. Interleaved, on the last stage: a group of micro-batches for
    each chunk but the last, and one of that; earlier stages run ahead by two more for each stage. With one micro-batch a step
    named (`grad_accum`=1), the pipeline is taken to be full.
    """
    batches = run.grad_accum if run.grad_accum > 1 else 1 << 30
    ahead = layout.pipeline - stage
    if layout.virtual == 1:
        return layers * min(ahead, batches)
    chunk = layers // layout.virtual
    chunks = layout.pipeline * (layout.virtual - 1) + 1 + 2 * (ahead - 1)
    return chunk * min(chunks, layout.virtual * batches)


Walked = tuple[MegatronTape, checkpointing.Plan]


def walk_layer(run: Run, experts: bool, traced: bool = False) -> Walked:
    """One kind of layer, walked: with experts or without."""
    layout = layout_of(run)
    tape = MegatronTape(_precision(run), _tokens(run, layout), run, layout)
    tape.traced = traced
    model = model_of(run)
    x = tape.stream(model.hidden)
    output = layer(tape, model, x, experts)
    return tape, checkpointing.plan(run.checkpointing, tape, x, output, accumulate=True)


def _precision(run: Run) -> Precision:
    stored = PRECISIONS[run.precision]
    if stored.autocast or run.precision == "bf16-master":
        return Precision(2, 2, 4, 4, 4, False, stored.label)
    return stored


def _tokens(run: Run, layout: Layout) -> int:
    return run.micro_batch * run.seq // layout.context


def walk(run: Run, stage: int, layer_walk: Callable[[Run, bool], Walked] = walk_layer) -> Step:
    """One pipeline stage of a run, walked and weighed. A search hands in a walk that remembers what it has walked."""
    model, layout, stored = model_of(run), layout_of(run), _precision(run)
    dense, layers = dense_on(model, layout, stage), layers_on(model, layout, stage)
    tape, plan = layer_walk(run, layers > dense)
    first, first_plan = layer_walk(run, False) if 0 < dense < layers else (tape, plan)
    outside = tuple(_outside(run, model, layout, stage))
    width = stored.weights
    counted: list[Counted] = [(w.cut(w.rows, width), layers - dense) for w in tape.weights]
    counted += [(w.cut(w.rows, width), dense) for w in first.weights if dense]
    counted += [(w, 1) for w in outside]
    shared = parallel.Sharing("megatron", min(int(run.zero), 1), layout.data, 4, False, run.bucket)
    local = model._replace(layers=layers, vocab=_vocabulary(model, layout) // layout.tensor)
    static = _static(run, stored, shared, layout, counted)
    elements, one = sum(n * w.elements for w, n in counted), sum(w.elements for w in tape.weights)
    tokens = _tokens(run, layout)
    return Step(
        run, local, stored, stored, shared, tokens, True, plan, first_plan.plain, _head(run, local, layout, tokens, stage), tape,
        2 * (tokens * model.hidden // layout.whole), tuple(tape.weights), outside, static, elements * stored.gradients,
        one * stored.gradients, one, one, sum(w.elements for w in outside),
    )  # fmt: skip


def resized(step: Step, run: Run, stage: int, layer_walk: Callable[[Run, bool], Walked]) -> Step:
    """The stage of a run that differs from this one's in its micro-batch alone."""
    layout = layout_of(run)
    dense, tokens = dense_on(model_of(run), layout, stage), _tokens(run, layout)
    _, plan = layer_walk(run, step.model.layers > dense)
    first = layer_walk(run, False)[1].plain if 0 < dense < step.model.layers else plan.plain
    head = _head(run, step.model, layout, tokens, stage)
    stream = 2 * (tokens * step.model.hidden // layout.whole)
    return step._replace(run=run, tokens=tokens, plan=plan, first=first, head=head, stream=stream)


def telling_stages(run: Run) -> list[int]:
    """The stages among which the fullest is: of middle stages with the same layers, the first has the most in flight."""
    model, layout = model_of(run), layout_of(run)
    seen = {
        (layers_on(model, layout, stage), dense_on(model, layout, stage)): stage
        for stage in range(run.pp - 2, 0, -1)
    }
    return sorted({0, *seen.values(), run.pp - 1})


def dense_on(model: Model, layout: Layout, stage: int) -> int:
    """Layers of a stage that have no experts: all, or those among the model's first `dense_layers`."""
    if not model.experts:
        return layers_on(model, layout, stage)
    before = sum(layers_on(model, layout, earlier) for earlier in range(stage))
    return max(0, min(layers_on(model, layout, stage), model.dense_layers - before))


def _vocabulary(model: Model, layout: Layout) -> int:
    multiple = PADDED_TO * layout.tensor
    return -(-model.vocab // multiple) * multiple


def _outside(run: Run, model: Model, layout: Layout, stage: int) -> list[Weight]:
    """The parameters in no layer of a stage; a tied head exists on the last stage, too."""
    first, last = stage == 0, stage == layout.pipeline - 1
    rows = _vocabulary(model, layout) // layout.tensor
    chosen = []
    learned = run.position == "learned" or (
        not run.position and ARCHITECTURES[model.arch].learned_positions
    )
    for weight in outside_weights(
        model._replace(tied=False), 2, positions=learned, norm=norm_of(run, model)
    ):
        if weight.name == "embed_tokens" and first:
            chosen.append(weight._replace(rows=rows))
        elif (weight.name == "positions" and first) or (weight.name.startswith("norm") and last):
            chosen.append(weight)
        elif weight.name == "lm_head" and last and not (model.tied and first):
            chosen.append(weight._replace(rows=rows))
    return chosen


def _static(
    run: Run,
    precision: Precision,
    shared: parallel.Sharing,
    layout: Layout,
    counted: list[Counted],
) -> Amounts:
    """Weights and states; an expert's states are divided over the GPUs that hold the same expert."""
    elements = sum(copies * w.elements for w, copies in counted)
    mine = []
    for weight, copies in counted:
        ranks = layout.expert_data if weight.name.startswith("experts") else layout.data
        rows = -(-weight.rows // (ranks if shared.stage else 1))
        mine.append((weight.cut(rows, precision.moments), copies))
    amounts: Amounts = {"weights": elements * precision.weights, "base_weights": 0}
    states = OPTIMIZERS[run.optimizer].states
    amounts |= {key: sum(n * size(w, w.width) for w, n in mine) for key, size in states.items()}
    if precision.master:
        amounts["master"] = sum(n * w.elements * 4 for w, n in mine)
    return amounts


def _head(run: Run, model: Model, layout: Layout, tokens: int, stage: int) -> loss.Head:
    """The last stage's final norm and loss; other stages have none."""
    if stage != layout.pipeline - 1:
        return loss.Head(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    numbers = 8 if norm_of(run, model) == "layernorm" else 4
    kept = tokens * (4 * model.hidden + numbers) // layout.whole
    logits = BYTES_A_LOGIT.get(run.loss, 6) * tokens * model.vocab
    return loss.Head(kept, 0, logits, 0, 2 * tokens * model.vocab, 0, kept + logits, kept, 0, 0)


def parameters(run: Run) -> int:
    """Parameters of the whole model, without the padding of the vocabulary; tied weights once."""
    alone = run.but(tp=1, pp=1, vpp=1, cp=1, ep=1, etp=None, sp=False, gpus=1)
    model, step = model_of(run), walk(alone, 0)
    padding = (step.model.vocab - model.vocab) * model.hidden * (1 if model.tied else 2)
    return step.static["weights"] // step.precision.weights - padding


class Aside(NamedTuple):
    """What the phases of a stage need, whatever the micro-batch; `products` and `largest` are bytes of products' gradients."""

    layout: Layout
    dense: int
    products: int
    largest: int


def aside_of(step: Step, stage: int) -> Aside:
    """The same for every size of a stage."""
    layout, model = layout_of(step.run), step.model
    weights = [w for w in (*step.layer, *step.outside) if w.columns and w.name != "embed_tokens"]
    shapes = {(w.rows, w.columns): _one_product(w, model, layout) for w in weights}
    largest = max((_one_product(w, model, layout) for w in step.layer), default=0)
    dense = dense_on(model_of(step.run), layout, stage)
    return Aside(layout, dense, 2 * sum(shapes.values()), 2 * largest)


def phases(step: Step, stage: int, aside: Aside | None = None) -> dict[str, Amounts]:
    """The phases of one stage: the loss, a layer's backward, the embedding's gradient, the step."""
    aside = aside or aside_of(step, stage)
    run, layout, layers, dense = step.run, aside.layout, step.model.layers, aside.dense
    each = (layers - dense) * step.plan.plain.bytes + dense * step.first.bytes
    kept = in_flight(run, layout, stage, layers) * each // max(1, layers)
    present = (
        step.static
        | {"gradients": step.gradients, "inputs": 28 * step.tokens}
        | _buffers(step, aside, stage)
    )
    full = present | {
        "kept_by_layers": kept,
        "head_inputs": step.head.kept,
        "logits": step.head.logits,
    }
    back = step.plan.plain.back
    layer_now = {
        "kept_by_layers": kept - step.plan.plain.bytes + step.plan.plain.input,
        "layer_in_backward": back.kept,
        "backward_working": back.working,
        "layer_gradients": aside.largest,
    }
    tail = {"embedding_gradient": 2 * step.outside[0].elements if stage == 0 else 0}
    made = (
        full,
        full,
        present | layer_now,
        present | tail,
        step.static | {"gradients": step.gradients},
    )
    return dict(zip(PHASES, made, strict=True))


def _one_product(weight: Weight, model: Model, layout: Layout) -> int:
    """Elements that one product's gradient has: each expert has products of its own."""
    local = max(1, model.experts // layout.expert)
    return weight.elements // local if weight.name.startswith("experts") else weight.elements


def _buffers(step: Step, aside: Aside, stage: int) -> Amounts:
    """What Megatron holds beside the layers while micro-batches run."""
    run, model, tokens, layout = step.run, step.model, step.tokens, aside.layout
    stream = 2 * tokens * model.hidden
    gathered = stream if layout.sequence else 0
    if model.experts and run.dispatcher == "allgather":
        gathered = max(gathered, stream * layout.expert * layout.expert_tensor // layout.tensor)
    dropout = model.dropout and stage == 0
    return {
        "gather_buffer": gathered,
        "pipeline_buffers": 3 * stream // layout.whole if layout.pipeline > 1 else 0,
        "embedding_dropout": tokens * model.hidden // layout.whole if dropout else 0,
        "attention_mask": run.mask * run.micro_batch * run.seq * run.seq // layout.context,
        "dummy_gradients": aside.products if run.gradient_fusion else 0,
    }
