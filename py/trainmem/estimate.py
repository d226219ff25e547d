"""Run -> Report: the only conductor. It walks the run, takes the largest phase, and adds what is no tensor."""

from functools import cached_property
from typing import NamedTuple

from trainmem import catalog, megatron, overhead, rows
from trainmem.architectures import Model, outside_weights
from trainmem.changes import Change, changes
from trainmem.ledger import PARTS, Ledger
from trainmem.phases import phases
from trainmem.run import Run, model_of
from trainmem.step import Amounts, Step, walk


class Verdict(NamedTuple):
    """Does it fit? Bytes on the fullest GPU.

    kind: "fits" when the upper end of the band clears the limit, "over" when the lower end is above what is usable, "tight"
    between, "unknown" when nobody knows the card's usable memory. `limit` is `usable` less the headroom.
    """

    kind: str
    need: int
    low: int
    high: int
    usable: int | None
    limit: int | None

    @property
    def free(self) -> int:
        """Bytes left below the usable memory; 0 if none or unknown."""
        return max(0, self.usable - self.need) if self.usable else 0

    @property
    def over(self) -> int:
        """Bytes above the usable memory; 0 if none or unknown."""
        return max(0, self.need - self.usable) if self.usable else 0


class Rank(NamedTuple):
    """One pipeline stage's fullest GPU. A run without pipeline parallelism has one."""

    stage: int
    device: int
    by_part: dict[str, int]
    peak_phase: str


class Report:
    """What one run takes on its fullest GPU. All sizes are bytes; texts and rows are made when asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.stages: list[tuple[Step, dict[str, Amounts]]] = stages(run)
        self.step, self.amounts = max(self.stages, key=lambda stage: _highest(stage[1]))
        self.phases: dict[str, int] = {
            name: sum(amounts.values()) for name, amounts in self.amounts.items()
        }
        self.peak_phase: str = max(self.phases, key=self.phases.__getitem__)
        self.allocated: int = self.phases[self.peak_phase]
        self.kind = self.step.sharing.kind
        self.overhead = self._overhead(self.allocated)

    @cached_property
    def model(self) -> Model:
        """The whole model."""
        return model_of(self.run)

    def _overhead(self, allocated: int) -> overhead.Overhead:
        generation = str(catalog.entry("gpus", self.run.gpu).get("architecture", ""))
        grouped = self.run.grouped_gemm and self.model.experts > 0
        size = overhead.workspace(generation, self.run.framework, self.run.workspace, grouped)
        data = self.run.gpus // (self.run.tp * self.run.pp)
        groups = (data > 1) + (self.run.tp > 1) + (self.run.pp > 1)
        return overhead.overhead(allocated, self.kind, size, groups)

    @property
    def reserved(self) -> int:
        """What PyTorch's allocator takes from the driver: tensors, its own slack, cuBLAS workspaces."""
        return self.allocated + self.overhead.slack[0] + self.overhead.workspace

    @property
    def device(self) -> int:
        """What nvidia-smi shows: reserved, the CUDA context, and communicators."""
        return self.allocated + self.overhead.expected

    def band(self, level: str) -> tuple[int, int]:
        """Low and high of "allocated", "reserved" or "device"."""
        return overhead.band(self.allocated, self.kind, self.overhead, level)

    @cached_property
    def outside_step(self) -> dict[str, int]:
        """Allocated bytes outside the steady step: after loading, in the first step, in evaluation, while saving."""
        step, head = self.step, self.step.head
        states = sum(
            size for key, size in step.static.items() if rows.KINDS[key].part == "optimizer"
        )
        early = max(size for name, size in self.phases.items() if name != "optimizer step") - states
        loaded = step.static["weights"] + step.static["base_weights"]
        casts = step.layers_cached + head.casts
        whole = step.layer_elements * step.forward.weights if step.sharing.shards_weights > 1 else 0
        return {
            "load": loaded + whole,
            "first step": max(early, self.phases["optimizer step"]),
            "evaluation": sum(step.static.values())
            + casts
            + whole
            + head.logits
            + head.log_probabilities
            + head.kept,
            "save": sum(step.static.values()) + whole,
        }

    @cached_property
    def rows(self) -> Ledger:
        """The ledger at the peak, overhead included: it sums to `device`."""
        return self.rows_at(self.peak_phase)

    def rows_at(self, phase: str) -> Ledger:
        """The ledger of one phase, with the overhead of the whole run."""
        return Ledger(
            (
                *rows.ledger(self.step, self.amounts[phase]),
                *rows.overhead_rows(self.overhead, self.allocated),
            )
        )

    def parts_at(self, phase: str) -> dict[str, int]:
        """Bytes of each part in one phase."""
        sums = dict.fromkeys(PARTS, 0)
        for key, size in self.amounts[phase].items():
            sums[rows.KINDS[key].part] += size
        sums["overhead"] = self.device - self.allocated
        return sums

    @cached_property
    def by_part(self) -> dict[str, int]:
        """Bytes of each part at the peak; they sum to `device`."""
        return self.parts_at(self.peak_phase)

    @property
    def layer_saved(self) -> int:
        """Bytes that a typical layer keeps from its forward to its backward, under the run's checkpointing."""
        return self.step.plan.plain.bytes

    @cached_property
    def parameters(self) -> int:
        """Parameters of the whole model, tied weights once, adapters not counted."""
        step = self.step
        if self.run.framework == "megatron":
            return megatron.parameters(self.run)
        if self.run.tp > 1:
            return Report(self.run.but(tp=1, gpus=1)).parameters
        adapters = sum(
            count * w.elements
            for kind, count in step.counts()
            for w in kind.weights
            if ".lora_" in w.name
        )
        outside = sum(w.elements for w in outside_weights(self.model, 1))
        return outside + step.layers_elements - adapters

    @cached_property
    def trainable(self) -> int:
        """Parameters that train, over all GPUs of one model copy."""
        if self.run.framework == "megatron":
            return self.parameters
        if self.run.tp > 1:
            return Report(self.run.but(tp=1, gpus=1)).trainable
        return rows.trainable(self.step)

    @property
    def ranks(self) -> list[Rank]:
        """One entry a pipeline stage."""
        return [self._rank(place, amounts) for place, (_, amounts) in enumerate(self.stages)]

    def _rank(self, place: int, amounts: dict[str, Amounts]) -> Rank:
        """What one stage's GPU holds at its own highest phase."""
        phase, most = max(amounts.items(), key=lambda item: sum(item[1].values()))
        sums = dict.fromkeys(PARTS, 0)
        for key, size in most.items():
            sums[rows.KINDS[key].part] += size
        allocated = sum(sums.values())
        extra = self._overhead(allocated)
        sums["overhead"] = extra.expected
        return Rank(place, allocated + extra.expected, sums, phase)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the fullest phase, in the step or outside it, fits the card with its headroom."""
        usable: int | None = (
            self.run.usable or catalog.usable_bytes(self.run.gpu, ecc=self.run.ecc)[0]
        )
        most = max(self.allocated, *self.outside_step.values())
        need, (low, high) = self.device, self.band("device")
        if most > self.allocated:
            extra = self._overhead(most)
            need = most + extra.expected
            low, high = overhead.band(most, self.kind, extra, "device")
        if usable is None:
            return Verdict("unknown", need, low, high, None, None)
        limit = int(usable * (1 - self.run.headroom / 100))
        kind = "fits" if high <= limit else "over" if low > usable else "tight"
        return Verdict(kind, need, low, high, usable, limit)

    def changes(self) -> list[Change]:
        """Single changes that would save memory, the best first."""
        return changes(self, estimate)


def stages(run: Run) -> list[tuple[Step, dict[str, Amounts]]]:
    """Each pipeline stage of a run, walked, with the amounts of its phases."""
    if run.framework == "megatron":
        walked = [megatron.walk(run, stage) for stage in range(run.pp)]
        return [(step, megatron.phases(step, stage)) for stage, step in enumerate(walked)]
    step = walk(run)
    return [(step, phases(step))]


def _highest(amounts: dict[str, Amounts]) -> int:
    return max(sum(phase.values()) for phase in amounts.values())


def estimate(run: Run) -> Report:
    """What a run takes on its fullest GPU."""
    return Report(run)
