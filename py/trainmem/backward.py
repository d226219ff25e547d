"""Replay: the backward of a tape, operation by operation, and the highest point that it reaches."""

from collections.abc import Iterable
from typing import NamedTuple

from trainmem.tape import Tape
from trainmem.tensors import Operation, Tensor


class Replayed(NamedTuple):
    """What one stretch of backward does to memory, in bytes.

    At its highest point it holds `kept` (what the forward left for it and is not freed yet), `casts` (low-precision weights),
    `weight_gradients` (those it has made) and `working` (gradients of activations and temporaries); `peak` is their sum.
    `points`: the same four figures at each point that it came to, where the tape is traced.
    """

    peak: int
    kept: int
    casts: int
    weight_gradients: int
    points: tuple[tuple[int, int, int, int], ...] = ()

    @property
    def working(self) -> int:
        """Gradients of activations, and temporaries, at the highest point."""
        return self.peak - self.kept - self.casts - self.weight_gradients


def replay(
    tape: Tape,
    output: Tensor,
    held: Iterable[Tensor] = (),
    accumulate: bool = False,
    recomputed: tuple[int, int] = (0, 0),
) -> Replayed:
    """Runs the backward of `tape`, beginning with the gradient of `output`.

    `held`: tensors of the tape that are counted elsewhere (a checkpointed input). `accumulate`: weight gradients are added
    into ones that exist, so each new one lives for its operation only. `recomputed`: operations from, to (exclusive) whose
    kept tensors come back only when backward arrives there. autograd frees what an operation kept as soon as its backward is
    done, and passes the gradient of a sum on without a copy.
    """
    live = (_Traced if tape.traced else _Live)(tape, {id(tensor) for tensor in held}, accumulate)
    begin, end = recomputed
    later = live.hold(tape.operations[:begin] + tape.operations[end:], tape.operations[begin:end])
    live.take(output, output.bytes)
    for index in range(len(tape.operations) - 1, -1, -1):
        if index == end - 1:
            live.kept += later
            live.grow(later)
        live.backward(tape.operations[index])
    live.settle()
    return Replayed(*live.highest, tuple(live.points))


class _Storage:
    """Bytes of a gradient, and how many wait for it: the gradient of a sum serves both sides."""

    __slots__ = ("size", "users")

    def __init__(self, size: int) -> None:
        self.size, self.users = size, 1


class _Live:
    """Live bytes while backward runs."""

    def __init__(self, tape: Tape, held: set[int], accumulate: bool) -> None:
        self.autocast = tape.precision.compute if tape.precision.autocast else 0
        self.accumulate, self.held = accumulate, held
        self.gradients: dict[int, _Storage] = {}
        self.users: dict[int, int] = {}
        self.live = self.kept = self.casts = self.weight_gradients = self.pending = 0
        self.highest = (0, 0, 0, 0)
        self.points: list[tuple[int, int, int, int]] = []

    def hold(self, now: list[Operation], later: list[Operation]) -> int:
        """Begins with what `now` keeps; returns the bytes that only `later` keeps."""
        sizes = []
        for operations in (now, later):
            size = 0
            for operation in operations:
                self.casts += operation.casts
                for tensor in operation.kept:
                    key = id(tensor)
                    if key in self.users:
                        self.users[key] += 1
                    else:
                        self.users[key] = 1
                        size += 0 if key in self.held else tensor.elements * tensor.width
            sizes.append(size)
        self.kept = sizes[0]
        self.grow(self.kept + self.casts)
        return sizes[1]

    def grow(self, size: int) -> None:
        """Allocates."""
        self.live += size
        if self.live > self.highest[0]:
            self.highest = (self.live, self.kept, self.casts, self.weight_gradients)

    def drop(self, storage: _Storage) -> None:
        """One user less; the last one frees it."""
        storage.users -= 1
        if not storage.users:
            self.live -= storage.size

    def take(self, tensor: Tensor, size: int) -> None:
        """A new gradient for a tensor. A second one is added into the first, in place if nobody else waits for that."""
        self.grow(size)
        there = self.gradients.get(id(tensor))
        if there is None:
            self.gradients[id(tensor)] = _Storage(size)
        elif there.users == 1:
            self.live -= size
        else:
            self.grow(size)
            self.live -= size
            self.drop(there)
            self.gradients[id(tensor)] = _Storage(size)

    def pass_on(self, operation: Operation, incoming: _Storage) -> None:
        """The gradient of a sum goes to both sides as it is; a side in another format gets a cast."""
        for tensor in operation.inputs:
            if not tensor.grad:
                continue
            size = tensor.elements * tensor.width
            if size != incoming.size or id(tensor) in self.gradients:
                self.take(tensor, size)
            else:
                incoming.users += 1
                self.gradients[id(tensor)] = incoming

    def backward(self, operation: Operation) -> None:
        """One operation: make the gradients of its inputs and weights, then free what it kept and the one that came in."""
        if self.pending and operation.kind != "cast":
            self.settle()
        arrived = [
            gradient
            for tensor in (operation.output, *operation.others)
            if (gradient := self.gradients.pop(id(tensor), None))
        ]
        if not arrived:
            return
        if operation.view:
            self.pass_on(operation, arrived[0])
        else:
            for tensor in operation.inputs:
                if tensor.grad:
                    self.take(tensor, tensor.elements * tensor.width)
            if operation.weights:
                self.make(operation)
            if operation.temporary:
                self.grow(operation.temporary)
                self.live -= operation.temporary
        for gradient in arrived:
            self.drop(gradient)
        self.release(operation)

    def make(self, operation: Operation) -> None:
        """The gradients of an operation's weights, in the format of the product."""
        for weight in operation.weights:
            size = weight.elements * (self.autocast or weight.width)
            self.weight_gradients += size
            self.grow(size)
            self.pending += weight.elements * weight.width

    def settle(self) -> None:
        """New weight gradients: cast to FP32 under autocast, then kept, or added to those that are there.

        autograd runs the cast of the input first, since it was made last.
        """
        made, self.pending = self.pending, 0
        if self.autocast:
            narrow = made // 4 * self.autocast
            self.weight_gradients += made
            self.grow(made)
            self.live -= narrow
            self.weight_gradients -= narrow
        if self.accumulate:
            self.live -= made
            self.weight_gradients -= made

    def release(self, operation: Operation) -> None:
        """Frees the kept tensors that no operation needs any more."""
        self.live -= operation.casts
        self.casts -= operation.casts
        for tensor in operation.kept:
            key = id(tensor)
            self.users[key] -= 1
            if not self.users[key] and key not in self.held:
                size = tensor.elements * tensor.width
                self.live -= size
                self.kept -= size


class _Traced(_Live):
    """Notes every point, so that the highest one can be found for other numbers of tokens."""

    def grow(self, size: int) -> None:
        super().grow(size)
        self.points.append((self.live, self.kept, self.casts, self.weight_gradients))
