"""Scores the estimator against measured runs: `python3 dev.py score FILE`.

FILE holds one JSON object a line: `source` (repo, path), `kind` (peak_allocated, peak_active, peak_reserved, nvidia_smi, fits, oom, ...),
`value_gib`, and the fields of the run. For each source it prints how many rows were scored, the error's median, 90th percentile and
worst, how many rows are not modelled and why, and how many verdicts were wrong.
"""

from __future__ import annotations

import collections
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import trainmem
from devtools.measured import NotModelledError, Row, query_of

GIB = 1 << 30
ALLOCATED = ("peak_allocated", "peak_active")
LEVELS = {"peak_reserved": "reserved", "nvidia_smi": "device", "device": "device"}


class Scored(NamedTuple):
    """What became of one row: its error as a share, or a reason, or a verdict."""

    identity: str
    error: float | None = None
    reason: str = ""
    wrong: str = ""


def score(row: Row) -> Scored:
    """One row: estimated and compared, or left out with the reason."""
    try:
        query = query_of(row)
    except NotModelledError as missing:
        return Scored(row["id"], reason=str(missing))
    run, problems = trainmem.parse(query)
    if problems:
        return Scored(row["id"], reason=str(problems[0]))
    report = trainmem.estimate(run)
    if row["kind"] in ("fits", "oom", "max_batch"):
        wrong = {"oom": "fits", "fits": "over", "max_batch": "over"}[row["kind"]]
        return Scored(
            row["id"],
            wrong=f"{wrong}, {row['kind']} recorded" if report.verdict.kind == wrong else "",
        )
    if row.get("per_rank_allocated_gib"):
        return Scored(row["id"], error=max(_rank_errors(report, row), key=abs))
    found = _figure(report, row)
    if found is None or not row["value_gib"]:
        return Scored(row["id"], reason=f"a figure of the kind {row['kind']}")
    return Scored(row["id"], error=found / (row["value_gib"] * GIB) - 1)


def _rank_errors(report: trainmem.Report, row: Row) -> list[float]:
    """The error of every rank that a row gives; pipeline stages are the outermost order of ranks."""
    measured = row["per_rank_allocated_gib"]
    each = len(measured) // len(report.stages)
    workspaces = report.overhead.workspace
    tops = [max(sum(phase.values()) for phase in amounts.values()) for _, amounts in report.stages]
    return [
        (tops[rank // each] + workspaces) / (value * GIB) - 1 for rank, value in enumerate(measured)
    ]


def _figure(report: trainmem.Report, row: Row) -> float | None:
    """The figure of a report that a row measured. The allocator's own count has the libraries' workspaces in it."""
    if row["kind"] not in ALLOCATED:
        level = LEVELS.get(row["kind"])
        return getattr(report, level) if level else None
    last = row["source"]["repo"] == "NVIDIA/Megatron-LM"  # its log is written by the last rank
    phases = report.stages[-1][1].values() if last else [report.amounts[report.peak_phase]]
    return max(sum(amounts.values()) for amounts in phases) + report.overhead.workspace


def table(rows: list[Row]) -> list[str]:
    """A line for each source, then the reasons, the worst rows and the wrong verdicts."""
    by_source: dict[str, list[Scored]] = collections.defaultdict(list)
    for row in rows:
        by_source[row["source"]["repo"]].append(score(row))
    lines = [
        f"{'source':32} {'rows':>5} {'scored':>7} {'median':>8} {'p90':>8} {'worst':>8} {'not modelled':>13} {'wrong':>6}"
    ]
    lines += [_line(source, by_source[source]) for source in sorted(by_source)]
    everything = [one for scored in by_source.values() for one in scored]
    reasons = collections.Counter(one.reason for one in everything if one.reason)
    lines += ["", *(f"not modelled: {reason} ({count})" for reason, count in reasons.most_common())]
    worst = sorted(
        (one for one in everything if one.error is not None), key=lambda one: -abs(one.error or 0)
    )
    lines += ["", *(f"{one.error:+8.2%}  {one.identity}" for one in worst[:12])]
    lines += [f"wrong verdict: {one.identity} ({one.wrong})" for one in everything if one.wrong]
    return lines


def _line(source: str, scored: list[Scored]) -> str:
    errors = sorted(abs(one.error) for one in scored if one.error is not None)
    missing = sum(bool(one.reason) for one in scored)
    wrong = sum(bool(one.wrong) for one in scored)
    figures = (
        " ".join(f"{value:8.2%}" for value in _spread(errors))
        if errors
        else " ".join(["       -"] * 3)
    )
    return f"{source:32} {len(scored):5} {len(errors):7} {figures} {missing:13} {wrong:6}"


def _spread(errors: list[float]) -> tuple[float, float, float]:
    return (
        statistics.median(errors),
        errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        errors[-1],
    )


def main(arguments: list[str]) -> int:
    """Score the rows of a file that count (tiers exact, good and boundary)."""
    rows: list[Any] = [
        json.loads(line) for line in Path(arguments[0]).read_text("utf-8").splitlines()
    ]
    print(
        "\n".join(table([row for row in rows if row.get("tier") in ("exact", "good", "boundary")]))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
