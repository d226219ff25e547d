"""The head: final norm, projection to the vocabulary, cross-entropy; what it holds at the end of forward and in backward.

full     transformers' ForCausalLMLoss: logits, an FP32 copy, FP32 log-probabilities; backward adds two FP32 gradients.
chunked  projection and loss on an eighth of the tokens at a time, recomputed in backward: one chunk's logits at once.
fused    Liger's fused linear cross-entropy: gradients of the hidden states and of the head are made in the forward, chunk by
         chunk, and the logits never exist as a whole.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainmem.architectures import ARCHITECTURES, Model
from trainmem.backward import replay
from trainmem.precision import Precision
from trainmem.tape import Tape
from trainmem.tensors import Tensor

CHUNKS = 8


class Head(NamedTuple):
    """Bytes of the head on one GPU.

    kept: from forward to backward besides the log-probabilities; log_probabilities; logits: alive at the end of forward only;
    casts: low-precision copy of the head's weight; outputs: the logits that a loop holds on to; gradients: of the head's own
    weights, left behind; early: gradients made in the forward already; the peak of its backward is split as Replayed is, and
    `points` are Replayed's.
    """

    kept: int
    log_probabilities: int
    logits: int
    casts: int
    outputs: int
    early: int
    peak: int
    peak_kept: int
    peak_casts: int
    peak_gradients: int
    points: tuple[tuple[int, int, int, int], ...] = ()

    @property
    def working(self) -> int:
        """Logits' gradients and other temporaries at the highest point of its backward."""
        return self.peak - self.peak_kept - self.peak_casts - self.peak_gradients


Projection = Callable[[Model, Precision, int, bool, bool], Head]


def head(
    model: Model,
    precision: Precision,
    tokens: int,
    loss: str,
    trains: bool,
    accumulate: bool,
    whole: Projection | None = None,
) -> Head:
    """The head for `tokens` tokens by the way the loss is computed; `whole` walks it, `projection` unless said."""
    whole = whole or projection
    if loss == "full":
        return whole(model, precision, tokens, trains, accumulate)
    one = whole(model, precision, _chunk(model, tokens, loss), trains, False)
    if loss == "fused":
        return _fused(model, precision, tokens, one, trains)
    earlier = model.vocab * model.hidden * precision.gradients if trains and not accumulate else 0
    return _chunked(model, precision, tokens, one, earlier)


def _chunk(model: Model, tokens: int, loss: str) -> int:
    """Tokens of a chunk. Liger: tokens divided by vocabulary / hidden, rounded up to a power of two."""
    if loss == "chunked":
        return -(-tokens // CHUNKS)
    share = -(-tokens // -(-model.vocab // model.hidden))
    return min(tokens, 1 << (share - 1).bit_length())


def projection(
    model: Model,
    precision: Precision,
    tokens: int,
    trains: bool,
    accumulate: bool,
    traced: bool = False,
) -> Head:
    """Walks norm, projection and cross-entropy for so many tokens at once."""
    tape = Tape(precision, tokens, tokens)
    tape.trains, tape.traced = trains, traced
    norm = getattr(tape, ARCHITECTURES[model.arch].final_norm)
    normal = norm(tape.new(model.hidden), "norm")
    logits = tape.linear(normal, model.vocab, "lm_head", ARCHITECTURES[model.arch].head_bias)
    if ARCHITECTURES[model.arch].capped:
        logits = tape.scale(tape.tanh(tape.scale(logits)))
    wide = tape.cast(logits, 4)
    probabilities = Tensor(wide.elements, 4)
    tape.record("log_softmax", probabilities, (wide,), (probabilities,))
    loss = tape.record("nll", Tensor(1, 4), (probabilities,))
    back = replay(tape, loss, accumulate=accumulate)
    transient = logits.bytes + (wide.bytes if wide is not logits else 0)
    hidden_states = (
        0 if trains and not precision.autocast else normal.bytes
    )  # the model's output, until the loss is returned
    return Head(
        kept=tape.kept_bytes() - probabilities.bytes,
        log_probabilities=probabilities.bytes,
        logits=transient + hidden_states,
        casts=sum(operation.casts for operation in tape.operations),
        outputs=logits.bytes,
        early=0,
        peak=back.peak,
        peak_kept=back.kept,
        peak_casts=back.casts,
        peak_gradients=back.weight_gradients,
        points=back.points,
    )


def _chunked(model: Model, precision: Precision, tokens: int, one: Head, earlier: int) -> Head:
    """One chunk's logits at a time, in forward and again in backward; the hidden states are kept whole.

    `earlier`: bytes of the head's gradient from the chunks before, to which a chunk's own is added.
    """
    kept = _normed(model, precision, tokens)
    hidden_gradient = tokens * model.hidden * precision.weights
    return one._replace(
        kept=kept, log_probabilities=0, logits=one.logits + one.log_probabilities, outputs=0,
        peak=one.peak + kept + hidden_gradient + earlier, peak_kept=kept,
        peak_gradients=one.peak_gradients + earlier,
    )  # fmt: skip


def _fused(model: Model, precision: Precision, tokens: int, one: Head, trains: bool) -> Head:
    """Gradients of the hidden states and the head wait from the forward on; a chunk's logits are turned into gradients in place."""
    kept = _normed(model, precision, tokens) + tokens * model.hidden * precision.compute
    early = model.vocab * model.hidden * precision.weights if trains else 0
    logits = one.outputs + (model.vocab * model.hidden * precision.compute if trains else 0)
    return one._replace(
        kept=kept, log_probabilities=0, logits=logits, outputs=0, early=early,
        peak=kept + tokens * model.hidden * precision.weights, peak_kept=kept, peak_casts=0, peak_gradients=0,
    )  # fmt: skip


def _normed(model: Model, precision: Precision, tokens: int) -> int:
    """Bytes that the final norm and the input of the projection keep."""
    tape = Tape(precision, tokens, tokens)
    norm = getattr(tape, ARCHITECTURES[model.arch].final_norm)
    tape.linear(norm(tape.new(model.hidden), "norm"), 1, "lm_head")
    return tape.kept_bytes()
