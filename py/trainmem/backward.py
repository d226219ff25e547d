"""Replay: the backward of a tape, operation by operation, and the highest point that it reaches."""

from collections.abc import Iterable
from typing import NamedTuple

from trainmem.tensors import Operation, Tape, Tensor


class Replayed(NamedTuple):
    """What one stretch of backward does to memory, in bytes.

    peak: the most that it holds at once: what it kept, low-precision weights, activations' gradients and new weight gradients.
    weight_gradients: what it leaves behind. passed_on: the gradient that goes to the layer before it.
    """

    peak: int
    weight_gradients: int
    passed_on: int


def replay(
    tape: Tape, output: Tensor, held: Iterable[Tensor] = (), accumulate: bool = False
) -> Replayed:
    """Runs the backward of `tape`, beginning with the gradient of `output`.

    `held`: tensors of the tape that are counted elsewhere (a checkpointed input). `accumulate`: weight gradients are added
    into ones that exist, so each new one lives for its operation only. autograd frees what an operation kept as soon as its
    backward is done, and passes the gradient of a sum on without a copy.
    """
    state = _Live(tape, {id(tensor) for tensor in held}, accumulate)
    state.take(output, output.bytes)
    for operation in reversed(tape.operations):
        state.backward(operation)
    state.settle()
    return Replayed(state.peak, state.weight_gradients, state.live)


class _Storage:
    """Bytes of a gradient, and how many wait for it: the gradient of a sum serves both sides."""

    __slots__ = ("size", "users")

    def __init__(self, size: int) -> None:
        self.size, self.users = size, 1


class _Live:
    """Live bytes while backward runs."""

    def __init__(self, tape: Tape, held: set[int], accumulate: bool) -> None:
        self.width, self.compute = tape.precision.weights, tape.precision.compute
        self.accumulate, self.held = accumulate, held
        self.gradients: dict[int, _Storage] = {}
        self.users: dict[int, int] = {}
        self.weight_gradients = self.pending = 0
        users, live = self.users, 0
        for operation in tape.operations:
            live += operation.casts
            for tensor in operation.kept:
                key = id(tensor)
                if key in users:
                    users[key] += 1
                else:
                    users[key] = 1
                    live += 0 if key in held else tensor.elements * tensor.width
        self.live = self.peak = live

    def grow(self, size: int) -> None:
        """Allocates."""
        self.live += size
        if self.live > self.peak:
            self.peak = self.live

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
            if tensor.elements * tensor.width != incoming.size or id(tensor) in self.gradients:
                self.take(tensor, tensor.elements * tensor.width)
            else:
                incoming.users += 1
                self.gradients[id(tensor)] = incoming

    def backward(self, operation: Operation) -> None:
        """One operation: make the gradients of its inputs and weights, then free what it kept and the one that came in."""
        if self.pending and operation.kind != "cast":
            self.settle()
        incoming = self.gradients.pop(id(operation.output), None)
        if incoming is None:
            return
        if operation.view:
            self.pass_on(operation, incoming)
        else:
            for tensor in operation.inputs:
                if tensor.grad:
                    self.take(tensor, tensor.elements * tensor.width)
            made = sum(weight.elements for weight in operation.weights)
            self.grow(made * self.compute + operation.temporary)
            self.live -= operation.temporary
            self.pending += made
        self.drop(incoming)
        self.release(operation)

    def settle(self) -> None:
        """New weight gradients: cast to the weights' format under autocast, then kept, or added to those that are there.

        autograd runs the cast of the input first, since it was made last.
        """
        made, self.pending = self.pending, 0
        if self.width != self.compute:
            self.grow(made * self.width)
            self.live -= made * self.compute
        if self.accumulate:
            self.live -= made * self.width
        self.weight_gradients += made * self.width

    def release(self, operation: Operation) -> None:
        """Frees the kept tensors that no operation needs any more."""
        self.live -= operation.casts
        for tensor in operation.kept:
            key = id(tensor)
            self.users[key] -= 1
            if not self.users[key] and key not in self.held:
                self.live -= tensor.elements * tensor.width
