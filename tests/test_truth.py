"""Every row of tests/truth/: what PyTorch itself accounted for, and what others published."""

import json
from pathlib import Path
from statistics import median

import pytest

import trainmem
from trainmem.ledger import PHASES
from trainmem.run import DIMENSIONS

FOLDER = Path(__file__).parent / "truth"
FILES = {
    "llama": 84, "mistral": 10, "qwen2": 20, "qwen3": 24, "gpt2": 20, "further": 339, "gpt_neox": 57, "opt": 39, "phi": 31,
    "phi3": 41, "gemma2": 31, "gemma3": 34, "mixtral": 21,
    "qwen2_moe": 31, "qwen3_moe": 20, "olmoe": 23, "deepseek_v2": 19, "deepseek_v3": 17,
}  # fmt: skip
LAYER_BYTES, PHASE, PEAK = 64, 0.0001, 0.0005


def read(name):
    """The first line of a file (its source), and its rows."""
    head, *rows = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").open(encoding="utf-8")]
    return head, rows


ROWS = [(name, row) for name in FILES for row in read(name)[1]]
PUBLISHED = read("published")[1]


def title(row):
    """What a failing row is called: its model and what is special about it."""
    pairs = [pair for pair in row["query"].split("&") if pair.partition("=")[0] not in DIMENSIONS]
    usual = {"framework=transformers", "grad_accum=1", "optimizer=adamw", "attention=sdpa"}
    return "&".join([row["name"], *(pair for pair in pairs if pair not in usual)])


def estimated(row):
    """The report of a row; a truth that needs a guess is none."""
    run, problems = trainmem.parse(row["query"])
    assert not problems, [str(problem) for problem in problems]
    return trainmem.estimate(run)


def error(row, report, phase):
    """How far a phase is off, as a share; 0 where the truth has no such phase."""
    true = row["phases"][PHASES.index(phase)]
    return report.phases[phase] / true - 1 if true else 0.0


@pytest.mark.parametrize("name", FILES)
def test_the_rows_are_there(name):
    """No file of truth is empty or shorter than it was, and each says where it is from."""
    head, rows = read(name)
    assert head["source"]
    assert head["phases"] == list(PHASES)
    assert len(rows) >= FILES[name]
    assert len({row["query"] for row in rows}) == len(rows)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[title(row) for _, row in ROWS])
def test_bytes_are_those_that_pytorch_accounted_for(name, row):
    """Parameters, a layer's bytes, every phase and the largest phase are those of the followed step.

    A phase that is missed is written down in its row with the share by which; it may not grow.
    """
    report = estimated(row)
    assert name in (report.model.arch, "further")
    assert report.parameters == row["parameters"]
    assert report.trainable == row["trainable"]
    if row["layer"]:
        assert abs(report.layer_saved - row["layer"]) <= LAYER_BYTES
    for phase in PHASES:
        allowed = PHASE + abs(row.get("misses", {}).get(phase, 0))
        assert abs(error(row, report, phase)) <= allowed, phase
    largest = max(filter(None, row["phases"]))
    peak_phase = PHASES[row["phases"].index(largest)]
    allowed = PEAK + abs(row.get("misses", {}).get(peak_phase, 0))
    assert report.allocated == pytest.approx(largest, rel=allowed)
    assert report.peak_phase == peak_phase


def test_the_median_row_is_exact():
    """The peak of the median row is off by less than a thousandth of a per cent."""
    errors = [estimated(row).allocated / max(filter(None, row["phases"])) - 1 for _, row in ROWS]
    assert median(map(abs, errors)) < 1e-5


def test_recorded_misses_are_still_misses():
    """A row that notes a missed phase still misses it, so that no note outlives its reason."""
    noted = [row for _, row in ROWS if row.get("misses")]
    stale = [
        (title(row), phase)
        for row in noted
        for phase in row["misses"]
        if abs(error(row, estimated(row), phase)) <= PHASE
    ]
    assert not stale


@pytest.mark.parametrize("row", PUBLISHED, ids=[row["name"] for row in PUBLISHED])
def test_published_figures_are_met(row):
    """A figure that somebody published is met within the tolerance that its row states."""
    report = estimated(row)
    assert row["source"]
    if row["quantity"] == "weights":
        found = next(line.bytes for line in report.rows_at("forward end") if line.key == "weights")
    else:
        found = getattr(report, row["quantity"])
    assert found == pytest.approx(row["value"], rel=row["tolerance"])


def test_published_rows_are_there():
    """The file of published figures keeps all of its rows."""
    assert len(PUBLISHED) >= 6
