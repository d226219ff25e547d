"""Gradient checkpointing: what each layer leaves behind in the forward, and what its backward has to bring back.

none                 every layer keeps what its operations need
full                 a layer keeps its input, and is recomputed (torch's non-reentrant form)
every-N              each Nth layer is checkpointed in full, beginning with the first; the others keep everything
selective-matmul     a layer keeps its input and the outputs of its products and of attention; the rest is recomputed
selective-attention  only the attention block is recomputed, from its input
"""

from typing import NamedTuple

from trainmem.backward import Replayed, replay
from trainmem.tape import Tape
from trainmem.tensors import Tensor


class Stored(NamedTuple):
    """One layer kind: bytes it leaves in the forward, low-precision weights it holds, and its backward.

    `input`: bytes of the checkpointed input that stays while the layer is recomputed (0 when nothing is).
    """

    bytes: int
    casts: int
    input: int
    back: Replayed


def whole(tape: Tape, output: Tensor, accumulate: bool) -> Stored:
    """A layer that keeps everything."""
    casts = sum(operation.casts for operation in tape.operations)
    return Stored(tape.kept_bytes(), casts, 0, replay(tape, output, accumulate=accumulate))


def recomputed(tape: Tape, x: Tensor, output: Tensor, accumulate: bool) -> Stored:
    """A layer that keeps its input only."""
    return Stored(x.bytes, 0, x.bytes, replay(tape, output, (x,), accumulate))


def products_kept(tape: Tape, x: Tensor, output: Tensor, accumulate: bool) -> Stored:
    """A layer that keeps its input and what its products and attention returned."""
    outputs = {
        id(op.output): op.output
        for op in tape.operations
        if op.kind in ("linear", "flash", "matmul")
    }
    statistics = {
        id(t): t
        for op in tape.operations
        if op.kind == "flash"
        for t in op.kept
        if t not in op.inputs and t is not op.output
    }
    kept = sum(t.bytes for t in (outputs | statistics).values())
    last = 0 if id(output) in outputs else _last_product(tape).bytes
    return Stored(x.bytes + kept, 0, x.bytes + last, replay(tape, output, (x,), accumulate))


def attention_recomputed(tape: Tape, output: Tensor, accumulate: bool) -> Stored:
    """A layer whose attention block is recomputed from its input, which stays."""
    begin, end = tape.region
    inside = tape.operations[begin:end]
    source = inside[0].inputs[0]
    outside = {id(t): t for op in tape.operations[:begin] + tape.operations[end:] for t in op.kept}
    kept = sum(t.bytes for t in (outside | {id(source): source}).values())
    casts = sum(op.casts for op in tape.operations[:begin] + tape.operations[end:])
    held = () if id(source) in outside else (source,)
    back = replay(tape, output, held, accumulate, tape.region)
    return Stored(kept, casts, sum(t.bytes for t in held), back)


def _last_product(tape: Tape) -> Tensor:
    return next(op.output for op in reversed(tape.operations) if op.kind == "linear")


class Plan(NamedTuple):
    """The layers of a model as two kinds: `plain`, and `other` for every `period`th layer from the first (0: none)."""

    plain: Stored
    other: Stored
    period: int

    def at(self, index: int) -> Stored:
        """The kind of one layer."""
        return self.other if self.period and index % self.period == 0 else self.plain

    def below(self, index: int) -> tuple[int, int]:
        """Bytes, and low-precision weights, left by all layers before `index`."""
        if not self.period:
            return index * self.plain.bytes, index * self.plain.casts
        others = -(-index // self.period)
        plain = index - others
        return (
            plain * self.plain.bytes + others * self.other.bytes,
            plain * self.plain.casts + others * self.other.casts,
        )


class Mixed(NamedTuple):
    """Layers of several kinds: the plan of each kind, the kind of each layer, and what the layers before each one leave."""

    plans: tuple[Plan, ...]
    order: tuple[int, ...]
    sums: tuple[tuple[int, int], ...]

    @property
    def plain(self) -> Stored:
        """The commonest kind, where nothing is checkpointed now and then."""
        return self.plans[0].plain

    @property
    def period(self) -> int:
        """As in the plan of each kind."""
        return self.plans[0].period

    def at(self, index: int) -> Stored:
        """What one layer leaves."""
        return self.plans[self.order[index]].at(index)

    def below(self, index: int) -> tuple[int, int]:
        """Bytes, and low-precision weights, left by all layers before `index`."""
        return self.sums[index]


def mixed(plans: tuple[Plan, ...], order: tuple[int, ...]) -> Plan | Mixed:
    """The plans of several kinds as one; the commonest kind is the first."""
    if len(plans) == 1:
        return plans[0]
    kept, casts, sums = 0, 0, [(0, 0)]
    for index, kind in enumerate(order):
        stored = plans[kind].at(index)
        kept, casts = kept + stored.bytes, casts + stored.casts
        sums.append((kept, casts))
    return Mixed(plans, order, tuple(sums))


def plan(mode: str, tape: Tape, x: Tensor, output: Tensor, accumulate: bool) -> Plan:
    """How the run's checkpointing treats the layers of one tape."""
    if mode == "full":
        stored = recomputed(tape, x, output, accumulate)
    elif mode == "selective-matmul":
        stored = products_kept(tape, x, output, accumulate)
    elif mode == "selective-attention":
        stored = attention_recomputed(tape, output, accumulate)
    else:
        stored = whole(tape, output, accumulate)
    if mode.startswith("every-"):
        return Plan(
            stored, recomputed(tape, x, output, accumulate), int(mode.removeprefix("every-"))
        )
    return Plan(stored, stored, 0)
