"""What would make it fit: single changes to a run, each with what it saves."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from trainmem import parallel
from trainmem.architectures import every_target
from trainmem.checks import settle
from trainmem.run import Run, model_of


class Change(NamedTuple):
    """One change: `key` names it in the words ("change.KEY"), `values` fill its placeholders, `saving` is bytes on the fullest GPU."""

    key: str
    values: dict[str, Any]
    saving: int
    run: Run
    fits: bool


class _Verdict(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def need(self) -> int: ...


class _Report(Protocol):
    @property
    def run(self) -> Run: ...

    @property
    def verdict(self) -> _Verdict: ...


def changes(report: _Report, estimate: Callable[[Run], _Report]) -> list[Change]:
    """Every single change that saves memory: those that fit first, then by their saving."""
    found = []
    for key, values, other in proposals(report.run):
        settled, broken = settle(other, frozenset())
        if broken:
            continue
        verdict = estimate(settled).verdict
        saving = report.verdict.need - verdict.need
        if saving > 0:
            found.append(Change(key, values, saving, settled, verdict.kind == "fits"))
    return sorted(found, key=lambda change: (not change.fits, -change.saving))


def proposals(run: Run) -> Iterator[tuple[str, dict[str, Any], Run]]:
    """The changes worth trying from a run; which of them help is for the estimator to say."""
    if run.checkpointing != "full":
        yield "full_checkpointing", {}, run.but(checkpointing="full")
    if run.attention == "eager":
        yield "sdpa", {}, run.but(attention="sdpa")
    if run.loss == "full":
        yield "chunked_loss", {}, run.but(loss="chunked")
    if run.keep_outputs:
        yield "drop_outputs", {}, run.but(keep_outputs=False)
    if run.gradients == "kept":
        yield "free_gradients", {}, run.but(gradients="freed")
    if run.micro_batch > 1:
        half = run.micro_batch // 2
        yield "micro_batch", {"n": half}, run.but(micro_batch=half)
    if run.seq > 512:
        yield "sequence", {"n": run.seq // 2}, run.but(seq=run.seq // 2)
    yield from _training(run)
    yield from _cluster(run)


def _training(run: Run) -> Iterator[tuple[str, dict[str, Any], Run]]:
    """Optimizer, precision, adapters."""
    if run.optimizer in ("adamw", "adamw-forloop"):
        yield "fused_adamw", {}, run.but(optimizer="adamw-fused")
    if run.optimizer in ("adamw", "adamw-forloop", "adamw-fused"):
        yield "adamw_8bit", {}, run.but(optimizer="adamw-8bit")
    if run.precision != "bf16-true" and not run.lora_rank:
        yield "pure_bf16", {}, run.but(precision="bf16-true")
    if not run.lora_rank:
        targets = _targets(run)
        yield "lora", {"n": 16}, run.but(lora_rank=16, lora_targets=targets, base="bf16")
        yield "qlora", {"n": 16}, run.but(lora_rank=16, lora_targets=targets, base="nf4")
    elif run.base not in ("nf4", "int8"):
        yield "qlora", {"n": run.lora_rank}, run.but(base="nf4")
    if run.offload == "none":
        yield "offload_optimizer", {}, run.but(offload="optimizer")


def _targets(run: Run) -> str:
    """All linears, or where that means more than is modelled, each of them by name."""
    names = every_target(model_of(run))
    return "all-linear" if "all-linear" in names else ",".join(names)


def _cluster(run: Run) -> Iterator[tuple[str, dict[str, Any], Run]]:
    """More GPUs, and what they divide."""
    kind = parallel.kind_of(run.sharding, run.zero, run.gpus, run.tp)
    if kind == "alone":
        gpus = 8 * run.tp
        yield "more_gpus_zero3", {"n": gpus}, run.but(gpus=gpus, zero="3")
        return
    if run.zero < "3":
        higher = {"0": "2", "1": "2", "2": "3"}[run.zero]
        yield "zero", {"n": higher}, run.but(zero=higher)
        if higher != "3":
            yield "zero", {"n": "3"}, run.but(zero="3")
    if run.zero > "0" and run.gpus < 1 << 19:
        yield "more_gpus", {"n": 2 * run.gpus}, run.but(gpus=2 * run.gpus)
