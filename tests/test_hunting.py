"""A layout search on a page: slices, the sorted table, the smallest number of GPUs, the curve."""

import html
import json
import re
import time

import pytest

from trainmem import hunting, view, words
from trainmem.curve import Axes, curve
from trainmem.estimate import estimate
from trainmem.hunt import Hunt
from trainmem.layouts import Limits, layouts
from trainmem.link import parse
from trainmem.plot import Style
from trainmem.scene import Scene

QUERY = "model=llama-3.1-8b&gpus=8"
SMALL = Limits(gpus=16)
GIB = 1 << 30


def run_of(query):
    """The run of a query that must be understood whole."""
    run, problems = parse(query)
    assert not problems
    return run


def scene(query=QUERY, language="en"):
    return Scene(estimate(run_of(query)), Style(language, "gib", "calc-1"))


@pytest.fixture
def ask():
    """Ask the page for an answer; each test has a calculator of its own."""
    hunting._hunts.clear()

    def call(query=QUERY, **more):
        request = {"page": "search", "query": f"v=1&{query}", "identity": "calc-1", **more}
        return json.loads(view.respond(json.dumps(request)))

    return call


def column(table, place):
    """The texts of a column of the table, without units."""
    rows = re.findall(r"<tr data-verdict.*?</tr>", table)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row)[place] for row in rows]
    plain = [html.unescape(re.sub(r"<span class=\"u\">.*?</span>|<[^>]+>", "", c)) for c in cells]
    return [text.replace("\N{MINUS SIGN}", "-").replace(",", "").strip() for text in plain]


def test_slices_find_what_one_piece_finds(ask):
    """However a search is cut into slices, it ends with the same regions."""
    whole = hunting.parts(scene(), Hunt(run_of(QUERY)).finish(), "")
    reply, slices = ask(), 1
    while reply["more"]:
        reply, slices = ask(stage="more"), slices + 1
    assert {name: reply["parts"][name] for name in whole} == whole
    assert (
        reply["say"]
        == "19 layouts on 8 GPUs; 17 fit. The fewest that hold it: 3 GPUs, as DP 3 · FSDP2 ZeRO-3."
    )


def test_a_halted_search_stays_where_it_is(ask):
    """While the reader has stopped it, a search does not go on; then it does."""
    query = "framework=megatron&model=llama-2-70b&gpus=512"
    ask(query)
    done = len(hunting._hunts["calc-1"].found)
    reply = ask(query, stage="sort", halted=True)
    assert (reply["more"], len(hunting._hunts["calc-1"].found)) == (False, done)
    assert 'data-hunt="more"' in reply["parts"]["progress"]
    reply = ask(query, stage="more")
    assert reply["more"]
    assert 'data-hunt="stop"' in reply["parts"]["progress"]
    assert hunting._hunts["calc-1"].progress > 0


def test_another_run_begins_another_search(ask):
    """An edit starts afresh; the unit of the figures does not."""
    ask()
    first = hunting._hunts["calc-1"]
    ask(f"{QUERY}&units=gb")
    assert hunting._hunts["calc-1"] is first
    ask("model=llama-3.1-8b&gpus=4")
    assert hunting._hunts["calc-1"] is not first


@pytest.mark.cpython
def test_a_slice_is_short(ask):
    """One answer takes about as long as a slice: no step inside is long."""
    query, spent = "framework=megatron&model=llama-3.1-8b&gpus=64", []
    for _ in range(12):
        start = time.process_time()
        ask(query, stage="more")
        spent.append(time.process_time() - start)
    assert sorted(spent)[6] < 0.05


@pytest.mark.parametrize("name", hunting.COLUMNS[1:])
@pytest.mark.parametrize("falling", [False, True])
def test_a_column_sorts_the_table(name, falling):
    """Rows stand in the order of the chosen column, and its head says so."""
    hunt = Hunt(run_of(QUERY)).finish()
    sort = ("-" if falling else "") + name
    table = hunting.table(scene(), hunt, hunting.order_of(sort))
    shown = [float(text) for text in column(table, hunting.COLUMNS.index(name)) if text != "–"]
    assert shown == sorted(shown, reverse=falling)
    direction = "descending" if falling else "ascending"
    assert table.count("aria-sort=") == 1
    assert f'data-sort="{"" if falling else "-"}{name}"' in table
    assert f'aria-sort="{direction}"' in table


def test_what_is_no_column_sorts_by_need():
    """A page may ask for anything; the table keeps its first order."""
    assert hunting.order_of("<b>") == hunting.order_of("") == hunting.Order("need", False)


def test_each_row_leads_to_its_layout():
    """A row's link is its layout with the largest micro-batch, and that fits; one that fits none says so."""
    hunt = Hunt(run_of(QUERY)).finish()
    table = hunting.table(scene(), hunt, hunting.Order())
    targets = [
        html.unescape(found).partition("?")[2] for found in re.findall(r'href="([^"]+)"', table)
    ]
    assert len(targets) == len(hunt.found) == 19
    for target, largest in zip(targets, column(table, 3), strict=True):
        run = run_of(target)
        fits = estimate(run).verdict.kind == "fits"
        assert fits == (largest != "–")
        assert not fits or run.micro_batch == int(largest)


def test_the_curve_is_what_the_best_layout_needs():
    """At each number of GPUs a stage's point is the least need of its layouts."""
    run = run_of("model=llama-3.2-1b&gpus=4")
    found = Hunt(run, SMALL).finish().curve
    for gpus in (1, 4, 16):
        needs = {}
        for layout in layouts(run, gpus):
            need = estimate(layout).verdict.need
            needs[layout.zero] = min(need, needs.get(layout.zero, need))
        assert {stage: line[gpus] for stage, line in found.items() if gpus in line} == needs
    assert sorted(found["3"]) == [2, 4, 8, 16]


def test_axes_are_logarithmic():
    """Equal factors are equal distances, to the right and upwards."""
    axes = Axes({"0": {1: GIB, 16: 10 * GIB, 256: 100 * GIB}}, None)
    assert axes.x(16) == pytest.approx(axes.x(256) / 2)
    assert axes.x(1) == 0
    assert axes.y(GIB) - axes.y(10 * GIB) == pytest.approx(axes.y(10 * GIB) - axes.y(100 * GIB))
    assert axes.ticks(GIB) == [1, 2, 5, 10, 20, 50, 100]


@pytest.mark.parametrize("language", words.languages)
def test_the_curve_has_a_table_and_a_sentence(language):
    """What is drawn stands in a table as well, a title says what it is, and every place has its reading."""
    hunt = Hunt(run_of(QUERY), SMALL).finish()
    shown = curve(scene(language=language), hunt.curve)
    assert shown.count("<title") == shown.count('role="img"') == 1
    assert shown.count("<tr>") == 1 + len({1, 2, 4, 8, 16})
    readings = re.search(r'data-readings="([^"]+)"', shown)[1].split("\n")
    assert len(readings) == 5
    assert all("ZeRO-0" in reading for reading in readings)


def test_one_number_of_gpus_has_no_curve():
    """A single point is no line."""
    assert curve(scene("model=gpt2"), {"0": {1: GIB}}) == ""


def test_an_unknown_card_has_no_smallest_number():
    """Where nobody knows what a card holds, nothing is said to fit, and the search ends all the same."""
    found = Hunt(run_of(QUERY), SMALL)
    found.card = found.card._replace(usable=None, limit=None)
    found.finish()
    assert found.smallest is None
    assert hunting.smallest(scene(), found) == ""


def test_the_page_is_complete_without_script():
    """The build puts table, curve and form into the page; a wrong default stops it."""
    page = view.page_html("search", QUERY)
    assert page.count("<tr data-verdict") == 19
    assert "tm-progress" not in page
    assert 'name="gpus"' in page
    with pytest.raises(ValueError, match="zro"):
        view.page_html("search", "zro=3")
