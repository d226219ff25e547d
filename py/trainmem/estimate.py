"""Run -> Report: the only conductor. It walks the run, takes the largest phase, and adds what is no tensor."""

from functools import cached_property
from typing import NamedTuple

from trainmem import catalog, megatron, overhead, rows
from trainmem.architectures import Model, outside_weights
from trainmem.changes import Change, changes
from trainmem.ledger import PARTS, Ledger
from trainmem.phases import phases
from trainmem.run import Run, model_of
from trainmem.step import Step, walk
from trainmem.weighing import Amounts


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


class Card(NamedTuple):
    """What a run's card and software give, however the run is cut: usable memory, that less the headroom, libraries' workspaces."""

    usable: int | None
    limit: int | None
    workspace: int


def card_of(run: Run) -> Card:
    """The card of a run."""
    usable: int | None = run.usable or catalog.usable_bytes(run.gpu, ecc=run.ecc)[0]
    limit = None if usable is None else int(usable * (1 - run.headroom / 100))
    generation = str(catalog.entry("gpus", run.gpu).get("architecture", ""))
    grouped = run.grouped_gemm and model_of(run).experts > 0
    workspace = overhead.workspace(generation, run.framework, run.workspace, grouped)
    return Card(usable, limit, workspace)


def groups_of(run: Run) -> int:
    """How many communicators a GPU of the run is in: one for each axis, data's among them."""
    data = run.gpus // (run.tp * run.pp)
    return sum(size > 1 for size in (data, run.tp, run.pp, run.cp, run.ep))


def judge(most: int, kind: str, groups: int, card: Card) -> Verdict:
    """The verdict on a run whose tensors take `most` bytes at the highest point, in its steps or outside them."""
    extra = overhead.overhead(most, kind, card.workspace, groups)
    need, (low, high) = most + extra.expected, overhead.band(most, kind, extra, "device")
    if card.usable is None or card.limit is None:
        return Verdict("unknown", need, low, high, None, None)
    fits = "fits" if high <= card.limit else "over" if low > card.usable else "tight"
    return Verdict(fits, need, low, high, card.usable, card.limit)


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
        self.kind = overhead.evidence(self.step.sharing.kind, run.base, run.tp)
        self.card = card_of(run)
        self.overhead = self._overhead(self.allocated)

    @cached_property
    def model(self) -> Model:
        """The whole model."""
        return model_of(self.run)

    def _overhead(self, allocated: int) -> overhead.Overhead:
        groups = groups_of(self.run)
        return overhead.overhead(allocated, self.kind, self.card.workspace, groups)

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
        step = self.step
        states = sum(
            size for key, size in step.static.items() if rows.KINDS[key].part == "optimizer"
        )
        early = max(size for name, size in self.phases.items() if name != "optimizer step") - states
        load, evaluation, save = around(step)
        return {
            "load": load,
            "first step": max(early, self.phases["optimizer step"]),
            "evaluation": evaluation,
            "save": save,
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
        most = max(self.allocated, *self.outside_step.values())
        return judge(most, self.kind, groups_of(self.run), self.card)

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


def around(step: Step) -> tuple[int, int, int]:
    """Allocated bytes after loading, in evaluation, and while saving."""
    head, static = step.head, sum(step.static.values())
    casts = step.layers_cached + head.casts
    whole = step.layer_elements * step.forward.weights if step.sharing.shards_weights > 1 else 0
    logits = head.logits + head.log_probabilities + head.kept
    loaded = step.static["weights"] + step.static["base_weights"]
    return loaded + whole, static + casts + whole + logits, static + whole


def _highest(amounts: dict[str, Amounts]) -> int:
    return max(sum(phase.values()) for phase in amounts.values())


def estimate(run: Run) -> Report:
    """What a run takes on its fullest GPU."""
    return Report(run)
