"""Transformer Engine's layers as Megatron-Core builds them, on one GPU: dense, mixture of experts, latent attention.

Tensor parallelism divides heads and the feed-forward width; sequence parallelism divides what would stay whole (norms, masks, the
residual stream) as well; context parallelism divides the sequence; expert parallelism deals the experts. Each operation says what it keeps
for backward; read in the sources of Megatron-LM and Transformer Engine (August 2026).
"""

from typing import NamedTuple

from trainmem.architectures import ARCHITECTURES, Model
from trainmem.precision import Precision
from trainmem.run import Run
from trainmem.tape import Tape
from trainmem.tensors import Tensor, Weight


class Layout(NamedTuple):
    """How many GPUs along each axis; `data` counts context parallelism, over which states are divided too."""

    tensor: int
    sequence: bool
    pipeline: int
    virtual: int
    context: int
    data: int
    expert: int
    expert_tensor: int

    @property
    def expert_data(self) -> int:
        """Over how many GPUs the states of one expert are divided."""
        return max(1, self.data * self.tensor // (self.expert * self.expert_tensor))

    @property
    def whole(self) -> int:
        """Over how many GPUs the norms, masks and the residual stream are divided."""
        return self.tensor if self.sequence else 1


def layout_of(run: Run) -> Layout:
    """The axes of a run."""
    sequence = run.sp and run.tp > 1
    data = run.gpus // (run.tp * run.pp)
    return Layout(run.tp, sequence, run.pp, run.vpp, run.cp, data, run.ep, run.etp or run.tp)


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

    def narrowed(self, x: Tensor, columns: int, rank: int, name: str, extra: int = 0) -> Tensor:
        """A projection to a few numbers a token, the same on every tensor-parallel GPU, and its norm.

        The norm is fused with what follows: its input and its output are kept.
        """
        weight = Weight(name, rank + extra, columns, 2)
        self.weights += (weight, Weight(name + "_norm", rank, 0, 2, matmul=False))
        out = Tensor(self.tokens * rank // self.layout.whole, 2)
        self.record("linear", out, (x,), (x,), (weight,))
        return self.record("layernorm", Tensor(out.elements, 2), (out,), (out,))

    def projected(self, x: Tensor, columns: int, out: int, name: str) -> None:
        """A wide projection whose output is taken apart and freed."""
        weight = Weight(name, out // self.layout.tensor, columns, 2)
        self.weights.append(weight)
        self.flops += 2 * self.tokens * columns * weight.rows
        self.record("linear", Tensor(self.tokens * weight.rows, 2), (x,), (x,), (weight,))

    def normed_heads(self, qkv: Tensor, model: Model) -> tuple[Tensor, Tensor]:
        """A norm on each head of q and of k: new tensors; v stays a view of the projection."""
        made = []
        for name, heads in (("q_norm", model.heads), ("k_norm", model.kv_heads)):
            self.weights.append(Weight(name, model.head_dim, 0, 2, matmul=False))
            each = self.tokens * heads // self.layout.tensor
            out = Tensor(each * model.head_dim, 2)
            made.append(self.record("layernorm", out, (qkv,), (qkv, Tensor(each, 4))))
        return made[0], made[1]

    def attend_split(self, parts: tuple[Tensor, ...], model: Model, value: int) -> Tensor:
        """Attention on this GPU's heads. `parts`: q, k and v, or the one projection of which they are views."""
        heads, tensor = model.heads, self.layout.tensor
        width = heads * value
        output = Tensor(self.tokens * width // tensor, 2)
        statistics = Tensor(heads * self.tokens // tensor, 4)
        self.flops += 4 * self.tokens * self.seq * width // tensor
        if self.attention in ("eager", "unfused"):
            each = 5 if model.attention_dropout else 2
            scores = Tensor(heads * self.tokens * self.seq // tensor, each)
            repeated = (Tensor(3 * output.elements, 2),) if model.kv_heads != heads else ()
            return self.record("flash", output, parts, (*parts, output, scores, *repeated))
        copies = (Tensor(output.elements, 2),) if self.attention in ("flash", "flash2") else ()
        return self.record("flash", output, parts, (*parts, output, statistics, *copies))

    def dropped_and_added(self, y: Tensor, x: Tensor, probability: float) -> Tensor:
        """Bias, dropout and the residual sum, fused: a mask of one byte an element."""
        mask = (Tensor(x.elements, 1),) if probability else ()
        return self.record("dropout", Tensor(x.elements, 2), (y, x), mask)


NORMED_HEADS = ("qwen3", "qwen3_moe")
"""Families with a norm on each head of q and k."""


def norm_of(run: Run, model: Model) -> str:
    """The norm of a run: its own choice, else the family's."""
    return run.norm or ARCHITECTURES[model.arch].final_norm


def unit_of(run: Run, model: Model) -> str:
    """The feed-forward unit of a run: its own choice, else gated where the family's norm is RMSNorm."""
    return run.activation or (
        "swiglu" if ARCHITECTURES[model.arch].final_norm == "rmsnorm" else "gelu"
    )


def layer(tape: MegatronTape, model: Model, x: Tensor, experts: bool = False) -> Tensor:
    """A decoder layer: LayerNorm and GELU as GPT has them, or RMSNorm and a gated unit as Llama has them."""
    kind = norm_of(tape.run, model)
    y = tape.normed(x, model.hidden, "input_layernorm", kind)
    y = latent_attention(tape, model, y) if model.kv_rank else attention(tape, model, y)
    x = tape.dropped_and_added(y, x, model.dropout)
    y = tape.normed(x, model.hidden, "pre_mlp_layernorm", kind)
    y = mixture(tape, model, y) if experts else feed_forward(tape, model, y, model.ffn, "linear")
    return tape.dropped_and_added(y, x, model.dropout)


def attention(tape: MegatronTape, model: Model, y: Tensor) -> Tensor:
    """One fused projection to q, k and v; heads divided."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    qkv = tape.split_columns(y, model.hidden, wide + 2 * narrow, "linear_qkv", model.attention_bias)
    parts: tuple[Tensor, ...] = (qkv,)
    if model.arch in NORMED_HEADS:
        parts = (*tape.normed_heads(qkv, model), qkv)
    tape.begin_attention()
    y = tape.attend_split(parts, model, model.head_dim)
    tape.end_attention()
    return tape.split_rows(y, wide, model.hidden, "linear_proj", model.mlp_bias)


def latent_attention(tape: MegatronTape, model: Model, y: Tensor) -> Tensor:
    """DeepSeek's latent attention: q, and k with v, through narrow projections, each with a norm of its own.

    The outputs of the wide projections are freed; q and k exist once more with their rotary part.
    """
    rotary, value = model.rotary_dim, model.value_dim or model.head_dim
    key, heads = model.head_dim, model.heads
    if model.q_rank:
        narrow = tape.narrowed(y, model.hidden, model.q_rank, "linear_q_down")
        tape.projected(narrow, model.q_rank, heads * key, "linear_q_up")
    else:  # as in DeepSeek V2 Lite
        tape.split_columns(y, model.hidden, heads * key, "linear_q_proj", False)
    narrow = tape.narrowed(y, model.hidden, model.kv_rank, "linear_kv_down", rotary)
    tape.projected(narrow, model.kv_rank, heads * (key - rotary + value), "linear_kv_up")
    mine = tape.tokens * heads // tape.layout.tensor
    parts = tuple(Tensor(mine * width, 2) for width in (key, key, value))
    tape.begin_attention()
    out = tape.attend_split(parts, model, value)
    tape.end_attention()
    return tape.split_rows(out, heads * value, model.hidden, "linear_proj", False)


def feed_forward(tape: MegatronTape, model: Model, y: Tensor, width: int, name: str) -> Tensor:
    """Two linears with GELU, a gated SiLU or a squared ReLU between them."""
    unit, bias = unit_of(tape.run, model), model.mlp_bias
    up = tape.split_columns(y, model.hidden, width * (1 + (unit == "swiglu")), name + "_fc1", bias)
    activated = Tensor(tape.tokens * width // tape.layout.tensor, 2)
    squared = unit == "squared-relu"  # keeps the ReLU's output; the product's own is freed
    y = tape.record("activation", activated, (up,), (Tensor(up.elements, 2) if squared else up,))
    return tape.split_rows(y, width, model.hidden, name + "_fc2", bias)


def mixture(tape: MegatronTape, model: Model, y: Tensor) -> Tensor:
    """Experts: a router, each token's copies for its experts, two linears an expert; balanced routing is assumed.

    An expert with GELU multiplies by the router's probability outside its kernel, and keeps that product, too.
    """
    layout, width = tape.layout, model.moe_ffn or model.ffn
    gated = unit_of(tape.run, model) == "swiglu"
    tape.weights.append(Weight("router", model.experts, model.hidden, 2))
    scores = Tensor(24 * model.experts * tape.tokens // layout.whole, 1)
    routed = tape.tokens * model.experts_per_token * layout.expert_tensor // layout.tensor
    local, cut = model.experts // layout.expert, layout.expert_tensor
    up = Weight("experts_fc1", local * width * (1 + gated) // cut, model.hidden, 2)
    down = Weight("experts_fc2", local * model.hidden, width // cut, 2)
    tape.weights += (up, down)
    tape.flops += 2 * routed * model.hidden * width * (2 + gated) // cut
    copies, opened = (
        Tensor(routed * model.hidden, 2),
        Tensor(routed * width * (1 + gated) // cut, 2),
    )
    inner = tuple(Tensor(routed * width // cut, 2) for _ in range(1 if gated else 2))
    indices = Tensor((2 * model.experts + 1) * tape.tokens // layout.whole, 4)
    if tape.run.dispatcher == "allgather":
        indices = Tensor(3 * routed, 4)
    tape.record("permute", copies, (y,), (y, scores, indices))
    tape.record("linear", opened, (copies,), (copies,), (up,))
    tape.record("activation", inner[0], (opened,), (opened,))
    mixed = tape.record("linear", tape.stream(model.hidden), (inner[0],), inner, (down,))
    if not model.shared_experts:
        return mixed
    shared = feed_forward(tape, model, y, model.shared_experts * width, "shared_experts")
    return tape.add(mixed, shared)
