"""The recorder under the tape: it makes tensors, notes operations, and knows the simple ones.

An operation keeps a tensor only when the gradient that needs it is asked for; a tensor kept by two operations counts once, and a view
keeps what it is a view of. Elements are counted for the whole micro-batch on one GPU.
"""

from collections.abc import Iterable

from trainmem.precision import Precision
from trainmem.tensors import Adapter, Operation, Tensor, Weight


class Recorder:
    """Records operations on `tokens` tokens (sequences of `seq`); one instance a layer kind.

    `traced`: whether a replay of it is to report every point that backward comes to, not the highest alone.
    """

    traced = False

    def __init__(
        self,
        precision: Precision,
        tokens: int,
        seq: int,
        attention: str = "sdpa",
        adapter: Adapter | None = None,
    ) -> None:
        self.precision, self.tokens, self.seq = precision, tokens, seq
        self.attention, self.adapter = attention, adapter
        self.trains = adapter is None
        self.region = (0, 0)
        self.weights: list[Weight] = []
        self.operations: list[Operation] = []
        self.flops = 0

    def new(self, per_token: int, width: int | None = None, grad: bool = True) -> Tensor:
        """A tensor of `per_token` numbers a token, in the weights' format unless said."""
        return Tensor(self.tokens * per_token, width or self.precision.weights, grad)

    def record(
        self,
        kind: str,
        output: Tensor,
        inputs: tuple[Tensor, ...],
        kept: Iterable[Tensor] = (),
        weights: tuple[Weight, ...] = (),
        temporary: int = 0,
        view: bool = False,
        casts: int = 0,
        others: tuple[Tensor, ...] = (),
    ) -> Tensor:
        """Adds an operation; one whose output needs no gradient keeps nothing, and a view keeps what it is a view of."""
        if output.grad:
            stored = tuple(tensor.storage for tensor in kept)
            self.operations.append(
                Operation(output, inputs, stored, weights, temporary, view, casts, kind, others)
            )
        return output

    def cast(self, x: Tensor, width: int) -> Tensor:
        """The same numbers in another format; a new tensor unless the format is the same already."""
        if x.width == width:
            return x
        return self.record("cast", Tensor(x.elements, width, x.grad), (x,))

    def begin_attention(self) -> None:
        """Marks where the attention block begins (what attention-only checkpointing recomputes)."""
        self.region = (len(self.operations), len(self.operations))

    def end_attention(self) -> None:
        """Marks where the attention block ends."""
        self.region = (self.region[0], len(self.operations))

    def kept(self) -> dict[int, Tensor]:
        """What backward needs, each tensor once."""
        return {id(t): t for operation in self.operations for t in operation.kept}

    def cast_bytes(self) -> int:
        """Bytes of the low-precision weights that autocast caches: 2 a weight of each product that trains, biases included."""
        if not self.precision.autocast:
            return 0
        return self.precision.compute * sum(
            weight.elements for weight in self.weights if weight.matmul and weight.trainable
        )

    def kept_bytes(self) -> int:
        """Bytes kept from the forward to the backward of what was recorded."""
        return sum(t.bytes for t in self.kept().values())

    def activation(self, x: Tensor) -> Tensor:
        """A pointwise function with a fused kernel (SiLU, GELU): keeps its input."""
        return self.record("activation", Tensor(x.elements, x.width, x.grad), (x,), (x,))

    def gelu_written_out(self, x: Tensor) -> Tensor:
        """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) as separate operations: keeps four tensors of its size.

        Autocast runs the power, and so all but the half, in FP32.
        """
        half = self.record("scale", Tensor(x.elements, x.width, x.grad), (x,))
        power = self.cast(x, 4) if self.precision.autocast else x
        cube = self.record(
            "power",
            Tensor(x.elements, power.width, x.grad),
            (power,),
            (power,),
            temporary=2 * power.bytes,
        )
        inner = self.add(x, cube)
        tanh = Tensor(x.elements, inner.width, x.grad)
        self.record("tanh", tanh, (inner,), (tanh,))
        one = self.record("add", Tensor(x.elements, tanh.width, x.grad), (tanh,), view=True)
        return self.mul(half, one)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x y: each side's gradient needs the other."""
        kept = ((x,) if y.grad else ()) + ((y,) if x.grad else ())
        output = Tensor(x.elements, max(x.width, y.width), x.grad or y.grad)
        mixed = output.bytes if x.width != y.width else 0  # the gradient is made wide, then cast
        return self.record("mul", output, (x, y), kept, temporary=mixed)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y: keeps nothing, and its gradient is passed on without a copy."""
        output = Tensor(x.elements, max(x.width, y.width), x.grad or y.grad)
        return self.record("add", output, (x, y), view=True)

    def dropout(self, x: Tensor, probability: float) -> Tensor:
        """Dropout: keeps a mask of one byte an element."""
        if not probability:
            return x
        return self.record(
            "dropout", Tensor(x.elements, x.width, x.grad), (x,), (Tensor(x.elements, 1),)
        )

    def relu(self, x: Tensor) -> Tensor:
        """ReLU: keeps its output, which the next product keeps anyway."""
        output = Tensor(x.elements, x.width, x.grad)
        return self.record("activation", output, (x,), (output,))

    def tanh(self, x: Tensor) -> Tensor:
        """Keeps its output."""
        output = Tensor(x.elements, x.width, x.grad)
        return self.record("tanh", output, (x,), (output,))

    def sigmoid(self, x: Tensor) -> Tensor:
        """Keeps its output."""
        output = Tensor(x.elements, x.width, x.grad)
        return self.record("sigmoid", output, (x,), (output,))

    def scale(self, x: Tensor) -> Tensor:
        """A constant times x: keeps nothing."""
        return self.record("scale", Tensor(x.elements, x.width, x.grad), (x,))

    def split(self, x: Tensor, *widths: int) -> tuple[Tensor, ...]:
        """Views of one projection's output; their gradients are joined into one."""
        views = tuple(Tensor(self.tokens * width, x.width, x.grad, storage=x) for width in widths)
        self.record("split", views[0], (x,), others=views[1:])
        return views

    def part(self, x: Tensor, width: int) -> Tensor:
        """A view of some columns; its backward makes a gradient of the whole, with zeros elsewhere."""
        view = Tensor(self.tokens * width, x.width, x.grad, storage=x)
        return self.record("part", view, (x,))

    def join(self, x: Tensor, y: Tensor, width: int) -> Tensor:
        """Two pieces in a new tensor of `width` numbers a token; a piece for all heads is repeated. Backward copies each piece."""
        output = Tensor(self.tokens * width, max(x.width, y.width), x.grad or y.grad)
        return self.record("join", output, (x, y))

    def copy(self, x: Tensor) -> Tensor:
        """The same numbers in another order of dimensions; the gradient is passed on."""
        return self.record("copy", Tensor(x.elements, x.width, x.grad), (x,), view=True)
