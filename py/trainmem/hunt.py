"""A search that is carried on slice by slice, so that a page can show what is there, go on, and stop.

It looks at every layout on the run's own GPUs, then for the smallest number of GPUs, then at what the best layout of each stage of
sharding needs on few and on many GPUs.
"""

from collections.abc import Iterator
from time import perf_counter

from trainmem.estimate import Card, card_of
from trainmem.layouts import Limits, counts, layouts
from trainmem.run import Run
from trainmem.search import Candidate, Trial, evaluate, rank

POWERS = tuple(1 << power for power in range(11))
"""Numbers of GPUs of the curve."""
SHARES = {"layouts": (0.0, 0.5), "smallest": (0.5, 0.6), "curve": (0.6, 1.0)}
"""From where to where the parts of a search move its progress."""


class Hunt:
    """One search. `found`: layouts on the run's GPUs; `smallest`: on the fewest; `curve`: stage -> GPUs -> least bytes."""

    def __init__(self, run: Run, limits: Limits | None = None) -> None:
        self.run, self.limits, self.card = run, limits or Limits(), card_of(run)
        self.found: list[Candidate] = []
        self.smallest: Candidate | None = None
        self.curve: dict[str, dict[int, int]] = {}
        self.evaluations = self.total = 0
        self.progress = 0.0
        self.done = False
        self._steps = self._work()

    def advance(self, seconds: float) -> None:
        """Goes on for about so long; a step that has begun is finished."""
        until = perf_counter() + seconds
        for _ in self._steps:
            if perf_counter() >= until:
                return
        self.done, self.progress = True, 1.0

    def finish(self) -> "Hunt":
        """Goes on to the end."""
        for _ in self._steps:
            pass
        self.done, self.progress = True, 1.0
        return self

    @property
    def best(self) -> list[Candidate]:
        """What is found so far, the best first."""
        return sorted(self.found, key=rank)

    def _work(self) -> Iterator[None]:
        yield from self._layouts()
        yield from self._smallest()
        yield from self._curve()

    def _moved(self, part: str, share: float) -> None:
        begin, end = SHARES[part]
        self.progress = begin + (end - begin) * share

    def _layouts(self) -> Iterator[None]:
        waiting = []
        for layout in layouts(self.run, self.run.gpus, self.limits):
            waiting.append(layout)
            yield
        self.total = len(waiting)
        for place, layout in enumerate(waiting, 1):
            candidate = evaluate(layout, self.card, limits=self.limits)
            assert candidate
            self.found.append(candidate)
            self.evaluations += candidate.evaluations
            self._moved("layouts", place / self.total)
            yield

    def _smallest(self) -> Iterator[None]:
        if self.card.usable is None:
            return
        sizes = list(counts(self.limits.gpus))
        for place, gpus in enumerate(sizes):
            fitting = []
            for layout in layouts(self.run, gpus, self.limits):
                trial = self._tried(layout, self.card)
                if trial.fits(self.run.micro_batch):
                    fitting.append((trial.at(self.run.micro_batch).need, layout))
                yield
            self._moved("smallest", place / len(sizes))
            if fitting:
                _, layout = min(fitting, key=lambda one: one[0])
                self.smallest = evaluate(layout, self.card, limits=self.limits)
                return

    def _curve(self) -> Iterator[None]:
        sizes = [gpus for gpus in POWERS if gpus <= self.limits.gpus]
        for gpus in sorted({*sizes, self.run.gpus}):
            for layout in layouts(self.run, gpus, self.limits):
                need = self._tried(layout, self.card).at(self.run.micro_batch).need
                stage = self.curve.setdefault(layout.zero, {})
                stage[gpus] = min(need, stage.get(gpus, need))
                yield
            self._moved("curve", gpus.bit_length() / (sizes[-1].bit_length() + 1))

    def _tried(self, layout: Run, card: Card) -> Trial:
        self.evaluations += 1
        trial = Trial(layout, card)
        trial.at(self.run.micro_batch)
        return trial
