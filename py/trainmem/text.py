"""A report in words: sentences, Markdown, CSV and JSON.

All of them say the same with the same figures as the page: amounts come from units.py, words from
words.py. Nothing here computes bytes.
"""

from typing import TYPE_CHECKING, Any

from trainmem import catalog, units, words
from trainmem.ledger import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainmem.changes import Change
    from trainmem.estimate import Report
    from trainmem.ledger import Factor, Row
    from trainmem.link import Problem


class Speaker:
    """Says what a report holds in one language and one unit."""

    def __init__(self, report: "Report", language: str = "en") -> None:
        self.report, self.language, self.units = report, language, report.run.units

    def size(self, amount: float, decimals: int = 1) -> str:
        """Bytes with their unit; inside a right-to-left line the figure is isolated."""
        return self.value(units.size_text(amount, self.units, decimals))

    def value(self, text: str) -> str:
        """A figure or a name that stands in a sentence of this language."""
        return f"\u2068{text}\u2069" if self.language in words.RIGHT_TO_LEFT else text

    def word(self, key: str, **values: str) -> str:
        """A text of the interface."""
        return words.text(key, self.language, **values)

    def verdict(self) -> str:
        """The verdict as one sentence."""
        found = self.report.verdict
        sizes = {"need": found.need, "low": found.low, "high": found.high}
        if found.usable is not None:
            sizes |= {"usable": found.usable, "free": found.free or 0, "over": found.over or 0}
        values = {name: self.size(size) for name, size in sizes.items()}
        values["gpus"] = self.value(units.integer(self.report.run.gpus))
        return self.word(f"verdict.{found.kind}.{self._form()}", **values)

    def peak(self) -> str:
        """The phase in which memory peaks, as one sentence."""
        return self.word("verdict.peak", phase=self.phase(self.report.peak_phase))

    def phase(self, name: str) -> str:
        """The name of a phase, or of what happens outside the step."""
        return self.word(f"phase.{name.replace(' ', '_')}")

    def model(self) -> str:
        """The name of a preset, or the family and the size of a model that has none."""
        if self.report.model.name:
            return self.report.model.name
        family = self.word(f"choice.arch.{self.report.model.arch}")
        return f"{family} {units.count(self.report.parameters)}"

    def heading(self) -> str:
        """What is trained on what: "Llama 3.1 8B on 8 × H100 SXM 80 GB"."""
        run = self.report.run
        card = str(catalog.entry("gpus", run.gpu)["name"])
        values = {"model": self.model(), "gpus": units.integer(run.gpus), "gpu": card}
        shown = {name: self.value(value) for name, value in values.items()}
        return words.text(f"page.heading.{self._form()}", self.language, **shown)

    def _form(self) -> str:
        return "one" if self.report.run.gpus == 1 else "other"

    def range(self) -> str:
        """The lower and the upper end of what is expected on the device."""
        low, high = self.report.band("device")
        bare = self.value(units.amount(low, self.units)[0])
        return self.word("verdict.range", low=bare, high=self.size(high))

    def formula(self, row: "Row") -> str:
        """The formula of a row with the run's numbers in it: "4 bytes × 8.03 B parameters"."""
        return " ".join(self._factor(factor) for factor in row.factors())

    def _factor(self, factor: "Factor") -> str:
        value, name = units.factor(factor.value, factor.unit, self.units)
        unit = words.unit(name, value, self.language) if name else ""
        return " ".join(filter(None, (factor.operator, value, unit)))

    def change(self, change: "Change") -> str:
        """What to change, and what that saves."""
        values = {name: self.value(str(value)) for name, value in change.values.items()}
        text = self.word(f"change.{change.key}", **values)
        return self.word("fix.chip", change=text, saving=self.size(change.saving))


def _source(row: "Row") -> tuple[str, str]:
    """(label, address) of where the rule of a row comes from; empty for a row without one."""
    entry = catalog.entry("sources", row.source) if row.source else {}
    return str(entry.get("name", "")), str(entry.get("url", ""))


# Markdown, CSV, JSON


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def markdown(report: "Report", page: str, language: str = "en") -> str:
    """The verdict and the ledger as Markdown, for an issue or a note."""
    say = Speaker(report, language)
    badge = say.word(f"verdict.{report.verdict.kind}")
    heads = [say.word(f"col.{name}") for name in ("part", "row", "per_gpu", "formula")]
    lines = [
        say.word("verdict.line", verdict=f"**{badge}**", sentence=say.verdict()) + "  ",
        say.peak(),
        "",
        f"| {' | '.join(heads)} |",
        "| --- | --- | ---: | --- |",
    ]
    for row in report.rows:
        cells = (
            say.word(f"part.{row.part}"),
            say.word(f"row.{row.key}"),
            say.size(row.bytes, 2),
            say.formula(row),
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    total = say.size(sum(report.by_part.values()), 2)
    lines += [f"| {say.word('col.total')} | | {total} | |", "", f"<{page}>", ""]
    return "\n".join(lines)


def csv(report: "Report", language: str = "en") -> str:
    """The ledger as comma-separated values; bytes are whole numbers, keys stay as they are."""
    say = Speaker(report, language)
    lines = ["part,key,row,bytes,formula,source"]
    for row in report.rows:
        name = words.text(f"row.{row.key}", language)
        cells = (row.part, row.key, name, str(row.bytes), say.formula(row), _source(row)[0])
        lines.append(",".join(_quoted(cell) for cell in cells))
    return "\r\n".join(lines) + "\r\n"


def _quoted(text: str) -> str:
    """A cell; one that a spreadsheet would take for a formula is led by an apostrophe."""
    text = f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    quote = any(sign in text for sign in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quote else text


def _band(report: "Report", name: str) -> dict[str, int]:
    low, high = report.band(name)
    return {"expected": getattr(report, name), "low": low, "high": high}


def as_dict(report: "Report", page: str, problems: "Iterable[Problem]" = ()) -> dict[str, Any]:
    """The report as plain values for JSON: bytes as whole numbers, texts in English."""
    say, found = Speaker(report), report.verdict
    return {
        "page": page,
        "model": report.model.name,
        "parameters": report.parameters,
        "trainable": report.trainable,
        "verdict": {
            "kind": found.kind,
            "sentence": say.verdict(),
            "usable": found.usable,
            "limit": found.limit,
        },
        **{name: _band(report, name) for name in ("allocated", "reserved", "device")},
        "peak_phase": report.peak_phase,
        "phases": dict(report.phases),
        "outside_step": dict(report.outside_step),
        "parts": {part: report.by_part.get(part, 0) for part in PARTS},
        "rows": [_row(say, row) for row in report.rows],
        "changes": [
            {"key": one.key, "text": say.change(one), "saving": one.saving, "fits": one.fits}
            for one in report.changes()
        ],
        "problems": [{"key": one.key, "sentence": str(one)} for one in problems],
    }


def _row(say: Speaker, row: "Row") -> dict[str, Any]:
    name, url = _source(row)
    return {
        "part": row.part,
        "key": row.key,
        "name": say.word(f"row.{row.key}"),
        "bytes": row.bytes,
        "formula": say.formula(row),
        "why": say.word(f"why.{row.key}"),
        "source": {"name": name, "url": url},
    }
