"""Megatron-Core with Transformer Engine: its layer, its states, its buffers, and what each pipeline stage holds.

Tensor parallelism divides heads, the feed-forward width and the vocabulary; sequence parallelism divides what would stay whole
(norms, masks, the residual stream) as well; context parallelism divides the sequence. Mixed precision keeps BF16 or FP16 weights,
FP32 main gradients and an FP32 master copy; the distributed optimizer (stage 1) divides master and moments over the data-parallel
group, context parallelism included. Forms: read in the sources of Megatron-LM and Transformer Engine (August 2026) and checked
against the peak memory that Megatron's own functional tests record.
"""

from typing import NamedTuple

from trainmem import checkpointing, loss, parallel
from trainmem.architectures import ARCHITECTURES, Model, outside_weights
from trainmem.ledger import PHASES
from trainmem.optimizers import OPTIMIZERS, Counted
from trainmem.precision import PRECISIONS, Precision
from trainmem.run import Run, model_of
from trainmem.step import Amounts, Step
from trainmem.tape import Tape
from trainmem.tensors import Tensor, Weight

BYTES_A_LOGIT = {"full": 6, "vocab-parallel": 6, "fused": 10, "fused-te": 4}
"""At the peak, for a logit of this GPU's share of the vocabulary. Vocabulary-parallel cross-entropy turns one FP32 copy in place from
exponentials to gradients, beside the BF16 logits. Megatron's own fused form is compiled in pieces and holds two FP32 tensors (inferred
from two runs). Transformer Engine's fused form: 4, measured by SimuMax on releases before July 2026."""

PADDED_TO = 128  # make-vocab-size-divisible-by, times the tensor-parallel size


class Layout(NamedTuple):
    """How many GPUs along each axis; `data` counts context parallelism, over which states are divided too."""

    tensor: int
    sequence: bool
    pipeline: int
    virtual: int
    context: int
    data: int

    @property
    def whole(self) -> int:
        """Over how many GPUs the norms, masks and the residual stream are divided."""
        return self.tensor if self.sequence else 1


def layout_of(run: Run) -> Layout:
    """The axes of a run."""
    sequence = run.sp and run.tp > 1
    return Layout(run.tp, sequence, run.pp, run.vpp, run.cp, run.gpus // (run.tp * run.pp))


class MegatronTape(Tape):
    """The operations of Transformer Engine's layers, on one tensor-parallel GPU."""

    def __init__(self, precision: Precision, tokens: int, run: Run, layout: Layout) -> None:
        super().__init__(precision, tokens, run.seq // layout.context, run.attention)
        self.layout, self.run = layout, run

    def stream(self, hidden: int) -> Tensor:
        """A tensor of the residual stream."""
        return Tensor(self.tokens * hidden // self.layout.whole, 2)

    def normed(self, x: Tensor, hidden: int, name: str, kind: str) -> Tensor:
        """A norm: its input, its output and its statistics are kept; the output by the linear that follows."""
        self.weights.append(Weight(name, hidden, 0, 2, matmul=False))
        if kind == "layernorm":
            self.weights.append(Weight(name + ".bias", hidden, 0, 2, matmul=False))
        numbers = 2 if kind == "layernorm" else 1
        statistics = Tensor(numbers * self.tokens // self.layout.whole, 4)
        return self.record("layernorm", Tensor(x.elements, 2), (x,), (x, statistics))

    def split_columns(self, x: Tensor, columns: int, out: int, name: str, bias: bool) -> Tensor:
        """A linear whose outputs are divided; under sequence parallelism its input is gathered and freed again."""
        mine = out // self.layout.tensor
        weights = (Weight(name, mine, columns, 2),) + (
            (Weight(name + ".bias", mine, 0, 2),) if bias else ()
        )
        self.weights += weights
        self.flops += 2 * self.tokens * columns * mine
        return self.record("linear", Tensor(self.tokens * mine, 2), (x,), (x,), weights)

    def split_rows(self, x: Tensor, columns: int, out: int, name: str, bias: bool) -> Tensor:
        """A linear whose inputs are divided; its output is summed over the GPUs."""
        mine = columns // self.layout.tensor
        weights = (Weight(name, out, mine, 2),) + (
            (Weight(name + ".bias", out, 0, 2),) if bias else ()
        )
        self.weights += weights
        self.flops += 2 * self.tokens * mine * out
        return self.record("linear", self.stream(out), (x,), (x,), weights)

    def attend_split(self, qkv: Tensor, model: Model) -> Tensor:
        """Attention on this GPU's heads: k and v are views that keep the whole projection alive."""
        heads, tensor = model.heads, self.layout.tensor
        width = heads * model.head_dim
        output = Tensor(self.tokens * width // tensor, 2)
        statistics = Tensor(heads * self.tokens // tensor, 4)
        self.flops += 4 * self.tokens * self.seq * width // tensor
        if self.attention in ("eager", "unfused"):
            each = 5 if model.attention_dropout else 2
            scores = Tensor(heads * self.tokens * self.seq // tensor, each)
            repeated = (Tensor(3 * output.elements, 2),) if model.kv_heads != heads else ()
            return self.record("flash", output, (qkv,), (qkv, output, scores, *repeated))
        copies = (Tensor(output.elements, 2),) if self.attention in ("flash", "flash2") else ()
        return self.record("flash", output, (qkv,), (qkv, output, statistics, *copies))

    def dropped_and_added(self, y: Tensor, x: Tensor, probability: float) -> Tensor:
        """Bias, dropout and the residual sum, fused: a mask of one byte an element."""
        mask = (Tensor(x.elements, 1),) if probability else ()
        return self.record("dropout", Tensor(x.elements, 2), (y, x), mask)


def norm_of(run: Run, model: Model) -> str:
    """The norm of a run: its own choice, else the family's."""
    return run.norm or ARCHITECTURES[model.arch].final_norm


def unit_of(run: Run, model: Model) -> str:
    """The feed-forward unit of a run: its own choice, else gated where the family's norm is RMSNorm."""
    return run.activation or (
        "swiglu" if ARCHITECTURES[model.arch].final_norm == "rmsnorm" else "gelu"
    )


def layer(tape: MegatronTape, model: Model, x: Tensor) -> Tensor:
    """A decoder layer: LayerNorm and GELU as GPT has them, or RMSNorm and a gated unit as Llama has them."""
    kind, gated = norm_of(tape.run, model), unit_of(tape.run, model) == "swiglu"
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    y = tape.normed(x, model.hidden, "input_layernorm", kind)
    qkv = tape.split_columns(y, model.hidden, wide + 2 * narrow, "linear_qkv", model.attention_bias)
    tape.begin_attention()
    y = tape.attend_split(qkv, model)
    tape.end_attention()
    y = tape.split_rows(y, wide, model.hidden, "linear_proj", model.mlp_bias)
    x = tape.dropped_and_added(y, x, model.dropout)
    y = tape.normed(x, model.hidden, "pre_mlp_layernorm", kind)
    up = tape.split_columns(y, model.hidden, model.ffn * (1 + gated), "linear_fc1", model.mlp_bias)
    activated = Tensor(tape.tokens * model.ffn // tape.layout.tensor, 2)
    squared = (
        unit_of(tape.run, model) == "squared-relu"
    )  # keeps the ReLU's output; the product's own is freed
    y = tape.record("activation", activated, (up,), (Tensor(up.elements, 2) if squared else up,))
    y = tape.split_rows(y, model.ffn, model.hidden, "linear_fc2", model.mlp_bias)
    return tape.dropped_and_added(y, x, model.dropout)


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


def walk(run: Run, stage: int) -> Step:
    """One pipeline stage of a run, walked and weighed."""
    model, layout = model_of(run), layout_of(run)
    stored = PRECISIONS[run.precision]
    if stored.autocast or run.precision == "bf16-master":
        stored = Precision(2, 2, 4, 4, 4, False, stored.label)
    tokens = run.micro_batch * run.seq // layout.context
    tape = MegatronTape(stored, tokens, run, layout)
    x = tape.stream(model.hidden)
    output = layer(tape, model, x)
    plan = checkpointing.plan(run.checkpointing, tape, x, output, accumulate=True)
    layers = layers_on(model, layout, stage)
    outside = tuple(_outside(run, model, layout, stage))
    width = stored.weights
    weights = tuple(weight._replace(width=width) for weight in tape.weights)
    shared = parallel.Sharing("megatron", min(int(run.zero), 1), layout.data, 4, False, run.bucket)
    local = model._replace(layers=layers, vocab=_vocabulary(model, layout) // layout.tensor)
    static = _static(run, stored, shared, weights, outside, layers)
    elements = layers * sum(w.elements for w in weights) + sum(w.elements for w in outside)
    one = sum(w.elements for w in weights)
    return Step(
        run, local, stored, stored, shared, tokens, True, plan, plan.at(0), _head(run, local, layout, tokens, stage), tape,
        x.bytes, weights, outside, static, elements * stored.gradients, one * stored.gradients, one, one,
        sum(w.elements for w in outside),
    )  # fmt: skip


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
    layer: tuple[Weight, ...],
    outside: tuple[Weight, ...],
    layers: int,
) -> Amounts:
    """Weights, states and the buffers that stay."""
    counted: list[Counted] = [*((w, layers) for w in layer), *((w, 1) for w in outside)]
    elements = sum(copies * w.elements for w, copies in counted)
    mine = [
        (w._replace(rows=-(-w.rows // shared.shards_states), width=precision.moments), n)
        for w, n in counted
    ]
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
    model, alone = model_of(run), run.but(tp=1, pp=1, vpp=1, cp=1, sp=False, gpus=1)
    step = walk(alone, 0)
    padding = (step.model.vocab - model.vocab) * model.hidden * (1 if model.tied else 2)
    return step.outside_elements + model.layers * step.layer_elements - padding


def phases(step: Step, stage: int) -> dict[str, Amounts]:
    """The phases of one stage: the loss, a layer's backward, the embedding's gradient, the step."""
    run, layout = step.run, layout_of(step.run)
    kept = in_flight(run, layout, stage, step.model.layers) * step.plan.plain.bytes
    present = (
        step.static
        | {"gradients": step.gradients, "inputs": 28 * step.tokens}
        | _buffers(step, layout, stage)
    )
    full = present | {
        "kept_by_layers": kept,
        "head_inputs": step.head.kept,
        "logits": step.head.logits,
    }
    back = step.plan.plain.back
    layer_now = {
        "kept_by_layers": kept - (0 if step.plan.plain.input else step.plan.plain.bytes),
        "layer_in_backward": back.kept,
        "backward_working": back.working,
        "layer_gradients": 2 * max((w.elements for w in step.layer), default=0),
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


def _buffers(step: Step, layout: Layout, stage: int) -> Amounts:
    """What Megatron holds beside the layers while micro-batches run."""
    run, model, tokens = step.run, step.model, step.tokens
    stream = 2 * tokens * model.hidden
    shapes = {
        (w.rows, w.columns): w.elements
        for w in (*step.layer, *step.outside)
        if w.columns and w.name != "embed_tokens"
    }
    dropout = model.dropout and stage == 0
    return {
        "gather_buffer": stream if layout.sequence else 0,
        "pipeline_buffers": 3 * stream // layout.whole if layout.pipeline > 1 else 0,
        "embedding_dropout": tokens * model.hidden // layout.whole if dropout else 0,
        "attention_mask": run.mask * run.micro_batch * run.seq * run.seq // layout.context,
        "dummy_gradients": 0 if not run.gradient_fusion else 2 * sum(shapes.values()),
    }
