"""Each phase against its published form, for Llama 3.2 1B and GPT-2 in pure BF16 on one GPU."""

import pytest

from trainmem.estimate import estimate
from trainmem.ledger import PHASES
from trainmem.run import Run

SEQ = 2048
RUN = Run(model="llama-3.2-1b", precision="bf16-true", micro_batch=2, seq=SEQ)
N = 2 * SEQ
H, F, V, LAYERS, HEAD_DIM = 2048, 8192, 128_256, 16, 64
P = 1_235_814_400
LAYER = 60_821_504
W = 2
STATIC = 3 * W * P + 16 * N  # weights, two moments; ids and labels
KEPT = 108_680 * N + 24  # a layer
SAVED = LAYERS * KEPT + (8 * H + 4) * N + 4 * V * N + 2 * SEQ * HEAD_DIM * W


def phase(name, **keys):
    return estimate(RUN.but(**keys)).phases[name]


def test_forward_end():
    """Weights, states, all that backward needs, and six more bytes a logit; to within the position ids."""
    assert phase("forward end") == pytest.approx(STATIC + SAVED + 6 * V * N, abs=16)


def test_loss_backward():
    """Eight bytes a logit of gradients instead of the logits and their copy."""
    assert phase("loss backward") == pytest.approx(STATIC + SAVED + 8 * V * N, abs=16)


def test_layers_backward():
    """At the last layer: what all layers keep, the head's gradient, the work in one feed-forward part."""
    below = STATIC + SAVED - (8 * H + 4) * N - 4 * V * N
    work = (2 * H + 4 * F) * N + F * H * W + V * H * W
    assert phase("layers backward") == pytest.approx(below + work, rel=1e-4)


def test_embedding_tail():
    """All gradients of layers, and three of the tied embedding: the head's, its own, their sum; two and its output's if not tied."""
    assert phase("embedding tail") == pytest.approx(
        STATIC + LAYERS * LAYER * W + 3 * V * H * W, rel=1e-4
    )
    untied = phase("embedding tail", tied="0") - 3 * V * H * W  # the head's own weight and moments
    assert untied == pytest.approx(
        STATIC + LAYERS * LAYER * W + 2 * V * H * W + 2 * H * N, rel=1e-4
    )


@pytest.mark.parametrize(
    ("optimizer", "units"),
    [("adamw", 5), ("adamw-fused", 4), ("sgd", 2), ("sgd-momentum", 3), ("adagrad", 5)],
)
def test_optimizer_step(optimizer, units):
    """Weights, gradients, states and the step's temporaries, in copies of the weights."""
    assert phase("optimizer step", optimizer=optimizer) == units * W * P + 16 * N


def test_full_checkpointing_in_the_forms():
    """With full checkpointing a layer keeps 2h bytes a token."""
    saved = SAVED - LAYERS * KEPT + LAYERS * 2 * H * N
    found = phase("loss backward", checkpointing="full")
    assert found == pytest.approx(STATIC + saved + 8 * V * N + 8 * SEQ, abs=16)


def test_kept_gradients_are_there_in_every_phase():
    """A loop that keeps or accumulates gradients has all of them at the end of forward."""
    for keys in ({"gradients": "kept"}, {"grad_accum": 4}):
        assert phase("forward end", **keys) - phase("forward end") == W * P
        assert phase("optimizer step", **keys) == phase("optimizer step")


def test_the_peak_is_the_largest_phase():
    """A report's phases are those of the step in their order, and the peak is the largest."""
    for keys in (
        {},
        {"checkpointing": "full"},
        {"optimizer": "sgd"},
        {"seq": 8192},
        {"micro_batch": 1, "seq": 1},
    ):
        report = estimate(RUN.but(**keys))
        assert tuple(report.phases) == PHASES
        assert report.phases[report.peak_phase] == max(report.phases.values()) == report.allocated


def test_gpt2_has_learned_positions_and_their_gradient():
    """GPT-2 keeps a dropout mask of the embedding, no rotary tables, and a gradient for each position."""
    report = estimate(Run(model="gpt2", precision="bf16-true", seq=1024))
    forward, tail = report.amounts["forward end"], report.amounts["embedding tail"]
    assert forward["embedding_dropout"] == 1024 * 768
    assert not forward["position_tables"]
    assert tail["embedding_gradient"] == 2 * 768 * (50_257 + 1024)


def test_an_offloaded_optimizer_takes_no_states():
    """Neither states nor the step's temporaries are on the GPU."""
    assert phase("optimizer step", offload="optimizer") == 2 * W * P + 16 * N


def test_frozen_weights_have_neither_gradients_nor_states():
    """Under LoRA the optimizer sees the adapter alone: 2 bytes a frozen weight, 4 + 4 + 8 + 4 a trained one."""
    report = estimate(RUN.but(lora_rank=8))
    trained = 16 * 8 * (2 * H + H + 512)
    assert report.trainable == trained
    assert report.phases["optimizer step"] == W * P + 20 * trained + 16 * N
