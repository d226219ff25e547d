import pytest

from trainmem.estimate import estimate
from trainmem.run import Run

SEQ = 2048
BASE = Run(model="llama-3.2-1b", precision="bf16-true", seq=SEQ)
H, LAYERS = 2048, 16
WHOLE = 108_680


@pytest.mark.parametrize(
    ("recipe", "width"), [("bf16-true", 2), ("bf16-mixed", 4), ("fp32-true", 4)]
)
def test_full_checkpointing_keeps_a_layers_input(recipe, width):
    """2h bytes a token in BF16; 4h under autocast, where the residual stream is FP32."""
    report = estimate(BASE.but(precision=recipe, checkpointing="full"))
    assert report.layer_saved == width * H * SEQ


@pytest.mark.parametrize(
    ("mode", "attention", "bytes_a_token"),
    [
        ("none", "sdpa", WHOLE),
        ("selective-matmul", "sdpa", 55_424),
        ("none", "eager", 507_912),
        ("selective-attention", "eager", 98_312),
    ],
)
def test_what_selective_checkpointing_keeps(mode, attention, bytes_a_token):
    """The bytes a token and layer that PyTorch kept for Llama 3.2 1B, to within the 24 bytes of random state."""
    report = estimate(BASE.but(checkpointing=mode, attention=attention))
    assert report.layer_saved == pytest.approx(bytes_a_token * SEQ, abs=64)


@pytest.mark.parametrize(("period", "checkpointed"), [(2, 8), (3, 6), (4, 4)])
def test_every_nth_layer_is_checkpointed(period, checkpointed):
    """Layers 0, N, 2N ... keep their input, the others everything."""
    report = estimate(BASE.but(checkpointing=f"every-{period}"))
    kept = report.amounts["forward end"]["kept_by_layers"]
    each = WHOLE * SEQ + 24
    assert kept == checkpointed * 2 * H * SEQ + (LAYERS - checkpointed) * each


def test_more_than_there_are_layers():
    """With every fourth of three layers the first alone is checkpointed; with one layer, it is."""
    for layers in (1, 2, 3):
        report = estimate(BASE.but(layers=layers, checkpointing="every-4"))
        kept = report.amounts["forward end"]["kept_by_layers"]
        assert kept == 2 * H * SEQ + (layers - 1) * (WHOLE * SEQ + 24)


def test_a_recomputed_layer_comes_back_whole():
    """While backward recomputes a layer, its input stays beside everything that it keeps."""
    amounts = estimate(BASE.but(checkpointing="full", seq=512)).amounts["layers backward"]
    assert amounts["layer_input"] == 2 * H * 512
    assert 0 < amounts["layer_in_backward"] <= WHOLE * 512 + 24


def test_checkpointing_moves_activations_and_copies_alone():
    """Weights, gradients and optimizer states do not depend on it."""
    plain = estimate(BASE).amounts["optimizer step"]
    for mode in ("full", "every-2", "selective-matmul", "selective-attention"):
        assert estimate(BASE.but(checkpointing=mode)).amounts["optimizer step"] == plain


def test_autocast_copies_end_with_the_forward_under_full_checkpointing():
    """At the end of forward the low-precision weights still exist; in the loss's backward only the head's do."""
    run = BASE.but(precision="bf16-mixed", checkpointing="full")
    full, none = estimate(run), estimate(run.but(checkpointing="none"))
    layer = 2 * H * 2048 + 2 * H * 512 + 3 * H * 8192
    head = 128_256 * H
    assert full.amounts["forward end"]["weight_casts"] == 2 * (LAYERS * layer + head)
    assert full.amounts["loss backward"]["weight_casts"] == 2 * head
    assert none.amounts["loss backward"]["weight_casts"] == 2 * (LAYERS * layer + head)


def test_the_first_layer_is_checkpointed():
    """A period begins with its checkpointed layer."""
    plan = estimate(BASE.but(checkpointing="every-3")).step.plan
    assert [plan.at(index).bytes == 2 * H * SEQ for index in range(7)] == [
        True,
        False,
        False,
    ] * 2 + [True]


def test_layers_of_several_kinds():
    """Gemma 3: five layers with a window and its mask, then one without; what the layers leave is their sum."""
    run = Run(model="gemma-3-1b", precision="bf16-true", seq=SEQ, layers=8)
    windowed, whole = estimate(run), estimate(run.but(window=0))
    mask = 2 * SEQ * SEQ
    assert windowed.layer_saved == whole.layer_saved + mask
    found = [windowed.step.plan.at(index).bytes for index in range(8)]
    assert found == [windowed.layer_saved] * 5 + [whole.layer_saved] + [windowed.layer_saved] * 2
    assert windowed.step.plan.below(8)[0] == sum(found)
    assert estimate(run.but(window=SEQ + 1)).phases == whole.phases


def test_a_window_matters_from_its_length_on():
    """A sequence as long as the window needs the mask, a shorter one does not."""
    run = Run(model="mistral-7b-v0.3", precision="bf16-true", seq=1024, layers=2, window=1024)
    plain = estimate(run.but(window=0)).layer_saved
    repeated = 2 * 2 * (32 - 8) * 128 * 1024
    assert estimate(run).layer_saved == plain + 2 * 1024 * 1024 + repeated
    assert estimate(run.but(window=1025)).layer_saved == plain


def test_the_first_layers_may_be_dense():
    """DeepSeek V2 Lite: one dense layer, then experts; each kind leaves its own, and backward ends with the dense one."""
    run = Run(model="deepseek-v2-lite", precision="bf16-true", seq=512)
    step = estimate(run).step
    assert step.order == (1,) + (0,) * 26
    dense, mixture = step.at(0), step.at(1)
    assert dense.elements < mixture.elements
    assert step.layers_elements == dense.elements + 26 * mixture.elements
    assert step.gradients_from(1) == 2 * 26 * mixture.elements + 26 * 2 * 64 * 2048
    assert step.plan.at(0).bytes < step.plan.at(1).bytes == step.plan.plain.bytes
    assert estimate(run.but(dense_layers=0)).step.order == (0,) * 27
    assert estimate(run.but(dense_layers=99)).step.order == (0,) * 27
