"""The ledger as tables: every row with its formula and its source, and the three ways to count the same memory."""

from trainmem import catalog, units, words
from trainmem.ledger import PARTS, Factor, Row
from trainmem.markup import Markup, element, fragment, number
from trainmem.plot import swatch
from trainmem.scene import Scene


def ledger(scene: Scene) -> Markup:
    """Every row at the peak: bytes, formula with the run's numbers, why it is there, where the rule comes from."""
    report = scene.report
    columns = [
        ("col.row", None),
        ("col.per_gpu", "num"),
        ("col.formula", None),
        ("col.source", None),
    ]
    head = element(
        "tr", [element("th", scene.word(key), scope="col", class_=name) for key, name in columns]
    )
    rows: dict[str, list[Row]] = {part: [] for part in PARTS}
    for row in report.rows:
        rows[row.part].append(row)
    bodies = [_part(scene, part, rows[part]) for part in PARTS if rows[part]]
    total = element(
        "tr", element("th", scene.word("col.total"), scope="row"),
        element("td", scene.amount(report.device, 2), class_="num"), element("td"), element("td"),
    )  # fmt: skip
    caption = element("caption", scene.word("page.ledger"), class_="tm-vh")
    table = element(
        "table",
        caption,
        element("thead", head),
        bodies,
        element("tfoot", total),
        class_="tm-ledger",
    )
    return fragment(element("h2", scene.word("page.ledger")), table)


def _part(scene: Scene, part: str, rows: list[Row]) -> Markup:
    name = element("th", swatch(part, scene.style), scene.word(f"part.{part}"), scope="rowgroup")
    total = element("td", scene.amount(sum(row.bytes for row in rows), 2), class_="num")
    first = element(
        "tr", name, total, element("td", class_="formula"), element("td", class_="source")
    )
    return element("tbody", first, [_row(scene, row) for row in rows], data_part=part)


def _row(scene: Scene, row: Row) -> Markup:
    why = f"why.{row.key}"
    reason = (
        element("span", scene.word(why), class_="why")
        if words.has(why, scene.style.language)
        else None
    )
    return element(
        "tr",
        element("th", scene.word(f"row.{row.key}"), reason, scope="row"),
        element("td", scene.amount(row.bytes, 2), class_="num"),
        element("td", formula(scene, row.factors()), class_="formula"),
        element("td", _source(row.source), class_="source"),
    )


def formula(scene: Scene, factors: tuple[Factor, ...]) -> Markup | None:
    """A product with the run's own numbers: always left to right, its units in the reader's language."""
    if not factors:
        return None
    text = []
    for factor in factors:
        sign = f" {factor.operator} " if factor.operator else ""
        figure, unit = units.factor(factor.value, factor.unit, scene.style.units)
        text.append(sign + figure)
        if unit:
            text += [
                " ",
                element("bdi", words.unit(unit, figure, scene.style.language), class_="u"),
            ]
    return element("bdi", text, class_="tm-f", dir="ltr")


def _source(key: str) -> Markup | None:
    if not key:
        return None
    source = catalog.entry("sources", key)
    name, url = str(source["name"]), str(source.get("url", ""))
    return element("a", name, href=url) if url.startswith("https://") else element("span", name)


def levels(scene: Scene) -> Markup:
    """Allocated, reserved and device: three ways to count the same memory, each with its range."""
    report = scene.report
    head = element("tr", [
        element("th", scene.word("col.memory"), scope="col"),
        element("th", scene.word("col.per_gpu"), scope="col", class_="num"),
        element("th", scene.word("col.range"), scope="col"),
    ])  # fmt: skip
    rows = []
    for name, size in (
        ("allocated", report.allocated),
        ("reserved", report.reserved),
        ("device", report.device),
    ):
        low, high = report.band(name)
        ends = {
            "low": number(units.amount(low, scene.style.units, 2)[0]),
            "high": scene.amount(high, 2),
        }
        rows.append(element(
            "tr", element("th", scene.word(f"level.{name}"), scope="row"),
            element("td", scene.amount(size, 2), class_="num"), element("td", scene.sentence("reading.range", **ends)),
        ))  # fmt: skip
    table = element(
        "table", element("thead", head), element("tbody", rows), class_="tm-ledger tm-flat"
    )
    return fragment(element("h2", scene.word("page.levels")), table)
