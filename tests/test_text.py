import csv
import io
import json
from types import SimpleNamespace

import pytest

from trainmem import terminal, text
from trainmem.ledger import PARTS, Row, divided, product
from trainmem.run import Run

GIB = 2**30
PARAMETERS = 8_030_261_248


def _row(part, key, size, *terms, source="adam"):
    return Row(part, key, size, source, lambda: divided(product(*terms), (8, "gpus")))


def _report(kind="fits", **changes):
    """A report with round figures, in the shape of the estimator's."""
    rows = [
        _row("parameters", "weights", 30 * GIB, (4, "bytes"), (PARAMETERS, "parameters")),
        _row("optimizer", "moments", 20 * GIB, (8, "bytes"), (PARAMETERS, "parameters")),
        Row("overhead", "context", GIB // 2, "cuda-context"),
    ]
    by_part = dict.fromkeys(PARTS, 0)
    for row in rows:
        by_part[row.part] += row.bytes
    device = sum(by_part.values())
    verdict = SimpleNamespace(
        kind=kind, need=device, low=45 * GIB, high=55 * GIB, usable=79 * GIB, limit=71 * GIB,
        headroom=10.0, free=79 * GIB - device, over=0,
    )  # fmt: skip
    if kind == "unknown":
        verdict.usable = verdict.limit = verdict.free = verdict.over = None
    change = SimpleNamespace(
        key="less", values={}, saving=26 * GIB, fits=True, run=Run(checkpointing="full")
    )
    return SimpleNamespace(
        run=Run(gpus=8, zero="3", **changes), model=SimpleNamespace(name="Llama 3.1 8B"),
        parameters=PARAMETERS, trainable=PARAMETERS, allocated=50 * GIB, reserved=50 * GIB, device=device,
        band=lambda name: (45 * GIB, 55 * GIB), phases={"forward end": 40 * GIB, "optimizer step": 50 * GIB},
        peak_phase="optimizer step", outside_step={"load": 10 * GIB}, by_part=by_part, rows=rows,
        parts_at=lambda name: {"parameters": 50 * GIB if name == "optimizer step" else 40 * GIB},
        verdict=verdict, changes=lambda: [change],
    )  # fmt: skip


def test_the_verdict_comes_first():
    """The first line of the terminal says whether it fits, and what it needs."""
    first = terminal.terminal(_report(), "https://page", "command").splitlines()[0]
    assert first == "Fits. Needs 50.5 GiB of 79.0 GiB on each of 8 GPUs; 28.5 GiB stays free."


def test_the_peak_phase_is_named_and_marked():
    """The phase of the peak is named under the verdict, and marked among the phases."""
    shown = terminal.terminal(_report(), "https://page", "command")
    assert "Memory peaks in this phase: Optimizer step." in shown
    assert [line for line in shown.splitlines() if line.startswith("▶ Optimizer step")]


def _bar_of(report):
    shown = terminal.terminal(report, "https://page", "command")
    return next(line for line in shown.splitlines() if line.startswith("█"))


def test_the_bar_has_a_column_for_each_share_and_a_stroke_for_the_card():
    """Parts are drawn in proportion, in one line, and the card's memory is a stroke after them."""
    bar = _bar_of(_report())
    assert bar.count("█") == pytest.approx(1.5 * bar.count("▒"), abs=1)
    assert bar.count("·") == 1
    assert bar.index("│") > bar.rindex("·")


def test_what_does_not_fit_goes_beyond_the_stroke():
    """Where a run needs more than the card has, the stroke stands inside the bar, in proportion."""
    report = _report("over")
    report.verdict.usable = report.device // 2
    bar = _bar_of(report)
    assert bar.index("│") == pytest.approx(len(bar) / 2, abs=1)


@pytest.mark.parametrize(
    ("sizes", "width"), [([5, 3, 1], 9), ([1000, 1], 10), ([1, 1, 1], 3), ([7], 0), ([], 9)]
)
def test_shares_of_the_bar_add_up(sizes, width):
    """Each part that holds anything is seen, and all together fill the bar."""
    found = terminal.shares(sizes, width)
    assert all(share >= 1 for share in found)
    assert sum(found) == (max(width, len(sizes)) if sizes else 0)


def test_rows_show_their_formula_with_the_runs_numbers():
    """A row says its bytes with two decimals and the factors that give them."""
    shown = terminal.terminal(_report(), "https://page", "command")
    row = next(line for line in shown.splitlines() if "8 bytes" in line)
    assert "20.00 GiB" in row
    assert row.endswith("8 bytes × 8.03 B parameters ÷ 8 GPUs")


def test_no_colour_without_being_asked():
    """Plain output has no escape sequences; coloured output says the same between them."""
    plain = terminal.terminal(_report(), "https://page", "command")
    coloured = terminal.terminal(
        _report(), "https://page", "command", "en", terminal.Ink(colored=True)
    )
    assert "\x1b" not in plain
    assert "\x1b[1;32mFits\x1b[0m" in coloured


def test_a_card_of_unknown_size_gets_no_verdict():
    """Where the card's memory is not known, the sentence says so and the bar has no stroke."""
    shown = terminal.terminal(_report("unknown"), "https://page", "command")
    assert shown.startswith("No verdict. Needs 50.5 GiB on each of 8 GPUs;")
    assert "│" not in shown


def test_the_changes_say_which_one_makes_it_fit():
    """For a run that does not fit, the heading asks what would, and the change that does is marked."""
    shown = terminal.terminal(_report("over"), "https://page", "command")
    assert "What would make it fit" in shown
    assert "saves 26.0 GiB (with this it fits)" in shown


def test_urdu_isolates_each_figure():
    """In Urdu each figure with its unit is isolated, so that a terminal does not turn it round."""
    first = terminal.terminal(_report(), "https://page", "command", "ur").splitlines()[0]
    assert "\u206850.5 GiB\u2069" in first


def test_figures_follow_the_unit_of_the_run():
    """A run in GB prints GB, and no GiB anywhere."""
    shown = terminal.terminal(_report(units="gb"), "https://page", "command")
    assert "54.2 GB" in shown
    assert "GiB" not in shown


def test_markdown_is_a_table_with_the_link():
    """Markdown has one line a row, a total, and the page it came from."""
    shown = text.markdown(_report(), "https://page?v=1")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3 + 1
    assert all(row.count("|") == 5 for row in rows)
    assert "50.50 GiB" in rows[-1]
    assert shown.endswith("<https://page?v=1>\n")


def test_csv_is_read_back():
    """Any reader of CSV finds the bytes of each row."""
    rows = list(csv.DictReader(io.StringIO(text.csv(_report()))))
    assert [int(row["bytes"]) for row in rows] == [30 * GIB, 20 * GIB, GIB // 2]
    assert rows[0]["formula"] == "4 bytes × 8.03 B parameters ÷ 8 GPUs"


def test_json_holds_everything_in_bytes():
    """JSON has whole bytes, the bands, the rows with their sources, and the changes."""
    found = json.loads(json.dumps(text.as_dict(_report(), "https://page")))
    assert found["device"] == {"expected": 50 * GIB + GIB // 2, "low": 45 * GIB, "high": 55 * GIB}
    assert sum(found["parts"].values()) == found["device"]["expected"]
    assert sum(row["bytes"] for row in found["rows"]) == found["device"]["expected"]
    assert found["rows"][0]["source"]["url"] == "https://arxiv.org/abs/1412.6980"
    assert found["verdict"]["kind"] == "fits"


def test_comparison_names_what_differs():
    """Two reports side by side: differing settings first, then parts with the difference in words."""
    smaller = _report(optimizer="sgd")
    smaller.by_part = smaller.by_part | {"optimizer": 0}
    smaller.device -= 20 * GIB
    lines = terminal.compare(_report(), smaller).splitlines()
    assert lines[1].split() == ["Optimizer", "adamw", "sgd"]
    assert next(line for line in lines if line.startswith("Optimizer states")).endswith(
        "20.0 GiB less"
    )
    assert next(line for line in lines if line.startswith("Parameters")).endswith("No difference")
