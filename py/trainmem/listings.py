"""Lists of what is known by name, as rows of cells: models, cards, optimizers."""

from collections.abc import Callable

from trainmem import catalog, units, words
from trainmem.run import OPTIMIZERS

Rows = list[tuple[str, ...]]


def models(wanted: str = "", language: str = "en") -> Rows:
    """Each model: id, name, parameters and dimensions."""
    heads = ("name", "parameters")
    labels = ("layers", "hidden", "ffn", "heads", "kv_heads", "vocab")
    head = ("model", *(words.text(f"col.{name}", language) for name in heads))
    rows: Rows = [(*head, *(words.text(f"label.{name}", language) for name in labels))]
    for identity, name in _matching("models", wanted):
        entry = catalog.entry("models", identity)
        figures = (units.integer(int(str(entry[label]))) for label in labels)
        rows.append((identity, name, units.count(float(str(entry["parameters"]))), *figures))
    return rows if len(rows) > 1 else []


def gpus(wanted: str = "", language: str = "en") -> Rows:
    """Each card: id, name, what PyTorch can allocate and how we know, bandwidth, tensor rate."""
    head = ("gpu", words.text("col.name", language), words.text("level.usable", language))
    rows: Rows = [(*head, "", "GB/s", "BF16 TFLOPS")]
    for identity, name in _matching("gpus", wanted):
        entry = catalog.entry("gpus", identity)
        usable, how = catalog.usable_bytes(identity)
        shown = units.size_text(usable) if usable else "?"
        rates = (_figure(entry.get(key)) for key in ("bandwidth_gb_per_s", "bf16_tflops"))
        rows.append((identity, name, shown, how, *rates))
    return rows if len(rows) > 1 else []


def _figure(value: object) -> str:
    return units.number(value) if isinstance(value, (int, float)) else ""


def _matching(kind: str, wanted: str) -> list[tuple[str, str]]:
    """Entries whose id or name has a text in it."""
    return [pair for pair in catalog.names(kind) if wanted in " ".join(pair).lower()]


def optimizers(wanted: str = "", language: str = "en") -> Rows:
    """Each optimizer: the value of the key, and what it is called."""
    rows: Rows = [("optimizer", words.text("col.name", language))]
    for name in OPTIMIZERS:
        title = words.text(f"choice.optimizer.{name}", language)
        if wanted in f"{name} {title}".lower():
            rows.append((name, title))
    return rows if len(rows) > 1 else []


LISTS: dict[str, Callable[[str, str], Rows]] = {
    "models": models,
    "gpus": gpus,
    "optimizers": optimizers,
}
