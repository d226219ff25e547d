import pytest

from trainmem import parallel
from trainmem.estimate import estimate
from trainmem.ledger import PHASES
from trainmem.precision import PRECISIONS
from trainmem.run import Run, model_of
from trainmem.tensors import Weight

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sharding", "zero", "gpus", "tp", "kind"),
    [
        ("auto", "3", 1, 1, "alone"), ("deepspeed", "3", 8, 8, "alone"), ("auto", "0", 8, 1, "ddp"),
        ("fsdp2", "0", 8, 1, "ddp"), ("auto", "1", 8, 1, "deepspeed"), ("auto", "2", 8, 1, "fsdp2"),
        ("auto", "3", 8, 2, "fsdp2"), ("deepspeed", "3", 8, 1, "deepspeed"),
    ],
)  # fmt: skip
def test_who_shares_what(sharding, zero, gpus, tp, kind):
    """One copy of the model is alone; no stage is DDP; stages 2 and 3 are FSDP2 unless another is named."""
    assert parallel.kind_of(sharding, zero, gpus, tp) == kind


@pytest.mark.parametrize(
    ("zero", "bytes_a_parameter"),
    [("0", 16), ("1", 4 + 12 / 64), ("2", 2 + 14 / 64), ("3", 16 / 64)],
)
def test_bytes_a_parameter_of_the_zero_paper(zero, bytes_a_parameter):
    """Mixed-precision Adam on 64 GPUs: 16, 4.19, 2.22 and 0.25 bytes a parameter at the stages 0 to 3."""
    run = Run(model="llama-2-7b", precision="bf16-master", gpus=64, zero=zero, sharding="deepspeed")
    report = estimate(run)
    amounts = report.amounts["optimizer step"]
    keys = ("weights", "gradients", "master", "first_moment", "second_moment")
    held = sum(amounts[key] for key in keys) / report.parameters
    assert held == pytest.approx(bytes_a_parameter, rel=1e-3)


@pytest.mark.parametrize("name", ["bf16-mixed", "fp16-mixed"])
def test_mixed_precision_under_deepspeed_has_a_master_copy(name):
    """DeepSpeed keeps low-precision weights and an FP32 master, and does not autocast."""
    stored, seen = parallel.recipe(name, "deepspeed", "auto")
    assert stored == seen
    assert (stored.weights, stored.gradients, stored.moments, stored.master) == (2, 2, 4, 4)
    assert not stored.autocast


def test_mixed_precision_under_fsdp2_gathers_narrow():
    """FSDP2 keeps FP32 shards, computes in BF16, reduces in FP32; `fp32-true` with the same formats is the same."""
    stored, seen = parallel.recipe("bf16-mixed", "fsdp2", "auto")
    assert (stored.weights, stored.gradients, stored.moments, stored.master) == (4, 4, 4, 0)
    assert (seen.weights, seen.compute, seen.autocast) == (2, 2, False)
    run = Run(gpus=8, zero="3", sharding="fsdp2")
    named = run.but(precision="fp32-true", fsdp_param="bf16", fsdp_reduce="fp32")
    assert estimate(run).phases == estimate(named).phases


def test_gathered_weights_of_fsdp2():
    """Llama 3.2 1B in BF16: the root (embedding and norm) is 501 MiB, a layer 116 MiB, one more is prefetched."""
    run = Run(model="llama-3.2-1b", precision="bf16-true", gpus=8, zero="3", sharding="fsdp2")
    report = estimate(run)
    forward, backward = (report.amounts[name] for name in ("forward end", "layers backward"))
    assert round(forward["gathered_root"] / MIB) == 501
    assert round(forward["prefetched_layer"] / MIB) == 116
    assert round(backward["gathered_layers"] / MIB) == 116
    kept = estimate(run.but(zero="2")).amounts["loss backward"]
    assert round(kept["gathered_layers"] / MIB) == round(16 * 60_821_504 * 2 / MIB)


def test_shares_are_cut_in_rows_and_padded():
    """The first dimension is divided; the fullest GPU has the rounded-up share; one GPU has everything."""
    assert parallel.share(Weight("a", 10, 3, 2), 4) == 3 * 3
    assert parallel.share(Weight("a", 10, 0, 2), 4) == 3
    assert parallel.share(Weight("a", 10, 3, 2), 1) == 30


def test_what_each_stage_divides():
    """Stage 1 the states, stage 2 the gradients too, stage 3 the weights too; FSDP2 divides all."""

    def shards(kind, zero):
        found = parallel.sharing(kind, zero, 8, "bf16-mixed", "auto", 1)
        return found.shards_states, found.shards_gradients, found.shards_weights

    assert shards("ddp", "0") == (1, 1, 1)
    assert shards("deepspeed", "1") == (8, 1, 1)
    assert shards("deepspeed", "2") == (8, 8, 1)
    assert shards("deepspeed", "3") == (8, 8, 8)
    assert shards("fsdp2", "2") == shards("fsdp2", "3") == (8, 8, 8)


@pytest.mark.parametrize(("precision", "reduce", "width"), [
    ("bf16-mixed", "auto", 4), ("fp32-true", "auto", 4), ("bf16-true", "auto", 2), ("bf16-mixed", "bf16", 2),
])  # fmt: skip
def test_gradients_travel_in_a_format(precision, reduce, width):
    """FP32 recipes reduce in FP32, pure BF16 in BF16, unless the run says otherwise."""
    assert parallel.sharing("fsdp2", "3", 8, precision, reduce, 1).reduce == width


def test_tensor_parallelism_divides_a_model():
    """Heads, feed-forward width and vocabulary are divided, the last one rounded up; the residual stream is not."""
    whole = model_of(Run(model="llama-3.2-1b"))
    half = parallel.divided(whole, 2)
    assert (half.heads, half.kv_heads, half.ffn, half.vocab) == (16, 4, 4096, 64_128)
    assert half.hidden == whole.hidden
    assert parallel.divided(whole, 32).kv_heads == 1
    assert parallel.divided(whole._replace(vocab=7), 2).vocab == 4
    assert parallel.divided(whole, 1) is whole


def test_tensor_parallelism_keeps_the_models_count():
    """A divided model still has all of its parameters."""
    run = Run(model="llama-3.2-1b", tp=4, gpus=4)
    assert estimate(run).parameters == 1_235_814_400
    assert estimate(run).trainable == 1_235_814_400


@pytest.mark.parametrize("zero", "0123")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_sharding_on_one_gpu_changes_nothing(zero, precision):
    """A stage needs somebody to share with."""
    run = Run(model="llama-3.2-1b", precision=precision)
    for sharding in ("auto", "deepspeed"):
        shared = estimate(run.but(zero=zero, sharding=sharding, fsdp_reduce="bf16", bucket=10))
        assert [shared.phases[name] for name in PHASES] == [
            estimate(run).phases[name] for name in PHASES
        ]


def test_a_heads_gradient_is_divided_at_once_by_deepspeed():
    """In stage 2 an untied head's gradient waits as a share; under FSDP2 it is reduced last, and waits whole."""
    run = Run(model="llama-2-7b", precision="bf16-true", gpus=8, zero="2", sharding="deepspeed")
    size = 2 * (32_000 * 4096 + 4096)
    assert estimate(run).amounts["layers backward"]["head_gradients"] == size // 8
    assert estimate(run.but(sharding="fsdp2")).amounts["layers backward"]["head_gradients"] == size
    assert estimate(run.but(zero="1")).amounts["layers backward"]["head_gradients"] == size
