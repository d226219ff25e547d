import pytest

from trainmem import words
from trainmem.checks import settle
from trainmem.estimate import estimate
from trainmem.run import Run

TOO_LARGE = Run(model="llama-3.1-8b", gpu="h100-sxm-80gb", micro_batch=4)


def keys(run):
    return [change.key for change in estimate(run).changes()]


def test_a_run_that_does_not_fit_is_told_what_would():
    """The default 8B model in mixed precision does not fit one card; something on the list makes it fit."""
    report = estimate(Run())
    assert report.verdict.kind == "over"
    assert report.changes()[0].fits


def test_what_helps_a_large_run():
    """Every saver that helps a run is on its list."""
    found = estimate(TOO_LARGE).changes()
    assert {
        "full_checkpointing",
        "adamw_8bit",
        "micro_batch",
        "chunked_loss",
        "more_gpus_zero3",
        "offload_optimizer",
        "lora",
        "qlora",
    } <= {change.key for change in found}


def test_savings_are_real():
    """Starting the changed run needs exactly so much less."""
    report = estimate(TOO_LARGE)
    for change in report.changes():
        assert report.verdict.need - estimate(change.run).verdict.need == change.saving > 0


def test_the_best_comes_first():
    """Those that fit come before those that do not, and each group by its saving."""
    found = estimate(TOO_LARGE).changes()
    assert [change.fits for change in found] == sorted(
        (change.fits for change in found), reverse=True
    )
    for fits in (True, False):
        savings = [change.saving for change in found if change.fits is fits]
        assert savings == sorted(savings, reverse=True)


def test_what_is_done_is_not_proposed():
    """A run that has a saver is not told to use it."""
    saved = TOO_LARGE.but(checkpointing="full", optimizer="adamw-8bit", loss="chunked", micro_batch=1, offload="optimizer",
                          precision="bf16-true", gpus=8, zero="3", sharding="fsdp2")  # fmt: skip
    done = {"full_checkpointing", "adamw_8bit", "fused_adamw", "chunked_loss", "micro_batch", "offload_optimizer",
            "pure_bf16", "more_gpus_zero3", "zero", "drop_outputs", "free_gradients", "sdpa"}  # fmt: skip
    assert not done & set(keys(saved))


@pytest.mark.parametrize(
    ("keys_of_run", "key", "changed"),
    [
        ({"attention": "eager", "seq": 4096}, "sdpa", {"attention": "sdpa"}),
        (
            {"keep_outputs": True, "optimizer": "sgd", "seq": 8192},
            "drop_outputs",
            {"keep_outputs": False},
        ),
        ({"gradients": "kept", "seq": 8192}, "free_gradients", {"gradients": "freed"}),
        ({"gpus": 8, "zero": "2"}, "more_gpus", {"gpus": 16}),
        ({"gpus": 8}, "zero", {"zero": "2"}),
        ({"seq": 128}, "fused_adamw", {"optimizer": "adamw-fused"}),
        ({}, "pure_bf16", {"precision": "bf16-true"}),
        ({"micro_batch": 5, "seq": 4096}, "micro_batch", {"micro_batch": 2}),
    ],
)
def test_a_change_is_one_change(keys_of_run, key, changed):
    """Each differs from the run in what its name says, and in nothing else."""
    run = Run(model="llama-3.2-1b", **keys_of_run)
    assert run.but(**changed) in [
        change.run for change in estimate(run).changes() if change.key == key
    ]


def test_changes_settle():
    """A change is a run that can be linked to, for each family."""
    for model in ("gpt2", "qwen3-0.6b", "llama-3.2-1b", "mistral-7b-v0.3"):
        run, _ = settle(Run(model=model), frozenset())
        for change in estimate(run).changes():
            assert settle(change.run, frozenset(change.run.changed())) == (change.run, [])


def test_each_change_has_its_words():
    """A chip has a text, with its number in it."""
    for run in (
        TOO_LARGE,
        TOO_LARGE.but(gpus=8),
        TOO_LARGE.but(attention="eager", gradients="kept", keep_outputs=True),
    ):
        for change in estimate(run).changes():
            assert words.has(f"change.{change.key}")
            assert "{" not in words.text(f"change.{change.key}", **change.values)
