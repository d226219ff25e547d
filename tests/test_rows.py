from math import prod

import pytest

from trainmem import catalog, words
from trainmem.estimate import estimate
from trainmem.ledger import PARTS, PHASES
from trainmem.rows import KINDS
from trainmem.run import OPTIMIZERS, Run

RUNS = [
    Run(),
    Run(checkpointing="full", gpus=8, zero="3"),
    Run(checkpointing="every-2", gpus=8, zero="2"),
    Run(precision="bf16-master", gpus=8, zero="3", sharding="deepspeed", optimizer="adamw-8bit"),
    Run(precision="fp32-true", attention="eager", seq=256, keep_outputs=True),
    Run(model="gpt2", seq=512, loss="fused", grad_accum=4),
    Run(model="qwen3-0.6b", lora_rank=16, base="nf4", lora_targets="all-linear"),
    Run(model="llama-3.2-1b", lora_rank=16, lora_dropout=0.1, precision="bf16-true"),
    Run(model="llama-3.2-1b", gpus=4, tp=2, loss="chunked"),
    *(Run(model="llama-3.2-1b", optimizer=name) for name in OPTIMIZERS),
]
TITLES = ["&".join(f"{k}={v}" for k, v in run.changed().items()) or "default" for run in RUNS]


@pytest.mark.parametrize("run", RUNS, ids=TITLES)
def test_rows_sum_to_what_is_shown(run):
    """At each phase rows sum to the phase and the overhead, part by part; at the peak to the device's figure."""
    report = estimate(run)
    assert report.rows.total() == report.device
    assert sum(report.by_part.values()) == report.device
    for phase in PHASES:
        ledger = report.rows_at(phase)
        assert ledger.by_part() == report.parts_at(phase)
        assert ledger.total() - report.phases[phase] == report.device - report.allocated
        assert all(row.bytes > 0 for row in ledger)


@pytest.mark.parametrize("run", RUNS, ids=TITLES)
def test_formulas_give_their_bytes(run):
    """The factors of a row, multiplied and divided as written, are its bytes to within two per cent."""
    report = estimate(run)
    for phase in PHASES:
        for row in report.rows_at(phase):
            found = prod(1 / f.value if f.operator == "÷" else f.value for f in row.factors())
            assert found == pytest.approx(row.bytes, rel=0.02, abs=64), (
                phase,
                row.key,
                row.factors(),
            )


@pytest.mark.parametrize("run", RUNS, ids=TITLES)
def test_formulas_count_things_that_have_a_name(run):
    """Each unit of a formula has a word, and each row one source that can be looked up."""
    for row in estimate(run).rows:
        assert catalog.entry("sources", row.source)["name"]
        for factor in row.factors():
            assert not factor.unit or words.has(f"unit.{factor.unit}"), factor


@pytest.mark.parametrize("key", KINDS)
def test_each_row_has_a_name_a_reason_and_a_source(key):
    """A reader meets no row without its sentence."""
    assert words.has(f"row.{key}")
    assert words.has(f"why.{key}")
    assert KINDS[key].part in PARTS
    assert catalog.entry("sources", KINDS[key].source)


def test_no_amount_is_left_out():
    """Each amount of a phase has a row, so that nothing is counted that nobody can see."""
    for run in RUNS:
        for amounts in estimate(run).amounts.values():
            assert set(amounts) <= set(KINDS)
            assert min(amounts.values()) >= 0


@pytest.mark.parametrize(
    ("part", "keys"),
    [
        (
            "parameters",
            "weights base_weights weight_casts gathered_root gathered_layers prefetched_layer unpacked_weight",
        ),
        (
            "gradients",
            "gradients head_gradients embedding_gradient reduce_buffer reduce_bucket ddp_buckets",
        ),
        ("optimizer", "master first_moment second_moment momentum step_temporary"),
        (
            "activations",
            "kept_by_layers logits log_probabilities logit_gradients kept_outputs backward_working inputs",
        ),
    ],
)
def test_parts_of_rows(part, keys):
    """Copies and gathers of weights are parameters, buffers of a reduction gradients, a step's temporaries optimizer
    states, logits and their gradients activations."""
    assert {KINDS[key].part for key in keys.split()} == {part}
