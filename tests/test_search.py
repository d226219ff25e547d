"""The search for a layout: what it finds is what trying everything finds."""

import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmem import lines, parallel
from trainmem.checks import settle
from trainmem.estimate import card_of, estimate
from trainmem.layouts import Limits, layouts
from trainmem.link import parse
from trainmem.phases import phases
from trainmem.run import KEYS, Run
from trainmem.step import resized, walk

GIB = 1 << 30
search = sys.modules["trainmem.search"]  # `trainmem.search` is the function
MOST = 6  # the largest micro-batch that brute force tries
SMALL = Limits(tp=4, pp=4, vpp=2, cp=2, micro_batch=MOST)


def run_of(query):
    """The run of a query that must be understood whole."""
    run, problems = parse(query)
    assert not problems, [str(problem) for problem in problems]
    return run


def settled(chosen):
    """The run that some values become."""
    return settle(Run(**chosen), frozenset(chosen))[0]


def choices(name):
    """Any choice of a key."""
    return st.sampled_from(KEYS[name].choices)


COMMON = {
    "model": st.sampled_from(["llama-3.2-1b", "qwen3-0.6b", "gpt2", "gemma-2-2b", "mixtral-8x7b", "deepseek-v2-lite"]),
    "optimizer": choices("optimizer"), "precision": choices("precision"),
    "seq": st.sampled_from([64, 1000, 1024]), "micro_batch": st.integers(1, 4), "grad_accum": st.sampled_from([1, 4]),
    "usable": st.integers(2, 200).map(lambda n: n * GIB), "headroom": st.sampled_from([0.0, 10.0]),
}  # fmt: skip
SHARDED = st.fixed_dictionaries(COMMON | {
    "checkpointing": choices("checkpointing"), "loss": st.sampled_from(["full", "chunked", "fused"]),
    "attention": st.sampled_from(["sdpa", "eager"]), "gradients": choices("gradients"),
    "lora_rank": st.sampled_from([0, 0, 8]), "lora_dropout": st.sampled_from([0.0, 0.1]), "base": choices("base"),
    "offload": choices("offload"),
}).map(settled)  # fmt: skip
MEGATRON = st.fixed_dictionaries(COMMON | {
    "framework": st.just("megatron"), "checkpointing": st.sampled_from(["none", "full", "selective-attention"]),
    "attention": st.sampled_from(["fused", "unfused", "flash2"]), "loss": st.sampled_from(["full", "fused"]),
}).map(settled)  # fmt: skip
FEW = settings(max_examples=min(25, settings().max_examples))
GPUS = st.sampled_from([1, 2, 4, 8])


def meaning(run):
    """What tells one layout from another: `sharding=auto` stands for one of the others."""
    kind = parallel.kind_of(run.sharding, run.zero, run.gpus, run.tp)
    zero = "0" if run.gpus == run.tp * run.pp else run.zero
    sharding = kind if run.framework == "transformers" else run.framework
    return run.tp, run.sp, run.pp, run.vpp, run.cp, run.ep, zero, sharding


def everything(run, gpus):
    """All layouts, by trying every combination of the axes."""
    up_to = range(1, gpus + 1)
    axes = {"zero": "0123", "sharding": ("auto", "deepspeed", "fsdp2"), "tp": up_to}
    if run.framework == "megatron":
        sizes = {"pp": up_to, "vpp": (1, 2), "cp": (1, 2), "ep": (1, 2, 4, 8)}
        axes = {"zero": "01", "tp": up_to, "sp": (False, True), **sizes}
    for values in product(*axes.values()):
        chosen = run.but(gpus=gpus, **dict(zip(axes, values, strict=True)))
        wanted = chosen.sp <= (chosen.tp > 1) and chosen.tp <= 4 and chosen.pp <= 4
        if wanted and settle(chosen, frozenset(KEYS)) == (chosen, []):
            yield chosen


def brute_force(run, gpus, global_batch=None):
    """For each layout its verdict as asked, the largest micro-batch that fits, and the verdict there."""
    found = {}
    for layout in everything(run, gpus):
        data = gpus // (layout.tp * layout.pp * layout.cp)
        if global_batch and global_batch % data:
            continue
        tried = {}
        for size in {*range(1, MOST + 1), run.micro_batch}:
            if global_batch and (global_batch // data) % size:
                continue
            steps = {"grad_accum": global_batch // data // size} if global_batch else {}
            tried[size] = estimate(layout.but(micro_batch=size, **steps)).verdict
        asked = max((size for size in tried if size <= run.micro_batch), default=min(tried))
        largest = max((n for n, verdict in tried.items() if verdict.kind == "fits"), default=0)
        best = tried[largest or asked]
        found[meaning(layout)] = tried[asked], largest, best
    return found


def as_found(candidates):
    """The same of a search."""
    return {meaning(one.run): (one.verdict, one.largest, one.best) for one in candidates}


@FEW
@given(run=SHARDED, gpus=GPUS)
def test_a_search_finds_what_brute_force_finds(run, gpus):
    """Every layout once, each with the verdict and the largest micro-batch that `estimate` gives."""
    found = list(search.search(run, gpus, limits=SMALL))
    assert as_found(found) == brute_force(run, gpus)
    assert len({meaning(one.run) for one in found}) == len(found)


@FEW
@given(run=MEGATRON, gpus=GPUS)
def test_a_search_finds_what_brute_force_finds_for_megatron(run, gpus):
    """The same with pipeline, context and sequence parallelism."""
    found = list(search.search(run, gpus, limits=SMALL))
    assert as_found(found) == brute_force(run, gpus)
    assert len({meaning(one.run) for one in found}) == len(found)


@FEW
@given(run=SHARDED | MEGATRON, gpus=GPUS, global_batch=st.sampled_from([4, 6, 8, 9]))
def test_a_global_batch_is_made_up_exactly(run, gpus, global_batch):
    """Micro-batch, accumulation and data parallelism multiply to the global batch, and nothing larger fits."""
    found = list(search.search(run, gpus, global_batch, SMALL))
    assert as_found(found) == brute_force(run, gpus, global_batch)
    for one in found:
        best = one.best_run
        assert best.micro_batch * best.grad_accum * one.data == global_batch


@given(
    run=SHARDED,
    gpus=st.sampled_from([1, 8]),
    zero=st.sampled_from("0123"),
    size=st.integers(1, 5000),
)
def test_a_resized_step_is_a_walked_one(run, gpus, zero, size):
    """Lines through two walks give every amount of every phase that a walk at that size gives."""
    run = settle(run.but(gpus=gpus, zero=zero), frozenset(KEYS))[0]
    small = walk(run.but(micro_batch=1), lines.layer, lines.head)
    large = run.but(micro_batch=size)
    assert phases(resized(small, large, lines.layer, lines.head)) == phases(walk(large))


def test_walks_lie_on_lines():
    """The check far out holds for a family's layers and heads, so that no size has to be walked."""
    for query in (
        "model=llama-3.2-1b",
        "model=gpt2&attention=eager",
        "model=qwen3-0.6b&lora_rank=8",
    ):
        step = walk(run_of(query), lines.layer, lines.head)
        (asked,) = step.asked
        _, layers = lines._layers(asked)
        heads = lines._heads(step.model, asked.precision, not asked.adapter, False)
        assert layers.on_lines
        assert heads.on_lines


def test_a_walk_that_is_rounded_is_walked():
    """Where sizes do not lie on lines, each is made by itself."""
    sizes = lines.Sizes(lambda n: n // 4, lambda n: n * 0)
    assert not sizes.on_lines
    assert [sizes.at(n) for n in (1, 4, 9)] == [0, 1, 2]


@given(last=st.integers(0, 200), length=st.integers(0, 200))
def test_the_last_that_fits(last, length):
    """Doubling and halving find the last that fits, and ask for few."""
    asked = []
    found = search.last_that(lambda n: asked.append(n) or n <= last, range(1, length + 1))
    assert found == min(last, length)
    assert len(asked) == len(set(asked)) <= 2 * length.bit_length() + 1


def test_evaluations_are_counted_as_they_are_computed(monkeypatch):
    """The count of a search is the number of verdicts that it computed, none twice."""
    judged = []
    judge = search.judge
    monkeypatch.setattr(search, "judge", lambda *all_: judged.append(all_) or judge(*all_))
    found = list(search.search(run_of("model=llama-3.2-1b"), 8))
    assert sum(one.evaluations for one in found) == len(judged) > len(found)


def test_the_best_comes_first():
    """Layouts that fit come before those that do not, and of these the one that leaves most free."""
    run = run_of("model=llama-3.1-8b&checkpointing=full")
    best = search.ranked(search.search(run, 8))
    kinds = [one.verdict.kind for one in best]
    assert kinds == sorted(kinds, key=search.ORDER.__getitem__)
    fitting = [one.verdict.need for one in best if one.verdict.kind == "fits"]
    assert fitting == sorted(fitting)
    assert fitting


def test_the_smallest_number_of_gpus():
    """Nothing fits on fewer GPUs, and something does on these."""
    run = run_of("model=llama-2-13b&checkpointing=full&micro_batch=2")
    found = search.smallest(run)
    fits = {
        gpus: any(estimate(layout).verdict.kind == "fits" for layout in layouts(run, gpus))
        for gpus in range(1, 9)
    }
    assert found.run.gpus == min(gpus for gpus, some in fits.items() if some)
    assert found.verdict.kind == "fits"
    assert found.run.micro_batch == 2


def test_no_number_of_gpus_holds_what_one_sequence_needs():
    """Where one sequence is too long for any layout there is no smallest number."""
    run = run_of("model=llama-3.1-8b&seq=10m")
    assert search.smallest(run, Limits(gpus=16)) is None


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("model=gpt2&usable=20GiB", "micro_batch"),
        ("model=llama-3.2-1b&usable=40GiB", "seq"),
        ("model=gpt2&usable=80GiB", "seq"),
        ("model=gpt2&usable=12GiB", "layers"),
        ("framework=megatron&model=llama-3.2-1b&cp=2&gpus=2&usable=40GiB", "seq"),
        ("framework=megatron&model=llama-3.2-1b&pp=2&vpp=2&gpus=2&usable=40GiB", "layers"),
    ],
)
def test_the_largest_is_the_last_that_fits(query, key):
    """One step more does not fit, or cannot be; this one does."""
    run = run_of(query)
    found = search.largest(run, key)
    step = {"seq": 2 * run.cp if run.cp > 1 else 1, "layers": run.pp * run.vpp}.get(key, 1)
    assert found % step == 0
    assert estimate(run.but(**{key: found})).verdict.kind == "fits"
    more = run.but(**{key: found + step})
    assert settle(more, frozenset(KEYS))[0] != more or estimate(more).verdict.kind != "fits"


def test_the_largest_of_what_never_fits_is_nothing():
    """A model that no sequence makes fit has none."""
    assert search.largest(run_of("model=llama-3-70b"), "seq") == 0


def test_an_unknown_card_gives_needs_without_verdicts():
    """Where nobody knows what a card holds, layouts are still ranked by what they need."""
    run = run_of("model=llama-3.2-1b")
    card = card_of(run)._replace(usable=None, limit=None)
    found = [search.evaluate(layout, card) for layout in layouts(run, 8)]
    assert {(one.verdict.kind, one.largest) for one in found} == {("unknown", 0)}


def test_several_numbers_of_gpus_in_turn():
    """A search over several numbers is the searches of each, one after the other."""
    run = run_of("model=llama-3.2-1b")
    alone = [one for gpus in (2, 4) for one in search.search(run, gpus)]
    assert list(search.search(run, [2, 4])) == alone


# Elsewhere


@pytest.mark.cpython
@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_finds_the_same(kind):
    """Any executor gives the same layouts in the same order."""
    run = run_of("model=llama-3.2-1b")
    with kind(2) as executor:
        found = list(search.search(run, [4, 8, 16], executor=executor))
    assert found == list(search.search(run, [4, 8, 16]))


@pytest.mark.cpython
def test_dask_finds_the_same():
    """Dask's executor, as the documentation shows it, gives the same layouts in the same order."""
    import distributed

    run = run_of("model=llama-3.2-1b")
    with distributed.Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as client:
        found = list(search.search(run, [4, 8], executor=client.get_executor()))
    assert found == list(search.search(run, [4, 8]))


class Lazy(Executor):
    """An executor that runs nothing until it is waited for, and counts what was cancelled."""

    def __init__(self):
        self.cancelled = self.given = 0

    def submit(self, call, /, *args):
        executor = self

        class Later(Future):
            def result(self, timeout=None):
                return call(*args)

            def cancel(self):
                executor.cancelled += 1
                return super().cancel()

        self.given += 1
        return Later()


def test_a_search_that_is_left_cancels_what_waits():
    """Whoever stops listening does not pay for the rest, and no more than a few chunks are handed out ahead."""
    executor = Lazy()
    found = search.search(run_of("model=llama-3.2-1b"), range(8, 8000, 8), executor=executor)
    next(found)
    assert executor.given <= search.WAITING
    found.close()
    assert executor.cancelled == executor.given - 1


@pytest.mark.cpython
def test_a_search_is_quick():
    """A sweep over cluster sizes makes thousands of evaluations a second; `dev.py bench` measures it against its promise."""
    run = run_of("model=llama-3.1-8b")
    rates = []
    for _ in range(3):
        start = time.process_time()
        found = list(search.search(run, [1 << n for n in range(8)]))
        spent = time.process_time() - start
        rates.append(sum(one.evaluations for one in found) / spent)
    assert max(rates) > 6000


def test_what_happens_outside_the_step_counts():
    """A layer too large for DeepSpeed's limit is whole while weights are loaded: the verdict of a search knows it, too."""
    run = run_of(
        "arch=llama&layers=2&hidden=16384&ffn=131072&heads=128&kv_heads=8&head_dim=128&vocab=32000&seq=128&gpus=1024&lora_rank=8"
    )
    found = {one.run: one.verdict for one in search.search(run)}
    reports = {layout: estimate(layout) for layout in found}
    assert any(max(report.outside_step.values()) > report.allocated for report in reports.values())
    assert {layout: report.verdict for layout, report in reports.items()} == found
