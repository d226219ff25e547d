"""What a search found, for a terminal and as JSON."""

from collections.abc import Callable
from typing import Any, NamedTuple

from trainmem import units, words
from trainmem.layouts import Limits, name_of
from trainmem.link import link
from trainmem.run import Run
from trainmem.search import Candidate
from trainmem.terminal import columns

Page = Callable[[str, str], str]
"""From a query and a language to a page's address."""


class Found(NamedTuple):
    """A search over some GPUs: the layouts, best first, and the best on the smallest number of GPUs."""

    run: Run
    gpus: int
    global_batch: int | None
    layouts: list[Candidate]
    smallest: Candidate | None

    @property
    def fitting(self) -> int:
        """How many layouts fit with some micro-batch."""
        return sum(candidate.largest > 0 for candidate in self.layouts)


def cells(candidate: Candidate) -> tuple[str, ...]:
    """A layout as the cells of a row: name, what it needs and leaves as asked for, the largest micro-batch, what that needs."""
    unit = candidate.run.units
    verdict, best = candidate.verdict, candidate.best
    free = units.size_text(verdict.free, unit) if verdict.usable else "?"
    return (
        name_of(candidate.run),
        units.integer(candidate.run.micro_batch),
        units.size_text(verdict.need, unit),
        free,
        units.integer(candidate.largest) if candidate.largest else "-",
        units.size_text(best.need, unit) if candidate.largest else "-",
    )


def heads(language: str) -> tuple[str, ...]:
    """The names of the same."""
    names = ("layout", "micro_batch", "need", "free", "largest", "need_largest")
    return tuple(words.text(f"search.{name}", language) for name in names)


def table(found: Found, page: Page, limit: int, language: str) -> str:
    """The best layouts as aligned columns with a link each, and the smallest number of GPUs."""
    shown = found.layouts[:limit]
    rows = [heads(language), *(cells(candidate) for candidate in shown)]
    links = ["", *(page(link(candidate.best_run), language) for candidate in shown)]
    widths = [max(columns(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            _padded(cell, width, right=at > 0)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + f"  {address}"
        for row, address in zip(rows, links, strict=True)
    ]
    if not shown:
        lines = []
    return (
        "\n".join(
            [said(found, language), *(line.rstrip() for line in lines), fewest(found, language)]
        )
        + "\n"
    )


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if right else cell + space


def gpu_count(number: int, language: str) -> str:
    """A number of GPUs in words: "1,024 GPUs"."""
    form = "one" if number == 1 else "other"
    return words.text(f"unit.gpu_count.{form}", language, n=units.integer(number))


def said(found: Found, language: str) -> str:
    """How many layouts there are, and how many fit."""
    gpus = gpu_count(found.gpus, language)
    if not found.layouts:
        batch = units.integer(found.global_batch or 0)
        return words.text("search.none", language, gpus=gpus, batch=batch)
    fits = units.integer(found.fitting)
    return words.counted("search.found", len(found.layouts), language, gpus=gpus, fits=fits)


def fewest(found: Found, language: str) -> str:
    """The smallest number of GPUs as a sentence."""
    if found.smallest is None:
        most = units.integer(Limits().gpus)
        return words.text("search.smallest_none", language, gpus=most)
    gpus = gpu_count(found.smallest.run.gpus, language)
    layout = name_of(found.smallest.run)
    return words.text("search.smallest", language, gpus=gpus, layout=layout)


def as_json(found: Found, page: Page, limit: int, language: str) -> str:
    """The same as JSON, sizes in bytes."""
    import json  # noqa: PLC0415  (only where it is asked for)

    def row(candidate: Candidate) -> dict[str, Any]:
        verdict, best = candidate.verdict, candidate.best
        return {
            "layout": name_of(candidate.run),
            "gpus": candidate.run.gpus,
            "query": link(candidate.run),
            "verdict": verdict.kind,
            "micro_batch": candidate.run.micro_batch,
            "need": verdict.need,
            "free": verdict.free if verdict.usable else None,
            "largest_micro_batch": candidate.largest,
            "need_at_largest": best.need if candidate.largest else None,
            "page": page(link(candidate.best_run), language),
        }

    told = {
        "query": link(found.run),
        "gpus": found.gpus,
        "global_batch": found.global_batch,
        "count": len(found.layouts),
        "fitting": found.fitting,
        "evaluations": sum(candidate.evaluations for candidate in found.layouts),
        "layouts": [row(candidate) for candidate in found.layouts[:limit]],
        "smallest": row(found.smallest) if found.smallest else None,
    }
    return json.dumps(told, ensure_ascii=False, indent=2) + "\n"
