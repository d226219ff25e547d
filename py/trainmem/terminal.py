"""A report for a terminal: the verdict, a bar of characters, and columns that line up."""

from itertools import groupby
from typing import TYPE_CHECKING

from trainmem.ledger import PARTS
from trainmem.text import Speaker
from trainmem.units import gib

if TYPE_CHECKING:
    from trainmem.estimate import Report

BAR = 64  # columns of the bar
FILLS = {
    "parameters": "█",
    "gradients": "▓",
    "optimizer": "▒",
    "activations": "░",
    "overhead": "·",
    "free": " ",
    "usable": "│",
}

COLORS = {"parameters": 34, "gradients": 36, "optimizer": 31, "activations": 33, "overhead": 37}
VERDICTS = {"fits": 32, "tight": 33, "over": 31}


class Ink:
    """Colours and weight; without colour it leaves every text as it is."""

    def __init__(self, *, colored: bool = False) -> None:
        self.colored = colored

    def _styled(self, text: str, *codes: int) -> str:
        if not self.colored or not text:
            return text
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m"

    def strong(self, text: str) -> str:
        """A heading."""
        return self._styled(text, 1)

    def part(self, part: str, text: str) -> str:
        """Text in the colour of a part of the memory."""
        return self._styled(text, COLORS[part]) if part in COLORS else text

    def verdict(self, kind: str, text: str) -> str:
        """Text in the colour of a verdict."""
        return self._styled(text, 1, VERDICTS.get(kind, 0))

    def width(self, text: str) -> int:
        """Columns that a text takes on a terminal."""
        return columns(text)


def columns(text: str) -> int:
    """Columns that a text takes: vowel signs and isolating characters take none."""
    if text.isascii():
        return len(text)
    from unicodedata import category  # noqa: PLC0415  not needed where all is ASCII

    return sum(category(letter) not in ("Mn", "Me", "Cf") for letter in text)


def pad(text: str, width: int) -> str:
    """A text filled with spaces to a width."""
    return text + " " * (width - columns(text))


def shares(sizes: list[int], width: float) -> list[int]:
    """Whole columns for sizes that share a width: each has at least one, and they add up."""
    total = sum(sizes) or 1
    goal = max(round(width), len(sizes))
    found = [max(1, int(goal * size / total)) for size in sizes]
    while sum(found) != goal and found:
        step = 1 if sum(found) < goal else -1
        errors = [goal * size / total - have for size, have in zip(sizes, found, strict=True)]
        best = max(
            range(len(found)), key=lambda at: step * errors[at] - 1e6 * (found[at] + step < 1)
        )
        found[best] += step
    return found


# One report


def terminal(
    report: "Report", page: str, command: str, language: str = "en", ink: Ink | None = None
) -> str:
    """The whole report for a terminal: the verdict first, then the bar, phases, rows, changes."""
    say, ink = Speaker(report, language), ink or Ink()
    blocks = [
        _head(say, ink),
        _bar(say, ink),
        _phases(say, ink),
        _rows(say, ink),
        _changes(say, ink),
        [f"{say.word('page.link')}: {page}", f"{say.word('page.command')}: {command}"],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(say: Speaker, ink: Ink) -> list[str]:
    report = say.report
    found = report.verdict
    badge = ink.verdict(found.kind, say.word(f"verdict.{found.kind}"))
    levels = (
        f"{say.word(f'level.{name}')}: {say.size(getattr(report, name))}"
        for name in ("allocated", "reserved", "device")
    )
    return [
        say.word("verdict.line", verdict=badge, sentence=say.verdict()),
        say.peak(),
        say.range(),
        "  ".join(levels),
        say.heading(),
    ]


def _bar(say: Speaker, ink: Ink) -> list[str]:
    """The five parts on one line, a stroke where the card's memory ends, and what each fill means."""
    report = say.report
    usable = report.verdict.usable or 0
    scale = max(report.device, usable) * 1.02
    parts = {part: size for part, size in report.by_part.items() if size > 0}
    widths = shares(list(parts.values()), BAR * report.device / scale)
    columns = [part for part, width in zip(parts, widths, strict=True) for _ in range(width)]
    columns += ["free"] * (BAR - len(columns))
    if usable:
        columns[min(round(BAR * usable / scale), BAR - 1)] = "usable"
    legend = [
        f"{ink.part(part, FILLS[part])} {say.word(f'part.{part}')} {say.size(size)}"
        for part, size in parts.items()
    ]
    if usable:
        legend.append(f"{FILLS['usable']} {say.word('level.usable')} {say.size(usable)}")
    drawn = (ink.part(part, FILLS[part] * len(list(run))) for part, run in groupby(columns))
    return ["".join(drawn).rstrip(), "  ".join(legend)]


def _phases(say: Speaker, ink: Ink) -> list[str]:
    """The device in each phase of a step, the peak marked, and tensors alone outside the step."""
    report = say.report
    phases = {name: sum(report.parts_at(name).values()) for name in report.phases}
    names = [say.phase(name) for name in (*phases, *report.outside_step)]
    wide = max(ink.width(name) for name in names)

    def line(name: str, size: int, mark: str = " ") -> str:
        return f"{mark} {pad(say.phase(name), wide)}  {say.size(size):>12}"

    return [
        ink.strong(say.word("chart.phases")),
        *(line(name, phases[name], "▶" if name == report.peak_phase else " ") for name in phases),
        ink.strong(say.word("chart.outside")),
        *(line(name, size) for name, size in report.outside_step.items()),
    ]


def _rows(say: Speaker, ink: Ink) -> list[str]:
    """The ledger at the peak: parts with their rows, sizes and formulas."""
    report = say.report
    names = [f"  {say.word(f'row.{row.key}')}" for row in report.rows]
    names += [say.word(f"part.{part}") for part in report.by_part]
    wide = max(ink.width(name) for name in names)
    lines = []
    for part, total in report.by_part.items():
        rows = [row for row in report.rows if row.part == part]
        if not rows:
            continue
        title = pad(say.word(f"part.{part}"), wide)
        lines.append(f"{ink.strong(title)}  {say.size(total, 2):>13}")
        for row in rows:
            name = pad(f"  {say.word(f'row.{row.key}')}", wide)
            lines.append(f"{name}  {say.size(row.bytes, 2):>13}  {say.formula(row)}".rstrip())
    return lines


def _changes(say: Speaker, ink: Ink, limit: int = 6) -> list[str]:
    changes = say.report.changes()[:limit]
    if not changes:
        return []
    over = say.report.verdict.kind in ("over", "tight")
    lines = [ink.strong(say.word("fix.heading" if over else "fix.saves"))]
    for change in changes:
        fits = f" ({say.word('fix.fits')})" if over and change.fits else ""
        lines.append(f"  {say.change(change)}{fits}")
    if over and not any(change.fits for change in changes):
        lines.append(f"  {say.word('fix.none')}")
    return lines


# Two reports, and tables


def compare(first: "Report", second: "Report", language: str = "en") -> str:
    """Two reports side by side: what differs in the settings, then each part and its difference."""
    a, b = Speaker(first, language), Speaker(second, language)
    names = [
        name
        for name in dict.fromkeys((*first.run.changed(), *second.run.changed()))
        if getattr(first.run, name) != getattr(second.run, name)
    ]
    rows: list[tuple[str, ...]] = [("", "A", "B", a.word("col.difference"))]
    for name in names:
        values = (str(getattr(run, name)) for run in (first.run, second.run))
        rows.append((a.word(f"label.{name}"), *values, ""))
    for part in PARTS:
        mine, other = first.by_part.get(part, 0), second.by_part.get(part, 0)
        if mine or other:
            rows.append(
                (a.word(f"part.{part}"), a.size(mine), b.size(other), _less(a, mine, other))
            )
    total = _less(a, first.device, second.device)
    rows.append((a.word("col.total"), a.size(first.device), b.size(second.device), total))
    verdicts = (say.word(f"verdict.{say.report.verdict.kind}") for say in (a, b))
    rows.append(("", *verdicts, ""))
    peaks = (say.phase(say.report.peak_phase) for say in (a, b))
    rows.append((a.word("chart.peak"), *peaks, ""))
    return aligned(rows)


def _less(say: Speaker, before: int, after: int) -> str:
    if gib(before) == gib(after):
        return say.word("compare.same")
    key = "compare.less" if after < before else "compare.more"
    return say.word(key, amount=say.size(abs(after - before)))


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows of cells as columns of even width."""
    ink = Ink()
    widths = [max(ink.width(row[at]) for row in rows) for at in range(len(rows[0]))]
    padded = (
        "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(padded) + "\n"
