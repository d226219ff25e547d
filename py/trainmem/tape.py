"""The tape: a symbolic walk over one layer's operations, each saying what autograd keeps for its backward.

The walk follows PyTorch's rules: an operation keeps a tensor only when the gradient that needs it is asked for, a tensor kept by
two operations counts once, and under autocast each operation casts its own copy of an input. `replay` then runs the
backward over the same tape, freeing what each operation kept, and finds the highest point of the layer's backward.

Elements are counted for the whole micro-batch on one GPU. Memory inside kernels is left out (flash attention's
accumulators, cuBLAS workspaces); it belongs to the overhead.
"""

from trainmem.recorder import Recorder
from trainmem.tensors import Tensor, Weight


class Tape(Recorder):
    """Projections, norms, rotary embedding and attention: what a layer is made of."""

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
            k, v = self._repeated(k, heads, kv_heads), self._repeated(v, heads, kv_heads)
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
        elements = q.elements * v.elements // k.elements  # a value may be narrower than its key
        output = Tensor(elements, q.width, q.grad or k.grad or v.grad)
        if q.width == 4 and not masked:  # memory-efficient attention takes no grouped heads
            k, v = self._repeated(k, heads, kv_heads), self._repeated(v, heads, kv_heads)
        kept = (Tensor(heads * self.tokens, 4), Tensor(24, 1))
        inputs: tuple[Tensor, ...] = (q, k, v)
        if masked:
            inputs += (Tensor(self.tokens * (self.seq + -self.seq % 16), q.width, grad=False),)
        self.record("flash", output, inputs, (*inputs, output, *kept))
        return self.copy(output) if joined and q.width != 4 and not masked else output

    def _repeated(self, x: Tensor, heads: int, kv_heads: int) -> Tensor:
        """A group's heads for each of its queries; a single head is only shown several times."""
        if heads == kv_heads:
            return x
        storage = x if kv_heads == 1 else None
        return self.record(
            "repeat", Tensor(x.elements * heads // kv_heads, x.width, x.grad, storage), (x,)
        )

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
        output = Tensor(q.elements * v.elements // k.elements, q.width, scored or v.grad)
        return self.record("matmul", output, (shares, v), kept)
