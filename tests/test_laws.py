"""Laws that hold for every run that settles, over the whole space of keys."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmem import catalog
from trainmem.checks import settle
from trainmem.estimate import estimate
from trainmem.ledger import PARTS, PHASES
from trainmem.link import LONGEST_QUERY, link, parse
from trainmem.run import KEYS, Run, model_of

PRESETS = {kind: [name for name, _ in catalog.names(kind)] for kind in ("models", "gpus")}
TARGETS = (
    "q_proj,v_proj",
    "all-linear",
    "gate_proj",
    "c_attn",
    "c_attn,c_fc",
    "q_proj,k_proj,v_proj,o_proj",
)
SIZES = {
    "gpus": (1, 2, 3, 8, 24, 1 << 20),
    "tp": (1, 2, 3, 4, 8, 1024),
    "heads": (1, 3, 8, 4096),
    "kv_heads": (1, 2, 8, 4096),
}
STATES = ("parameters", "gradients", "optimizer")


def values(key):
    """Everything that one key may be, with its extremes."""
    if key.kind == "choice":
        return st.sampled_from(key.choices)
    if key.kind == "preset":
        return st.sampled_from(PRESETS[f"{key.name}s"])
    if key.kind == "flag":
        return st.booleans()
    if key.kind == "list":
        return st.sampled_from(TARGETS)
    low, high = int(key.minimum), int(key.maximum)
    sizes = SIZES.get(key.name, (low, low + 1, 7, 64, 1000, high))
    usual = st.sampled_from([size for size in sizes if low <= size <= high])
    thousandths = st.integers(int(key.minimum * 1000), int(key.maximum * 1000)).map(
        lambda n: n / 1000
    )
    drawn = thousandths if key.kind.endswith("number") else st.integers(low, high) | usual
    return st.none() | drawn if key.kind.startswith("optional") else drawn


def settled(chosen):
    """The run that some values become."""
    return settle(Run(**chosen), frozenset(chosen))[0]


CHOSEN = st.fixed_dictionaries({}, optional={name: values(key) for name, key in KEYS.items()})
RUNS = CHOSEN.map(settled)
"""Any run at all: huge, tiny and odd ones."""

PLAIN = st.fixed_dictionaries({
    "model": st.sampled_from(["llama-3.2-1b", "llama-2-7b", "qwen3-0.6b", "qwen2.5-7b", "gpt2"]),
    "precision": values(KEYS["precision"]), "optimizer": values(KEYS["optimizer"]), "loss": values(KEYS["loss"]),
    "checkpointing": values(KEYS["checkpointing"]), "attention": values(KEYS["attention"]),
    "seq": st.integers(1, 1024), "micro_batch": st.integers(1, 8), "grad_accum": st.sampled_from([1, 4]),
    "gpus": st.sampled_from([1, 2, 8]), "zero": values(KEYS["zero"]), "sharding": values(KEYS["sharding"]),
    "lora_rank": st.sampled_from([0, 0, 8]), "keep_outputs": st.booleans(),
}).map(settled)  # fmt: skip
"""Runs that somebody might start."""


def states(run):
    """Bytes of weights, gradients and states in the optimizer's step, its temporaries left out."""
    report = estimate(run)
    parts = report.parts_at("optimizer step")
    return sum(parts[part] for part in STATES) - report.amounts["optimizer step"]["step_temporary"]


@given(run=RUNS)
def test_any_run_is_estimated(run):
    """No settled run makes the estimator fail, and its figures are what a reader may rely on."""
    report = estimate(run)
    assert tuple(report.phases) == PHASES
    assert report.allocated == max(report.phases.values()) > 0
    assert report.allocated < report.reserved < report.device
    for phase in PHASES:
        assert report.rows_at(phase).by_part() == report.parts_at(phase)
        assert (
            sum(report.parts_at(phase).values()) - report.phases[phase]
            == report.device - report.allocated
        )
        assert min(report.amounts[phase].values()) >= 0
    assert report.rows.total() == report.device == sum(report.by_part.values())
    assert tuple(report.by_part) == PARTS
    assert all(row.factors() for row in report.rows)
    assert 0 < report.trainable
    assert 0 < report.parameters
    assert min(report.outside_step.values()) > 0
    assert report.verdict.kind in ("fits", "tight", "over", "unknown")


@given(run=RUNS)
def test_a_settled_run_stays(run):
    """Settling is done once: a second time nothing is wrong."""
    assert settle(run, frozenset(KEYS)) == (run, [])


@given(run=RUNS)
def test_a_link_means_its_run(run):
    """What a link is made from is what it is read as, without a problem; and its link is itself."""
    text = link(run)
    assert parse(text) == (run, [])
    assert link(parse(text)[0]) == text
    assert text.isascii()
    assert len(text) < LONGEST_QUERY


@given(run=RUNS)
def test_changes_are_what_they_promise(run):
    """Each change settles without a problem, saves what it says, and the best comes first."""
    report = estimate(run)
    found = report.changes()
    for change in found:
        assert settle(change.run, frozenset(KEYS)) == (change.run, [])
        verdict = estimate(change.run).verdict
        assert change.saving == report.verdict.need - verdict.need > 0
        assert change.fits == (verdict.kind == "fits")
    order = [(not change.fits, -change.saving) for change in found]
    assert order == sorted(order)


@given(run=PLAIN, key=st.sampled_from(["seq", "micro_batch"]))
def test_more_tokens_never_need_less(run, key):
    """Half as many tokens again, in length or in number, take at least as much in every phase."""
    if key == "seq" and model_of(run).arch == "gpt2":
        run = run.but(seq=min(run.seq, 512))
    more = run.but(**{key: getattr(run, key) * 3 // 2 + 1})
    now, then = estimate(run), estimate(more)
    for phase in PHASES:
        assert now.phases[phase] <= then.phases[phase], phase
    assert now.device <= then.device


@given(run=PLAIN)
def test_a_larger_vocabulary_never_needs_less(run):
    """One more word is one more row of the embedding and one more logit a token."""
    if run.loss == "fused":
        run = run.but(
            loss="full"
        )  # its chunk is a power of two that a larger vocabulary makes smaller
    now, then = estimate(run), estimate(run.but(vocab=model_of(run).vocab + 640))
    assert now.allocated < then.allocated
    assert now.parameters < then.parameters


@given(run=PLAIN, key=st.sampled_from(["layers", "ffn"]))
def test_a_larger_model_never_needs_less(run, key):
    """One more layer, or a wider one, takes more."""
    size = getattr(model_of(run), key)
    now, then = estimate(run), estimate(run.but(**{key: size + 2}))
    assert now.allocated < then.allocated
    assert now.parameters < then.parameters


@given(
    run=PLAIN, zero=values(KEYS["zero"]), sharding=st.sampled_from(["auto", "deepspeed"]),
    parameter=values(KEYS["fsdp_param"]), reduce=values(KEYS["fsdp_reduce"]), bucket=st.integers(1, 1 << 30),
)  # fmt: skip
def test_sharding_over_one_gpu_changes_nothing(run, zero, sharding, parameter, reduce, bucket):
    """With nobody to share with, no key of sharding matters."""
    alone = run.but(gpus=1)
    keys = {
        "zero": zero,
        "sharding": sharding,
        "fsdp_param": parameter,
        "fsdp_reduce": reduce,
        "bucket": bucket,
    }
    now, then = estimate(alone), estimate(alone.but(**keys))
    assert now.phases == then.phases
    assert (now.device, now.band("device")) == (then.device, then.band("device"))


@given(run=PLAIN, gpus=st.sampled_from([2, 3, 8, 64]))
def test_states_never_grow_with_the_stage(run, gpus):
    """Each ZeRO stage divides more of weights, gradients and states among the GPUs."""
    sizes = [states(run.but(gpus=gpus, sharding="deepspeed", zero=zero)) for zero in "123"]
    assert sizes == sorted(sizes, reverse=True)


@given(run=PLAIN)
def test_more_gpus_never_hold_more_states(run):
    """The share of a GPU shrinks with their number."""
    fsdp = run.but(zero="3", sharding="fsdp2")
    sizes = [states(fsdp.but(gpus=gpus)) for gpus in (2, 4, 16)]
    assert sizes == sorted(sizes, reverse=True)


@given(run=PLAIN, mode=values(KEYS["checkpointing"]))
def test_checkpointing_changes_activations_and_copies_alone(run, mode):
    """At the optimizer's step nothing depends on it, and no layer keeps more than everything.

    Selective checkpointing keeps what adapters return, which nothing else would keep.
    """
    none, other = estimate(run.but(checkpointing="none")), estimate(run.but(checkpointing=mode))
    assert other.amounts["optimizer step"] == none.amounts["optimizer step"]
    if mode != "selective-matmul" or not run.lora_rank:
        assert (
            other.amounts["forward end"]["kept_by_layers"]
            <= none.amounts["forward end"]["kept_by_layers"]
        )
    assert (other.parameters, other.trainable) == (none.parameters, none.trainable)


@given(run=PLAIN)
def test_accumulation_never_lowers(run):
    """Gradients that stay between micro-batches take their place in every phase."""
    once, often = estimate(run.but(grad_accum=1)), estimate(run.but(grad_accum=4))
    assert once.phases["forward end"] < often.phases["forward end"]
    assert once.phases["optimizer step"] == often.phases["optimizer step"]
    assert once.allocated <= often.allocated


@given(run=PLAIN, base=st.sampled_from(["bf16", "int8", "nf4"]))
def test_adapters_lower_the_states(run, base):
    """States shrink from full training to LoRA, and from LoRA to a packed base."""
    full = run.but(lora_rank=0, base="recipe", gpus=1)
    lora = settle(full.but(lora_rank=4), frozenset())[0]
    assert states(lora) < states(full)
    assert states(lora.but(base=base)) <= states(lora)
    assert states(lora.but(base="nf4")) < states(lora.but(base="bf16"))


@given(kv_heads=st.sampled_from([1, 2, 4, 8]), head_dim=st.integers(1, 128))
def test_grouped_heads_have_fewer_parameters(kv_heads, head_dim):
    """Fewer heads of keys and values are narrower projections."""
    grouped = estimate(Run(model="llama-2-7b", kv_heads=kv_heads, head_dim=head_dim))
    whole = estimate(Run(model="llama-2-7b", kv_heads=32, head_dim=head_dim))
    less = 2 * 32 * 4096 * head_dim * (32 - kv_heads)
    assert whole.parameters - grouped.parameters == less
    assert grouped.allocated < whole.allocated


NOISE = st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.lists(
    st.tuples(st.sampled_from(sorted(KEYS)) | st.text(), st.text() | st.from_regex(r"[-+0-9.eEkMB_,]{1,30}"))
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))  # fmt: skip
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@given(text=NOISE, default=st.just("") | NOISE)
def test_any_text_is_read(text, default):
    """No text raises; what it means settles, is estimated, and each problem is a sentence that can be shown."""
    run, problems = parse(text, default=default)
    assert settle(run, frozenset(KEYS)) == (run, [])
    estimate(run)
    for problem in problems:
        sentence = str(problem)
        assert sentence.endswith((".", "?"))
        assert len(sentence) < 300
        assert sentence.isprintable()
        assert not BIDI & set(sentence)
        assert "{" in text + default or "{" not in sentence, "a placeholder was not filled"
        assert problem.sentence("ur")
        assert problem.sentence("bn")


@pytest.mark.cpython
@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "a=b&",
        "%",
        "seq=1&",
        "&",
        "=",
        "\u202e",
        "<script>",
        "seq=9",
        "é&",
        "lora_targets=" + "a," * 20,
    ],
)
def test_noise_is_read_in_time(piece):
    """100 kB of anything takes less than a second, and says that the link is too long."""
    text = piece * (100_000 // len(piece))
    start = time.perf_counter()
    _, problems = parse(text)
    sentences = [str(problem) for problem in problems]
    assert time.perf_counter() - start < 1
    assert sentences[0].startswith("This link has ")


@pytest.mark.slow
@pytest.mark.cpython
@settings(max_examples=3000, deadline=None)
@given(run=RUNS)
def test_any_of_many_runs_is_estimated(run):
    """The slow tail: thirty times as many runs as in every test run, each estimated, linked and read again."""
    report = estimate(run)
    assert report.allocated == max(report.phases.values()) > 0
    assert report.rows.total() == report.device
    again, problems = parse(link(run))
    assert (again, problems) == (run, [])
