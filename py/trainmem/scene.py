"""A report and how it is shown: the language, the units, and the few sentences that say what the run is and whether it fits."""

from typing import NamedTuple

from trainmem import catalog, form, units, words
from trainmem.estimate import Report
from trainmem.markup import Markup, element, fill, number, stand_ins
from trainmem.plot import Load, Style
from trainmem.run import KEYS
from trainmem.text import Speaker


class Scene(NamedTuple):
    """A report, and how and where it is shown.

    `base` is the way to the root of the language's pages, `repository` where the project lives, and `address` the page's
    own address without its query, as far as it is known.
    """

    report: Report
    style: Style
    base: str = "../"
    repository: str = ""
    address: str = ""

    def word(self, key: str, **values: object) -> str:
        """A string of the interface."""
        return words.text(key, self.style.language, **values)

    def sentence(self, key: str, **values: Markup) -> Markup:
        """A sentence with elements in it."""
        return fill(words.text(key, self.style.language, **stand_ins(values)), values)

    def amount(self, size: float, decimals: int = 1, extra: str = "") -> Markup:
        """Bytes as a number with its unit."""
        return number(*units.amount(size, self.style.units, decimals), extra)

    def plain_amount(self, size: float) -> str:
        """Bytes as text, for titles and the live region."""
        return units.size_text(size, self.style.units)

    def each(self, key: str) -> str:
        """The key of the sentence for one GPU or for several."""
        return f"{key}.one" if self.report.run.gpus == 1 else f"{key}.other"

    def phase(self, name: str) -> str:
        """The name of a phase."""
        return self.word("phase." + name.replace(" ", "_"))


def load_of(report: Report) -> Load:
    """What the bar of a report shows."""
    verdict = report.verdict
    low, high = report.band("device")
    return Load(report.by_part, low, high, verdict.usable, verdict.limit)


# What the run is


def heading(scene: Scene) -> str:
    """The run in a few words: what is trained on what."""
    return Speaker(scene.report, scene.style.language).heading()


def say(scene: Scene) -> str:
    """The verdict as one sentence without markup: for the live region and as the title of the bar."""
    return Speaker(scene.report, scene.style.language).verdict()


def summary(scene: Scene) -> str:
    """The run in a sentence."""
    report, language = scene.report, scene.style.language
    run, say_ = report.run, Speaker(report, language)
    told = {
        name: form.choice(KEYS[name], getattr(run, name), language)
        for name in ("precision", "optimizer")
    }
    card = str(catalog.entry("gpus", run.gpu)["name"])
    gpus = card if run.gpus == 1 else f"{units.integer(run.gpus)} × {card}"
    shown = {"model": say_.model(), "seq": units.integer(run.seq), "gpus": gpus}
    told |= {name: say_.value(value) for name, value in shown.items()}
    return scene.word("summary.run", **told)


def assumptions(scene: Scene) -> Markup:
    """Every setting that was changed, and the main ones, as a list that only paper shows."""
    run, language = scene.report.run, scene.style.language
    changed = run.changed()
    names = [name for name in KEYS if name in form.PLAIN or name in changed]
    return element("dl", [
        element(
            "div", element("dt", words.text(f"label.{name}", language)),
            element("dd", form.described(KEYS[name], getattr(run, name), language)),
        )
        for name in names if name not in form.HIDDEN
    ], class_="tm-printed tm-assumptions")  # fmt: skip
