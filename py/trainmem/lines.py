"""A walk for any micro-batch: walked at two sizes, the rest lies on the lines through them.

What a layer keeps grows by the same bytes with each sequence, and so does every point that its backward comes to; which point is
the highest changes with the size. A traced replay at one and at two sequences gives the line of each point, and the highest
of them at any size is what a replay at that size finds. A third walk, far out, checks this; where it is not so (a size
that has to be rounded), each size is walked. A search asks for thousands of sizes of few layers.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from trainmem import megatron
from trainmem.architectures import Model
from trainmem.backward import Replayed
from trainmem.checkpointing import Plan, Stored
from trainmem.loss import Head, projection
from trainmem.precision import Precision
from trainmem.run import Run
from trainmem.step import Asked, Walked, walk_layer
from trainmem.tape import Tape

FAR = 4099  # sequences, or tokens, of the walk that checks the lines: a prime beyond any rounding

Points = tuple[tuple[int, int, int, int], ...]
Line = tuple[int, int]  # bytes at nothing, bytes more for each
Point = tuple[Line, Line, Line, Line]


def line(one: int, two: int) -> Line:
    """The line through the values at one and at two."""
    return 2 * one - two, two - one


class Highest:
    """The highest of many points of a backward, at any size; where two are equal, the earlier one."""

    def __init__(self, one: Points, two: Points) -> None:
        slopes = [later[0] - sooner[0] for sooner, later in zip(one, two, strict=True)]
        chosen, steepest = [], -1
        for place in sorted(range(len(one)), key=lambda at: (-one[at][0], at)):
            if slopes[place] > steepest:  # one that is lower, and grows no faster, never counts
                chosen.append(place)
                steepest = slopes[place]
        self.points: list[Point] = [
            tuple(line(a, b) for a, b in zip(one[place], two[place], strict=True))  # type: ignore[misc]
            for place in sorted(chosen)
        ]
        self.peaks = [point[0] for point in self.points]

    def at(self, size: int) -> tuple[int, int, int, int]:
        """Peak, kept, casts and weight gradients at the highest point."""
        heights = [base + size * more for base, more in self.peaks]
        _, kept, casts, made = self.points[heights.index(max(heights))]
        return (
            max(heights),
            kept[0] + size * kept[1],
            casts[0] + size * casts[1],
            made[0] + size * made[1],
        )


Whole = TypeVar("Whole")


class Sizes(Generic[Whole]):
    """Results by size, each made once: from lines, or by a walk where the lines do not hold."""

    def __init__(
        self, walk: Callable[[int], Whole], from_lines: Callable[[int], Whole] | None = None
    ) -> None:
        self.on_lines = from_lines is not None and from_lines(FAR) == walk(FAR)
        self.make = from_lines if from_lines and self.on_lines else walk
        self.known: dict[int, Whole] = {}

    def at(self, size: int) -> Whole:
        """The result at one size."""
        found = self.known.get(size)
        if found is None:
            found = self.known[size] = self.make(size)
        return found


def forget() -> None:
    """Empties all that is remembered."""
    for remembered in (_layers, _megatron, _heads):
        remembered.cache_clear()
    _recent.clear()


# Layers

AnyWalked = TypeVar("AnyWalked", bound=tuple[Any, Plan])


def _stored(one: Stored, two: Stored) -> Callable[[int], Stored]:
    kept, casts, given = (
        line(one.bytes, two.bytes),
        line(one.casts, two.casts),
        line(one.input, two.input),
    )
    highest = Highest(one.back.points, two.back.points)
    return lambda size: Stored(
        kept[0] + size * kept[1],
        casts[0] + size * casts[1],
        given[0] + size * given[1],
        Replayed(*highest.at(size)),
    )


def layers(walk: Callable[[int, bool], AnyWalked]) -> tuple[AnyWalked, Sizes[Plan]]:
    """A walk at one sequence, and the plan at any number; `walk` takes that number, and whether to trace."""
    first, (_, two) = walk(1, True), walk(2, True)
    one = first[1]
    if len(one.plain.back.points) != len(two.plain.back.points):  # not even the same operations
        return first, Sizes(lambda size: walk(size, False)[1])
    plain, other = (_stored(a, b) for a, b in ((one.plain, two.plain), (one.other, two.other)))

    def plan(size: int) -> Plan:
        same = plain(size)
        return Plan(same, other(size) if one.period else same, one.period)

    return first, Sizes(lambda size: walk(size, False)[1], plan)


@lru_cache(maxsize=512)
def _layers(asked: Asked) -> tuple[Walked, Sizes[Plan]]:
    return layers(lambda size, traced: walk_layer(asked, size, traced))


RECENT = 64
_recent: dict[int, tuple[Asked, Tape, Sizes[Plan]]] = {}


def layer(asked: Asked, sequences: int) -> Walked:
    """What `step.walk_layer` returns, remembered; the tape is that of one sequence."""
    known = _recent.get(id(asked))
    if known is None or known[0] is not asked:  # a layout asks again and again with the same object
        if len(_recent) > RECENT:
            _recent.clear()
        first, sizes = _layers(asked)
        known = _recent[id(asked)] = asked, first[0], sizes
    return known[1], known[2].at(sequences)


def megatron_layers(run: Run) -> Callable[[Run, bool], megatron.Walked]:
    """What `megatron.walk_layer` returns for a run and others that differ from it in their micro-batch alone, remembered."""
    alone = run.but(
        micro_batch=1, grad_accum=1, gpus=run.tp * run.cp, pp=1, vpp=1, zero="0", optimizer="adamw",
        gpu="", usable=None, headroom=0.0, workspace=None,
    )  # fmt: skip

    def walked(other: Run, experts: bool) -> megatron.Walked:
        first, sizes_ = _megatron(alone, experts)
        return first[0], sizes_.at(other.micro_batch)

    return walked


@lru_cache(maxsize=512)
def _megatron(run: Run, experts: bool) -> tuple[megatron.Walked, Sizes[Plan]]:
    return layers(
        lambda size, traced: megatron.walk_layer(run.but(micro_batch=size), experts, traced)
    )


# The head


@lru_cache(maxsize=512)
def _heads(model: Model, precision: Precision, trains: bool, accumulate: bool) -> Sizes[Head]:
    one, two = (projection(model, precision, n, trains, accumulate, traced=True) for n in (1, 2))
    lines = [line(a, b) for a, b in zip(one[:6], two[:6], strict=True)]
    highest = Highest(one.points, two.points)

    def at(tokens: int) -> Head:
        sizes = (base + tokens * more for base, more in lines)
        return Head._make((*sizes, *highest.at(tokens), ()))

    return Sizes(lambda n: projection(model, precision, n, trains, accumulate), at)


def head(model: Model, precision: Precision, tokens: int, trains: bool, accumulate: bool) -> Head:
    """What `loss.projection` returns, remembered."""
    return _heads(model, precision, trains, accumulate).at(tokens)
