import time

import pytest

from trainmem import estimate, parse
from trainmem.catalog import usable_bytes
from trainmem.ledger import PARTS
from trainmem.run import Run

FOUNDING = (
    "model=llama-2-13b&gpus=8&zero=3&micro_batch=4&seq=2048&checkpointing=full&precision=bf16-mixed"
)
GIB = 1 << 30


def test_the_founding_example():
    """A 13B model over 8 GPUs holds an eighth of 4 + 4 + 8 bytes a parameter, and its checkpoints."""
    run, problems = parse(FOUNDING)
    assert problems == []
    report = estimate(run)
    parameters = 13_015_864_320
    assert report.parameters == report.trainable == parameters
    step = report.amounts["optimizer step"]
    for key, width in (("weights", 4), ("gradients", 4), ("first_moment", 4), ("second_moment", 4)):
        assert step[key] == pytest.approx(width * parameters / 8, rel=1e-3)
    assert report.layer_saved == 4 * 2048 * 2 * 5120
    assert report.amounts["forward end"]["kept_by_layers"] == 40 * report.layer_saved
    assert report.verdict.kind == "fits"


def test_the_founding_example_with_deepspeed():
    """DeepSpeed keeps 2 + 2 + 12 bytes a parameter, an eighth of each, and its buffers."""
    run, _ = parse(FOUNDING + "&sharding=deepspeed")
    step = estimate(run).amounts["optimizer step"]
    keys = ("weights", "gradients", "master", "first_moment", "second_moment")
    held = sum(step[key] for key in keys)
    assert held == pytest.approx(16 * 13_015_864_320 / 8, rel=1e-3)


def test_parts_sum_to_the_device():
    """The bar is the five parts, and they are all of it."""
    report = estimate(Run())
    assert tuple(report.by_part) == PARTS
    assert sum(report.by_part.values()) == report.device
    assert (
        sum(size for part, size in report.by_part.items() if part != "overhead") == report.allocated
    )


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({}, "over"),
        ({"model": "llama-3.2-1b"}, "fits"),
        ({"model": "llama-3.2-1b", "usable": 10 * GIB}, "over"),
        ({"gpu": "tpu-v4"}, "unknown"),
        ({"gpu": "tpu-v4", "usable": 900 * GIB}, "fits"),
    ],
)
def test_verdicts(keys, kind):
    """A verdict compares with the card's memory, or with what the reader says; of an unknown card it says nothing."""
    verdict = estimate(Run(**keys)).verdict
    assert verdict.kind == kind
    if kind == "unknown":
        assert (verdict.usable, verdict.limit, verdict.free, verdict.over) == (None, None, 0, 0)


def test_a_verdict_takes_the_band_and_the_headroom():
    """It fits when the upper end clears usable less headroom, not when the lower end is above usable; else it is tight."""
    low, high = estimate(Run(model="llama-3.2-1b")).verdict[2:4]
    run = Run(model="llama-3.2-1b", headroom=0.0)

    def kind(usable, headroom=0.0):
        return estimate(run.but(usable=usable, headroom=headroom)).verdict.kind

    assert kind(high) == "fits"
    assert kind(high - 1) == "tight"
    assert kind(low) == "tight"
    assert kind(low - 1) == "over"
    assert kind(high, 10.0) == "tight"
    assert kind(high * 10 // 9 + 1, 10.0) == "fits"


def test_a_verdict_counts_bytes_over_and_free():
    """What is left, or what is lacking, against what PyTorch can allocate."""
    run = Run(model="llama-3.2-1b")
    need = estimate(run).verdict.need
    roomy, small = (
        estimate(run.but(usable=size)).verdict for size in (need + 5 * GIB, need - 3 * GIB)
    )
    assert (roomy.free, roomy.over) == (5 * GIB, 0)
    assert (small.free, small.over) == (0, 3 * GIB)
    assert estimate(run).verdict.usable == usable_bytes(run.gpu, ecc=True)[0]


def test_outside_the_step():
    """Loading takes the weights; saving has no activations; the first step makes the states after its backward."""
    report = estimate(Run(model="llama-3.2-1b", precision="bf16-true"))
    outside = report.outside_step
    assert outside["load"] == 2 * 1_235_814_400
    assert outside["save"] == 3 * outside["load"] + 16 * 2048
    assert outside["evaluation"] > outside["save"]


def test_the_first_step_has_no_states_before_its_end():
    """Backward of the first step lacks the two moments; its optimizer step is as high as any."""
    for seq in (128, 8192):
        report = estimate(Run(model="llama-3.2-1b", precision="bf16-true", seq=seq))
        early = max(size for name, size in report.phases.items() if name != "optimizer step")
        moments = 2 * 2 * 1_235_814_400
        assert report.outside_step["first step"] == max(
            early - moments, report.phases["optimizer step"]
        )


def test_the_verdict_counts_what_is_outside_the_step():
    """A run whose evaluation holds more than its training needs that much."""
    run = Run(
        model="llama-3.2-1b",
        precision="bf16-true",
        optimizer="sgd",
        loss="fused",
        seq=8192,
        checkpointing="full",
    )
    report = estimate(run)
    if max(report.outside_step.values()) > report.allocated:
        assert report.verdict.need > report.device
    else:
        assert report.verdict.need == report.device


def test_one_rank_without_a_pipeline():
    """The only stage is the fullest."""
    report = estimate(Run())
    assert [(rank.stage, rank.device, rank.by_part) for rank in report.ranks] == [
        (0, report.device, report.by_part)
    ]


@pytest.mark.parametrize(
    "keys",
    [
        {"optimizer": "adamw-fused"},
        {"optimizer": "adamw-8bit"},
        {"precision": "bf16-true"},
        {"lora_rank": 8},
    ],
)
def test_savers_save(keys):
    """What is called a saver lowers the peak of the default run, which is the optimizer's step."""
    assert estimate(Run()).peak_phase == "optimizer step"
    assert estimate(Run(**keys)).allocated < estimate(Run()).allocated


def test_checkpointing_saves_where_activations_are_the_peak():
    """It does nothing for a peak at the optimizer's step, and much for a long sequence."""
    assert estimate(Run(checkpointing="full")).allocated == estimate(Run()).allocated
    long = Run(seq=32_768)
    assert estimate(long.but(checkpointing="full")).allocated < estimate(long).allocated / 2


@pytest.mark.cpython
def test_an_estimate_is_quick():
    """An 80-layer model takes about a millisecond, since a layer is walked once; here no more than five on a busy machine."""
    run = Run(model="llama-3.1-70b", gpus=64, zero="3", checkpointing="full")
    estimate(run)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        estimate(run)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.005
