"""The tape: a symbolic walk over one layer's operations, each saying what autograd keeps for its backward.

The walk follows PyTorch's rules: an operation keeps a tensor only when the gradient that needs it is asked for, a tensor kept by
two operations counts once, and under autocast each operation casts its own copy of an input. `replay` then runs the
backward over the same tape, freeing what each operation kept, and finds the highest point of the layer's backward.

Elements are counted for the whole micro-batch on one GPU. Memory inside kernels is left out (flash attention's
accumulators, cuBLAS workspaces); it belongs to the overhead.
"""

from collections.abc import Iterable

from trainmem.precision import Precision
from trainmem.tensors import Adapter, Operation, Tensor, Weight


class Tape:
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

    # -- making and recording

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

    # -- operations

    def linear(
        self, x: Tensor, out: int, name: str, bias: bool = False, adaptable: bool = True
    ) -> Tensor:
        """y = x W^T + b. Keeps its input when W trains; under autocast that is a copy of its own.

        `adaptable`: whether it is a module of its own, on which an adapter can stand.
        """
        columns = x.elements // self.tokens
        width = self.precision.weights
        weights: tuple[Weight, ...] = (Weight(name, out, columns, width, self.trains),)
        if bias:
            weights += (Weight(name + ".bias", out, 0, width, self.trains),)
        self.weights += weights
        self.flops += 2 * self.tokens * columns * out
        cast = self.cast(x, self.precision.compute)
        output = Tensor(self.tokens * out, self.precision.compute, x.grad or self.trains)
        casts = self.precision.compute * out * columns if self.precision.autocast and x.grad else 0
        trained = weights if self.trains else ()
        self.record("linear", output, (cast,), (cast,) if self.trains else (), trained, casts=casts)
        if adaptable and self.adapter and self.adapter.covers(name):
            output = self._adapted(x, output, columns, out, name)
        return output

    def _adapted(self, x: Tensor, base: Tensor, columns: int, out: int, name: str) -> Tensor:
        """PEFT's LoRA: base(x) + B(A(dropout(x))) * scale, A and B in the adapter's format."""
        adapter = self.adapter
        assert adapter
        compute = self.precision.compute if self.precision.autocast else adapter.width
        x = self.cast(x, adapter.width)
        if adapter.dropout:
            x = self.dropout(x, adapter.dropout)
        down = Weight(name + ".lora_A", adapter.rank, columns, adapter.width)
        up = Weight(name + ".lora_B", out, adapter.rank, adapter.width)
        self.weights += (down, up)
        self.flops += 2 * self.tokens * adapter.rank * (columns + out)
        x = self.cast(x, compute)
        casts = [compute * w.elements if self.precision.autocast else 0 for w in (down, up)]
        casts[0] *= x.grad
        inner = self.new(adapter.rank, compute)
        self.record("linear", inner, (x,), (x,), (down,), casts=casts[0])
        outer = self.new(out, compute)
        self.record("linear", outer, (inner,), (inner,), (up,), casts=casts[1])
        scaled = self.record("scale", Tensor(outer.elements, compute), (outer,))
        total = self.add(base, scaled)
        return self.cast(total, base.width)

    def rmsnorm(self, x: Tensor, name: str, group: int = 0) -> Tensor:
        """transformers' RMSNorm: upcast to FP32, normalise over `group` numbers (all of a token's), downcast, scale."""
        groups = x.elements // (group or x.elements // self.tokens)
        width = self.precision.weights
        weight = Weight(name, x.elements // groups, 0, width, self.trains, matmul=False)
        self.weights.append(weight)
        up = self.cast(x, 4)
        inverse = Tensor(groups, 4, x.grad)
        # x rsqrt(mean(x^2)) keeps x and the inverse root. Its backward ends in the power's, with four FP32 tensors of x's size
        # besides the gradient of x: the mean's gradient, x, 2x and their product; the one that came in is gone by then.
        scaled = self.record(
            "normalise",
            Tensor(x.elements, 4, x.grad),
            (up,),
            (up, inverse),
            temporary=12 * x.elements,
        )
        normal = self.cast(scaled, x.width)
        output = Tensor(x.elements, x.width, x.grad or self.trains)
        if not self.trains:
            return self.record("scale", output, (normal,))
        return self.record("scale", output, (normal,), (normal,), (weight,), temporary=normal.bytes)

    def gemma_norm(self, x: Tensor, name: str, group: int = 0) -> Tensor:
        """Gemma's RMSNorm: scaled by 1 + weight in FP32, and only then cast back."""
        groups = x.elements // (group or x.elements // self.tokens)
        weight = Weight(
            name, x.elements // groups, 0, self.precision.weights, self.trains, matmul=False
        )
        self.weights.append(weight)
        up, inverse = self.cast(x, 4), Tensor(groups, 4, x.grad)
        normal = Tensor(x.elements, 4, x.grad)
        self.record("normalise", normal, (up,), (up, inverse), temporary=12 * x.elements)
        output = Tensor(x.elements, 4, x.grad or self.trains)
        factor = Tensor(weight.elements, 4)
        if self.trains:
            self.record(
                "scale", output, (normal,), (normal, factor), (weight,), temporary=normal.bytes
            )
        else:
            self.record("scale", output, (normal,), (factor,))
        return self.cast(output, x.width)

    def layernorm(self, x: Tensor, name: str) -> Tensor:
        """torch's LayerNorm: keeps its input, mean and inverse deviation. Under autocast it runs in FP32."""
        columns = x.elements // self.tokens
        width = self.precision.weights
        weights = (
            Weight(name, columns, 0, width, self.trains, False),
            Weight(name + ".bias", columns, 0, width, self.trains, False),
        )
        self.weights += weights
        if self.precision.autocast:
            x = self.cast(x, 4)
        statistics = Tensor(2 * self.tokens, 4)
        output = Tensor(x.elements, x.width, x.grad or self.trains)
        return self.record(
            "layernorm", output, (x,), (x, statistics), weights if self.trains else ()
        )

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

    def copy(self, x: Tensor) -> Tensor:
        """The same numbers in another order of dimensions; the gradient is passed on."""
        return self.record("copy", Tensor(x.elements, x.width, x.grad), (x,), view=True)

    def rope(self, x: Tensor, stream: Tensor) -> Tensor:
        """Rotary position embedding, x cos + rotate(x) sin; its tables are made once, in the stream's format."""
        output = Tensor(x.elements, max(x.width, stream.width), x.grad)
        return self.record("rope", output, (x,), temporary=2 * output.bytes)

    def rope_joined(self, x: Tensor, stream: Tensor) -> Tensor:
        """Rotary embedding of a head's first numbers, joined with the rest. Backward: a gradient of the whole for each piece, then the sum."""
        output = Tensor(x.elements, max(x.width, stream.width), x.grad)
        return self.record("rope", output, (x,), temporary=output.bytes)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        heads: int,
        kv_heads: int,
        dropout: float = 0.0,
        upcast: bool = True,
        joined: bool = False,
        capped: bool = False,
        window: int = 0,
    ) -> Tensor:
        """Scaled dot-product attention by the run's kernel; `upcast`: whether the written-out form has an FP32 softmax.

        `joined`: q was joined of two pieces, so its heads lie one after another. Flash attention returns its output in the order
        of q, and to go back to tokens is then a copy. `capped`: the scores go through a tanh. `window`: tokens that are seen; a sequence as long or longer needs a mask, which
        flash attention does not take.
        """
        masked = 0 < window <= self.seq
        self.flops += 4 * self.tokens * self.seq * (q.elements // self.tokens)
        if self.attention == "eager" or masked:
            k, v = self._repeated(k, q, kv_heads), self._repeated(v, q, kv_heads)
        q, k, v = (self.cast(x, self.precision.compute) for x in (q, k, v))
        if self.attention == "eager":
            return self._eager(
                q,
                k,
                v,
                heads,
                dropout,
                4 if upcast or self.precision.autocast else q.width,
                capped,
            )
        output = Tensor(q.elements, q.width, q.grad or k.grad or v.grad)
        if q.width == 4 and not masked:  # memory-efficient attention takes no grouped heads
            k, v = self._repeated(k, q, kv_heads), self._repeated(v, q, kv_heads)
        kept = (Tensor(heads * self.tokens, 4), Tensor(24, 1))
        inputs: tuple[Tensor, ...] = (q, k, v)
        if masked:
            inputs += (Tensor(self.tokens * (self.seq + -self.seq % 16), q.width, grad=False),)
        self.record("flash", output, inputs, (*inputs, output, *kept))
        return self.copy(output) if joined and q.width != 4 and not masked else output

    def _repeated(self, x: Tensor, like: Tensor, kv_heads: int) -> Tensor:
        """A group's heads for each of its queries; a single head is only shown several times."""
        if x.elements == like.elements:
            return x
        storage = x if kv_heads == 1 else None
        return self.record("repeat", Tensor(like.elements, x.width, x.grad, storage), (x,))

    def _eager(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        heads: int,
        dropout: float,
        width: int,
        capped: bool,
    ) -> Tensor:
        """Attention written out: the scores of every pair of tokens, softmax in `width` bytes, cast back."""
        if self.tokens > self.seq:  # a product of several sequences needs its matrices in a row
            q, k, v = (x if x.storage is x else self.copy(x) for x in (q, k, v))
        pairs = heads * self.tokens * self.seq
        scored = q.grad or k.grad
        kept = ((q,) if k.grad else ()) + ((k,) if q.grad else ())
        scores = self.record("matmul", Tensor(pairs, q.width, scored), (q, k), kept)
        scores = self.scale(scores)
        if capped:
            scores = self.scale(self.tanh(self.scale(scores)))
        soft = Tensor(pairs, width, scored)
        self.record("softmax", soft, (self.cast(scores, width),), (soft,))
        shares = self.dropout(self.cast(soft, q.width), dropout)
        kept = ((shares,) if v.grad else ()) + ((v,) if scored else ())
        output = Tensor(q.elements, q.width, scored or v.grad)
        return self.record("matmul", output, (shares, v), kept)
