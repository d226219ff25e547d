import pytest

from trainmem.estimate import estimate
from trainmem.loss import head
from trainmem.precision import PRECISIONS
from trainmem.run import Run, model_of

MODEL = model_of(Run(model="llama-3.2-1b"))
N, H, V = 4096, MODEL.hidden, MODEL.vocab


def found(recipe="bf16-true", loss="full", trains=True):
    return head(MODEL, PRECISIONS[recipe], N, loss, trains, accumulate=False)


@pytest.mark.parametrize(("recipe", "norm"), [("bf16-true", 8), ("bf16-mixed", 10)])
def test_what_the_head_keeps(recipe, norm):
    """The final norm and the projection keep 8h (10h under autocast) + 4 bytes a token, the loss 4 bytes a logit."""
    kept = found(recipe)
    assert kept.kept == N * (norm * H + 4)
    assert kept.log_probabilities == 4 * V * N


def test_ten_bytes_a_logit_at_the_end_of_forward():
    """BF16 logits and their FP32 copy stand beside the FP32 log-probabilities."""
    one = found()
    assert one.logits + one.log_probabilities == 10 * V * N


def test_twelve_bytes_a_logit_in_its_backward():
    """Two FP32 gradients stand beside the FP32 log-probabilities."""
    one = found()
    assert one.peak_kept == one.kept + 4 * V * N
    assert one.working == 8 * V * N
    assert one.peak == one.peak_kept + one.working


def test_kept_outputs_are_two_bytes_a_logit():
    """A loop that holds on to the outputs keeps the BF16 logits."""
    assert found().outputs == 2 * V * N
    assert found("fp32-true").outputs == 4 * V * N
    run = Run(model="llama-3.2-1b", precision="bf16-true", seq=N)
    more = (
        estimate(run.but(keep_outputs=True)).phases["loss backward"]
        - estimate(run).phases["loss backward"]
    )
    assert more == 2 * V * N


def test_autocast_copies_the_heads_weight():
    """The tied embedding is cast for the projection: 2 bytes a weight."""
    assert found("bf16-mixed").casts == 2 * V * H
    assert found().casts == 0


def test_a_chunked_loss_holds_an_eighth_of_the_logits():
    """Chunks are recomputed in backward, so that only one chunk's logits ever exist, and no probabilities are kept."""
    whole, chunked = found(), found(loss="chunked")
    assert chunked.log_probabilities == 0
    assert chunked.logits == (whole.logits + whole.log_probabilities) // 8


def test_a_fused_loss_keeps_no_logits():
    """Gradients of the head are made in the forward; in backward a token takes 12h + 4 bytes, whatever the vocabulary."""
    fused = found(loss="fused")
    assert fused.early == 2 * V * H
    assert fused.log_probabilities == fused.outputs == 0
    assert fused.peak == N * (12 * H + 4)


def test_a_frozen_head_makes_no_gradient():
    """Under LoRA the head does not train."""
    assert found(trains=False).peak_gradients == 0
    assert found(trains=False, loss="fused").early == 0


def test_ligers_chunks_are_powers_of_two():
    """2,048 tokens divided by 128,256 / 4,096 rounded up is 64: that many tokens' logits exist at once."""
    model = model_of(Run(model="llama-3.1-8b"))
    fused = head(model, PRECISIONS["bf16-true"], 2048, "fused", trains=False, accumulate=False)
    assert fused.logits == 2 * 64 * model.vocab


def test_later_chunks_stand_beside_the_gradient_of_earlier_ones():
    """A chunk's own gradient of the head is added to the one that the chunks before left, unless it is there anyway."""
    keys = (MODEL, PRECISIONS["bf16-true"], N, "chunked")
    alone, beside = (head(*keys, trains=True, accumulate=kept) for kept in (False, True))
    assert alone.peak - beside.peak == 2 * V * H
    assert alone.peak_gradients - beside.peak_gradients == 2 * V * H
    assert alone.working == beside.working > 0
