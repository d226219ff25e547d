"""Constants read from elsewhere: each is pinned where it is used, by what a run with it holds."""

import pytest

import trainmem
from trainmem import overhead
from trainmem.estimate import estimate
from trainmem.optimizers import eight_bit
from trainmem.tensors import Weight

MIB, GIB = 1 << 20, 1 << 30
P = 8_030_261_248  # parameters of the default model, Llama 3.1 8B


def amounts(query, phase):
    """The amounts of one phase of a run."""
    run, problems = trainmem.parse(query)
    assert not problems
    return estimate(run).amounts[phase]


def test_ddp_holds_its_gradients_twice():
    """DistributedDataParallel's buckets hold every gradient a second time."""
    found = amounts("gpus=8", "optimizer step")
    assert found["ddp_buckets"] == found["gradients"] == 4 * P


def test_deepspeed_casts_gradients_to_fp32_for_the_step():
    """4 bytes for each parameter of the shard, in stage 3 for a group of at most a billion."""
    stage2 = amounts("gpus=8&zero=2&sharding=deepspeed", "optimizer step")["step_temporary"]
    assert stage2 == pytest.approx(4 * P / 8, rel=1e-5)
    stage3 = amounts("gpus=2&zero=3&sharding=deepspeed", "optimizer step")["step_temporary"]
    assert stage3 == 4 * 10**9


def test_deepspeed_gathers_a_billion_parameters_at_most():
    """stage3_max_live_parameters is 1e9: 2 bytes each in BF16."""
    assert (
        amounts("gpus=8&zero=3&sharding=deepspeed", "forward end")["gathered_layers"] == 2 * 10**9
    )


def test_deepspeed_reduces_in_buckets_of_500_million():
    """reduce_bucket_size is 5e8 elements, 2 bytes each; a link can say otherwise."""
    assert amounts("gpus=8&zero=2&sharding=deepspeed", "loss backward")["reduce_bucket"] == 10**9
    assert (
        amounts("gpus=8&zero=2&sharding=deepspeed&bucket=200M", "loss backward")["reduce_bucket"]
        == 4 * 10**8
    )


def test_small_tensors_keep_fp32_states_in_8_bit_adamw():
    """bitsandbytes leaves tensors under 4,096 elements in FP32."""
    assert eight_bit(Weight("w", 4095, 0, 4), 4) == 4 * 4095
    assert eight_bit(Weight("w", 4096, 0, 4), 4) == 4096 + 4 * 16


def test_overhead_constants_are_those_that_were_read():
    """Context, communicator and the spreads, as their sources give them (see overhead.py)."""
    assert overhead.CUDA_CONTEXT == (512 * MIB, 300 * MIB, 1024 * MIB)
    assert overhead.COMMUNICATOR == (640 * MIB, 300 * MIB, 1600 * MIB)
    assert overhead.ALLOCATED["deepspeed"] == (0.9, 1.15)
    assert overhead.RESERVED["fsdp2"] == (1.06, 1.02, 1.20)


def test_a_layer_is_gathered_outside_the_step_too():
    """Evaluation and saving of a sharded run hold one whole layer beside the shards."""
    run = trainmem.parse("gpus=8&zero=3")[0]
    report = estimate(run)
    static = sum(report.step.static.values())
    assert report.outside_step["save"] == static + 2 * report.step.layer_elements


def test_packed_weights_are_gathered_packed():
    """FSDP2 gathers a base in NF4 at 0.5625 bytes a weight, not at 2."""
    query = "model=llama-3.1-70b&lora_rank=16&lora_targets=all-linear&base=nf4&gpus=2&zero=2&checkpointing=full"
    gathered = amounts(query, "loss backward")["gathered_layers"]
    assert gathered < 45 * GIB


def test_lora_targets_match_the_end_of_a_path():
    """GPT-2 has two linears called c_proj; an adapter on c_proj sits on both, as in PEFT."""
    run = trainmem.parse("model=gpt2&lora_rank=8&lora_targets=c_proj")[0]
    assert estimate(run).trainable == 12 * 8 * (768 + 768 + 3072 + 768)


def test_what_is_unchecked_has_a_wider_range():
    """QLoRA, and tensor parallelism under transformers, are known less well than what was followed."""

    def width(query):
        report = estimate(trainmem.parse(query)[0])
        low, high = report.band("allocated")
        return (high - low) / report.allocated

    assert width("lora_rank=16&base=nf4") > 2 * width("lora_rank=16&base=bf16")
    assert width("tp=2&gpus=2") > 2 * width("")
