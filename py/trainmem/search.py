"""The search for a layout: every way to cut a run over a number of GPUs, and the largest micro-batch that each of them holds.

An evaluation is one layout with one micro-batch: `estimate`'s own walk, phases, overhead and verdict, without rows. Walks are remembered
by what they depend on, weights are weighed once a layout, and memory never falls as the micro-batch grows, so that the largest one is
found by doubling and halving.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from trainmem import lines, megatron, overhead
from trainmem.aside import aside_of
from trainmem.checks import settle
from trainmem.estimate import Card, Verdict, around, card_of, estimate, groups_of, judge
from trainmem.layouts import Limits, counts, data_of, layouts, sized, sizes
from trainmem.phases import phases
from trainmem.run import KEYS, Run
from trainmem.step import Step, resized, walk
from trainmem.weighing import Amounts

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

ORDER = {"fits": 0, "tight": 1, "unknown": 2, "over": 3}
CHUNK = 24  # layouts that an executor is handed at once
WAITING = 64  # chunks that wait for it


class Candidate(NamedTuple):
    """One layout: its verdict at the micro-batch that was asked for, and the largest micro-batch that fits (0: none).

    `best` is the verdict at that one; `evaluations` counts layouts with a micro-batch, as they were computed.
    """

    run: Run
    verdict: Verdict
    largest: int
    best: Verdict
    evaluations: int
    global_batch: int | None

    @property
    def best_run(self) -> Run:
        """The layout with its largest micro-batch, or as it was asked for where none fits."""
        return sized(self.run, self.largest, self.global_batch) if self.largest else self.run

    @property
    def data(self) -> int:
        """Over how many GPUs the batch is divided."""
        return data_of(self.run)

    @property
    def sequences(self) -> int:
        """Sequences that all GPUs take at once with the largest micro-batch."""
        return self.largest * self.data


# One layout


class Trial:
    """One layout, weighed once, and evaluated at one micro-batch after another."""

    def __init__(self, run: Run, card: Card, global_batch: int | None = None) -> None:
        self.run, self.card, self.global_batch = run, card, global_batch
        self.groups = groups_of(run)
        self.weighed: dict[bool, list[Sizing]] = {}
        self.known: dict[int, Verdict] = {}

    def at(self, micro_batch: int) -> Verdict:
        """The verdict at one micro-batch."""
        found = self.known.get(micro_batch)
        if found is None:
            run = sized(self.run, micro_batch, self.global_batch)
            found = self.known[micro_batch] = self._verdict(run)
        return found

    def fits(self, micro_batch: int) -> bool:
        """Whether one micro-batch fits with its headroom."""
        return self.at(micro_batch).kind == "fits"

    def _verdict(self, run: Run) -> Verdict:
        accumulates = run.grad_accum > 1
        if accumulates not in self.weighed:
            self.weighed[accumulates] = weigh(run)
        most, fullest = 0, None
        for resize in self.weighed[accumulates]:
            step, amounts = resize(run)
            high = max(map(_total, amounts.values()))
            if high > most:
                most, fullest = high, step
        assert fullest
        kind = overhead.evidence(fullest.sharing.kind, fullest.run.base, fullest.run.tp)
        return judge(max(most, *around(fullest)), kind, self.groups, self.card)


def _total(amounts: dict[str, int]) -> int:
    return sum(amounts.values())


Sizing = Callable[[Run], tuple[Step, dict[str, Amounts]]]
"""From a run that differs in its micro-batch alone to its step and phases."""


def weigh(run: Run) -> list[Sizing]:
    """The stages that can be the fullest, each walked and weighed."""
    if run.framework == "megatron":
        walk_layer = lines.megatron_layers(run)
        return [_megatron_stage(run, stage, walk_layer) for stage in megatron.telling_stages(run)]
    weighed = _light(walk(run, lines.layer, lines.head))
    aside = aside_of(weighed)

    def size(other: Run) -> tuple[Step, dict[str, Amounts]]:
        step = resized(weighed, other, lines.layer, lines.head)
        return step, phases(step, aside)

    return [size]


def _megatron_stage(
    run: Run, stage: int, walk_layer: Callable[[Run, bool], megatron.Walked]
) -> Sizing:
    weighed = _light(megatron.walk(run, stage, walk_layer))
    aside = megatron.aside_of(weighed, stage)

    def size(other: Run) -> tuple[Step, dict[str, Amounts]]:
        step = megatron.resized(weighed, other, stage, walk_layer)
        return step, megatron.phases(step, stage, aside)

    return size


def _light(step: Step) -> Step:
    """The step with its static amounts in as few sums as the phases need."""
    told = {
        key: step.static[key] for key in ("weights", "base_weights", "inputs") if key in step.static
    }
    rest = sum(step.static.values()) - sum(told.values())
    return step._replace(static=told | {"others": rest})


def last_that(fits: Callable[[int], bool], choices: Sequence[int]) -> int:
    """The last of ascending choices that fits, 0 if none does; what fits once, fits below, too."""
    low, step = -1, 1  # the last place that is known to fit
    high = len(choices)  # the first place that is known not to
    while low + step < high:
        if not fits(choices[low + step]):
            high = low + step
            break
        low, step = low + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if fits(choices[middle]):
            low = middle
        else:
            high = middle
    return choices[low] if low >= 0 else 0


def evaluate(
    run: Run, card: Card, global_batch: int | None = None, limits: Limits | None = None
) -> Candidate | None:
    """One layout: as it was asked for, and with its largest micro-batch. None where the global batch cannot be divided so.

    The whole batch at once accumulates nothing, and may take less than half of it: it is tried by itself.
    """
    choices = sizes(run, global_batch, limits or Limits())
    if not choices:
        return None
    trial = Trial(run, card, global_batch)
    asked = (
        max((n for n in choices if n <= run.micro_batch), default=choices[0])
        if global_batch
        else run.micro_batch
    )
    verdict = trial.at(asked)
    largest = 0
    if card.usable is not None:
        if global_batch and trial.fits(choices[-1]):
            largest = choices[-1]
        else:
            largest = last_that(trial.fits, choices[:-1] if global_batch else choices)
    best = trial.at(largest) if largest else verdict
    own = sized(run, asked, global_batch)
    return Candidate(own, verdict, largest, best, len(trial.known), global_batch)


# Many layouts


def search(
    run: Run,
    gpus: int | Iterable[int] | None = None,
    global_batch: int | None = None,
    limits: Limits | None = None,
    executor: "Executor | None" = None,
) -> Iterator[Candidate]:
    """Every valid layout on so many GPUs (the run's own number, one, or several in turn), evaluated as the iterator is asked.

    `global_batch`: sequences of an optimizer step, which micro-batch, accumulation and data parallelism must make up. `executor`: any of
    concurrent.futures' kind; the order of the results stays.
    """
    counts = [gpus or run.gpus] if gpus is None or isinstance(gpus, int) else gpus
    limits = limits or Limits()
    found = (layout for count in counts for layout in layouts(run, count, limits))
    if executor is not None:
        yield from _spread(found, global_batch, limits, executor)
        return
    card = card_of(run)
    for layout in found:
        candidate = evaluate(layout, card, global_batch, limits)
        if candidate:
            yield candidate


def evaluate_all(layouts_: list[Run], global_batch: int | None, limits: Limits) -> list[Candidate]:
    """What an executor does with a chunk of layouts."""
    card = card_of(layouts_[0])
    found = (evaluate(layout, card, global_batch, limits) for layout in layouts_)
    return [candidate for candidate in found if candidate]


def _spread(
    found: Iterator[Run], global_batch: int | None, limits: Limits, executor: "Executor"
) -> Iterator[Candidate]:
    """Hands chunks to an executor, a few ahead of what is taken; what is not taken is cancelled."""
    waiting: deque[Future[list[Candidate]]] = deque()
    try:
        while True:
            while len(waiting) < WAITING and (chunk := list(islice(found, CHUNK))):
                waiting.append(executor.submit(evaluate_all, chunk, global_batch, limits))
            if not waiting:
                return
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best first: what fits, then by the memory that it leaves free, then the plainer cut."""
    return sorted(candidates, key=rank)


def rank(candidate: Candidate) -> tuple[int, int, int, str]:
    """Where a layout stands among others on the same card."""
    run, verdict = candidate.run, candidate.verdict
    return ORDER[verdict.kind], verdict.need, run.tp * run.pp * run.cp * run.vpp, run.zero


def smallest(run: Run, limits: Limits | None = None) -> Candidate | None:
    """The best layout on the smallest number of GPUs on which the run fits, with the micro-batch that it has."""
    limits, card = limits or Limits(), card_of(run)
    for count in counts(limits.gpus):
        trials = (Trial(layout, card) for layout in layouts(run, count, limits))
        if any(trial.fits(run.micro_batch) for trial in trials):
            return ranked(search(run, count, limits=limits))[0]
    return None


def largest(run: Run, key: str) -> int:
    """The largest `micro_batch`, `seq` or number of `layers` with which a run fits as it is cut, 0 where none does."""
    step = {
        "seq": 2 * run.cp if run.cp > 1 else 1,
        "layers": run.pp * run.vpp if run.vpp > 1 else 1,
    }
    choices: Sequence[int] = range(step.get(key, 1), int(KEYS[key].maximum) + 1, step.get(key, 1))
    if key == "seq":
        longest = settle(run.but(seq=choices[-1]), frozenset())[0].seq
        choices = range(choices[0], longest + 1, choices.step) if isinstance(choices, range) else []
    if key == "layers":
        choices = choices[-(-run.pp // step["layers"]) - 1 :]
    return last_that(lambda n: estimate(run.but(**{key: n})).verdict.kind == "fits", choices)
