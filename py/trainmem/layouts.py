"""Layouts: every way to cut a run over a number of GPUs, and the micro-batches that each may have."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainmem import parallel
from trainmem.checks import settle
from trainmem.run import KEYS, Run, model_of

ALL = frozenset(KEYS)


class Limits(NamedTuple):
    """Where a search looks: the most GPUs along each axis, the most micro-batches, and the checkpointing to try (none: the run's).

    `tp` stays inside a node, whose links it needs; `gpus` ends the search for the smallest number.
    """

    tp: int = 8
    pp: int = 64
    vpp: int = 8
    cp: int = 16
    ep: int = 64
    gpus: int = 1024
    micro_batch: int = int(KEYS["micro_batch"].maximum)
    checkpointing: tuple[str, ...] = ()


def layouts(run: Run, gpus: int, limits: Limits | None = None) -> Iterator[Run]:
    """Every valid layout of a run on so many GPUs, the plainest first."""
    limits = limits or Limits()
    make = _megatron_layouts if run.framework == "megatron" else _sharded_layouts
    for checkpointing in limits.checkpointing or (run.checkpointing,):
        base = run.but(
            gpus=gpus,
            checkpointing=checkpointing,
            zero="0",
            tp=1,
            sp=False,
            pp=1,
            vpp=1,
            cp=1,
            ep=1,
        )
        for found in make(base, limits):
            if settle(found, ALL) == (found, []):
                yield found


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(1, min(number, most) + 1) if number % n == 0]


def _sharded_layouts(run: Run, limits: Limits) -> Iterator[Run]:
    """Data parallelism with each stage of ZeRO and of FSDP2, and tensor parallelism beside it."""
    for tp in _divisors(run.gpus, limits.tp):
        alone = run.but(tp=tp, sharding="auto")
        yield alone
        if run.gpus > tp:
            yield from (alone.but(zero=stage) for stage in "123")
            yield from (alone.but(zero=stage, sharding="deepspeed") for stage in "23")


def _megatron_layouts(run: Run, limits: Limits) -> Iterator[Run]:
    """Tensor, sequence, pipeline, context and expert parallelism, with and without the distributed optimizer."""
    model = model_of(run)
    for tp in _divisors(run.gpus, limits.tp):
        for pp in _divisors(run.gpus // tp, min(limits.pp, model.layers)):
            data = run.gpus // (tp * pp)
            depths = _divisors(model.layers // pp, limits.vpp) if model.layers % pp == 0 else [1]
            for vpp in depths if pp > 1 else [1]:
                for cp in _divisors(data, limits.cp):
                    for ep in _divisors(model.experts or 1, limits.ep):
                        cut = run.but(tp=tp, pp=pp, vpp=vpp, cp=cp, ep=ep)
                        yield from _ways(cut, data)


def _ways(run: Run, data: int) -> Iterator[Run]:
    """With sequence parallelism or not, with the distributed optimizer or not."""
    for sp in (False, True) if run.tp > 1 else (False,):
        for zero in "01" if data > 1 else "0":
            yield run.but(sp=sp, zero=zero)


def data_of(run: Run) -> int:
    """Over how many GPUs the sequences of a step are divided."""
    return run.gpus // (run.tp * run.pp * run.cp)


SHARING = {"ddp": "DDP", "deepspeed": "DeepSpeed ZeRO-{}", "fsdp2": "FSDP2 ZeRO-{}"}


def name_of(run: Run) -> str:
    """A layout in the abbreviations that every language uses: "DP 8 · FSDP2 ZeRO-3 · TP 4"."""
    data = data_of(run)
    parts = [f"DP {data}"] if data > 1 else []
    if run.framework == "megatron":
        parts += ["ZeRO-1"] if run.zero != "0" and run.gpus > run.tp * run.pp else []
    else:
        kind = parallel.kind_of(run.sharding, run.zero, run.gpus, run.tp)
        parts += [SHARING[kind].format(run.zero)] if kind in SHARING else []
    parts += [f"TP {run.tp}" + " + SP" * run.sp] if run.tp > 1 else []
    parts += [f"PP {run.pp}" + (f" × {run.vpp}" if run.vpp > 1 else "")] if run.pp > 1 else []
    parts += [f"CP {run.cp}"] if run.cp > 1 else []
    parts += [f"EP {run.ep}"] if run.ep > 1 else []
    return " · ".join(parts) or "1 GPU"


def sized(run: Run, micro_batch: int, global_batch: int | None) -> Run:
    """The run with another micro-batch, and with the accumulation that a global batch then takes."""
    if global_batch is None:
        return run.but(micro_batch=micro_batch)
    steps = global_batch // (data_of(run) * micro_batch)
    return run.but(micro_batch=micro_batch, grad_accum=steps)


def sizes(run: Run, global_batch: int | None, limits: Limits) -> Sequence[int]:
    """The micro-batches that a layout may have, ascending; none where the global batch cannot be divided."""
    if global_batch is None:
        return range(1, limits.micro_batch + 1)
    share, rest = divmod(global_batch, data_of(run))
    return [] if rest else _divisors(share, limits.micro_batch)


def counts(most: int) -> Iterator[int]:
    """Numbers of GPUs that a cluster may have: up to a node's eight, then whole nodes."""
    yield from range(1, min(8, most) + 1)
    yield from range(16, most + 1, 8)
