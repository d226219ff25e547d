"""Live numbers: evaluates `FORMAT: EXPRESSION ? QUERY` with the estimator.

An expression is quantities and plain numbers joined by `+ - * /` with spaces around them, read
from left to right, all of one sort: bytes, a count, or a ratio.

    allocated ? model=llama-2-7b&precision=fp32-true
    GB.2: parameters ? seven
    x.1: device ? seven / device ? seven&optimizer=sgd

Quantities: `allocated reserved device` with `.low` and `.high` for the ends of their bands; the
parts `parameters gradients optimizer activations overhead`, at the peak or `@PHASE`; the phases
`forward-end loss-backward layers-backward embedding-tail optimizer-step`; outside the step `load
first-step evaluation save`; a part, `allocated` or `device` at a pipeline stage's own peak, as
`activations@stage-1`; `row.KEY` and `row.KEY@PHASE`; `layer-saved`; `parameter-count` and
`trainable-count`; of the verdict `need usable limit free over`. The words `verdict` and
`peak-phase` stand alone.

Formats: `GiB GB MiB MB B`, `count` (6.74 B), `integer`, `x` (ratio), `%`, with decimals as `.2`.
A query's first item may be a name given to a query on the same page. A term without a query of
its own takes the next one to its right, so one query at the end serves the whole expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import trainmem
from trainmem import ledger, units, words
from trainmem.link import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainmem.estimate import Report

Sort = Literal["bytes", "count", "ratio"]
THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"
PHASES = {phase.replace(" ", "-"): phase for phase in ledger.PHASES}
OUTSIDE = {"load": "load", "first-step": "first step", "evaluation": "evaluation", "save": "save"}
BYTES = {"GiB": 2**30, "GB": 10**9, "MiB": 2**20, "MB": 10**6, "B": 1}


class NumberError(ValueError):
    """An expression that has no value; its text says why."""


class Value(NamedTuple):
    """A number and what it counts."""

    number: float
    sort: Sort


@dataclass(frozen=True, slots=True)
class Shown:
    """A number as it is printed, its unit, and the part that it belongs to (for its colour)."""

    text: str
    unit: str = ""
    part: str = ""


@lru_cache(maxsize=512)
def report_of(query: str) -> Report:
    """Estimate a query in which nothing may be wrong."""
    run, problems = parse(query)
    if problems:
        raise NumberError(f"{query}: {problems[0]}")
    return trainmem.estimate(run)


def evaluate(source: str, names: Mapping[str, str], language: str) -> Shown:
    """Return what the expression between the braces prints."""
    form, body = _format(source)
    terms, operators = _terms(body, names)
    if len(terms) == 1 and terms[0][0] in ("verdict", "peak-phase"):
        return Shown(_word(terms[0][0], report_of(terms[0][1]), language))
    total = _quantity(*terms[0])
    for operator, term in zip(operators, terms[1:], strict=True):
        total = _combine(total, operator, _quantity(*term))
    name = terms[0][0].partition("@")[0]
    return _show(total, form, name if len(terms) == 1 and name in ledger.PARTS else "")


def _format(source: str) -> tuple[str, str]:
    head, colon, tail = source.partition(":")
    if colon and "?" not in head:
        return head.strip(), tail.strip()
    return "", source.strip()


def _terms(body: str, names: Mapping[str, str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split into (quantity, query) terms and the operators between them."""
    found: list[list[str]] = [[]]
    operators = []
    for word in body.split():
        if word in ("+", "-", "*", "/"):
            operators.append(word)
            found.append([])
        else:
            found[-1].append(word)
    terms: list[tuple[str, str]] = []
    query = ""
    for term in reversed(found):
        match term:
            case [quantity]:
                pass
            case [quantity, "?", given]:
                query = expand(given, names)
            case _:
                raise NumberError(f"`{' '.join(term)}` is not `QUANTITY ? QUERY`")
        terms.append((quantity, query))
    return terms[::-1], operators


def expand(query: str, names: Mapping[str, str]) -> str:
    """Replace a name at the head of a query by the query that it stands for."""
    head, ampersand, rest = query.partition("&")
    if "=" in head:
        return query
    if head not in names:
        raise NumberError(f"no query on this page is called `{head}`")
    return names[head] + ampersand + rest


def _word(name: str, report: Report, language: str) -> str:
    if name == "verdict":
        return words.text(f"verdict.{report.verdict.kind}", language)
    return words.text(f"phase.{report.peak_phase.replace(' ', '_')}", language)


def _quantity(name: str, query: str) -> Value:
    """Return one quantity of one run."""
    try:
        return Value(float(name), "ratio")
    except ValueError:
        if not query:
            raise NumberError(f"`{name}` has no query after it") from None
    report = report_of(query)
    quantity, _, phase = name.partition("@")
    if quantity in ("parameter-count", "trainable-count"):
        whole = report.parameters if quantity == "parameter-count" else report.trainable
        return Value(whole, "count")
    found = _at(report, quantity, phase) if phase else _at_peak(report, quantity)
    if found is None:
        raise NumberError(f"`{name}` is no quantity of this run")
    return Value(found, "bytes")


def _at(report: Report, quantity: str, phase: str) -> float | None:
    if phase.startswith("stage-"):
        return _at_stage(report, quantity, phase.removeprefix("stage-"))
    if phase not in PHASES:
        raise NumberError(f"`{phase}` is no phase; they are {', '.join(PHASES)}")
    if quantity.startswith("row."):
        rows = report.rows_at(PHASES[phase])
        return _rows({row.key: 0 for row in rows}, rows, quantity.removeprefix("row."))
    return report.parts_at(PHASES[phase]).get(quantity)


def _at_stage(report: Report, quantity: str, number: str) -> float | None:
    """Return a part of one pipeline stage's GPU, or the whole; stages are counted from 1, as pages show them."""
    stages = {str(rank.stage + 1): rank for rank in report.ranks}
    if number not in stages:
        raise NumberError(f"`stage-{number}` is no stage; they are {', '.join(stages)}")
    rank = stages[number]
    whole = {"device": rank.device, "allocated": rank.device - rank.by_part["overhead"]}
    return (whole | rank.by_part).get(quantity)


def _rows(known: Mapping[str, int], rows: ledger.Ledger, key: str) -> int:
    if key not in known:
        raise NumberError(f"there is no row `{key}`; there are {', '.join(known)}")
    return sum(row.bytes for row in rows if row.key == key)


def _at_peak(report: Report, quantity: str) -> float | None:
    name, _, end = quantity.partition(".")
    if name == "row":
        return _rows({row.key: 0 for row in report.rows}, report.rows, end)
    if name in ("allocated", "reserved", "device"):
        if end:
            return dict(zip(("low", "high"), report.band(name), strict=True)).get(end)
        return {"allocated": report.allocated, "reserved": report.reserved}.get(name, report.device)
    if quantity in PHASES:
        return report.phases[PHASES[quantity]]
    if quantity in OUTSIDE:
        return report.outside_step[OUTSIDE[quantity]]
    if quantity in ("need", "usable", "limit", "free", "over"):
        value: float | None = getattr(report.verdict, quantity)
        return value
    return report.layer_saved if quantity == "layer-saved" else report.by_part.get(quantity)


def _combine(left: Value, operator: str, right: Value) -> Value:
    if operator == "*":
        sorts = {left.sort, right.sort} - {"ratio"}
        if len(sorts) > 1:
            raise NumberError(f"{left.sort} times {right.sort} is neither")
        return Value(left.number * right.number, sorts.pop() if sorts else "ratio")
    if operator == "/":
        if not right.number:
            raise NumberError("divided by zero")
        if right.sort not in ("ratio", left.sort):
            return Value(left.number / right.number, "ratio")
        sort: Sort = "ratio" if right.sort == left.sort else left.sort
        return Value(left.number / right.number, sort)
    if left.sort != right.sort:
        raise NumberError(f"{left.sort} and {right.sort} cannot be added")
    signed = right.number if operator == "+" else -right.number
    return Value(left.number + signed, left.sort)


def _show(value: Value, form: str, part: str) -> Shown:
    """Print a value in a format, or in the usual one of its sort."""
    usual = {"bytes": "GiB", "count": "count", "ratio": "x"}[value.sort]
    name, _, decimals = (form or usual).partition(".")
    sign = "\N{MINUS SIGN}" if value.number < 0 else ""
    size = abs(value.number)
    if name in BYTES:
        places = int(decimals or (0 if name == "B" else 1))
        return Shown(f"{sign}{size / BYTES[name]:,.{places}f}", name, part)
    if name == "count":
        return Shown(sign + units.count(round(size)), "", part)
    if name == "integer":
        return Shown(sign + units.integer(round(size)), "", part)
    if name == "x":
        return Shown(f"{sign}{size:,.{int(decimals or 2)}f}×", "", part)
    if name == "%":
        return Shown(f"{sign}{100 * size:,.{int(decimals or 0)}f}", "%", part)
    raise NumberError(f"`{form}` is no format; they are {', '.join(BYTES)}, count, integer, x, %")
