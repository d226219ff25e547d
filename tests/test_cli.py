import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import trainmem
from trainmem import cli, text, units
from trainmem.estimate import estimate
from trainmem.link import link, parse
from trainmem.run import KEYS

FOUNDING = (
    "model=llama-2-13b&gpus=8&zero=3&micro_batch=4&seq=2048&checkpointing=full&precision=bf16-mixed"
)
SMALL = "model=smollm2-135m&seq=512"
LARGE = "model=llama-3.1-405b"


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the command line; return its exit code and what it printed."""
    monkeypatch.setenv("TRAINMEM_SITE", "https://site.example/memory")

    def call(*given):
        code = cli.main(given)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a=1&b=2"], "a=1&b=2"),
        (["?a=1"], "a=1"),
        (["https://x.example/workbench/?v=1&a=1#rows"], "v=1&a=1"),
        (["file:///home/me/site/workbench/index.html?v=1&amp;a=1"], "v=1&a=1"),
        (["https://x.example/workbench/"], ""),
        (["a=1", "b=2"], "a=1&b=2"),
        (["llama-2-13b"], "model=llama-2-13b"),
        (["llama-2-13b", "gpus=8"], "model=llama-2-13b&gpus=8"),
        ([], ""),
    ],
)
def test_a_query_is_found_in_whatever_is_given(given, expected):
    """Queries, whole links, key=value words and the name of a model are all understood."""
    assert cli.query_of(given) == expected


@pytest.mark.parametrize(("query", "code"), [(SMALL, 0), (LARGE, 3)])
def test_the_exit_code_says_whether_it_fits(run, query, code):
    """0 fits, 3 does not fit."""
    assert run("estimate", query)[0] == code


def test_tight_has_an_exit_code_of_its_own(run):
    """A run whose need lies inside the headroom exits with 1."""
    device = estimate(parse(SMALL)[0]).device
    assert run("estimate", f"{SMALL}&usable={device + 2**20}B")[0] == 1


def test_a_fault_exits_with_two_and_the_answer_is_printed(run):
    """A wrong value is named on stderr, and the answer with the default is still there."""
    code, out, err = run("estimate", f"{SMALL}&zero=9")
    assert code == 2
    assert "zero" in err
    assert out == run("estimate", SMALL)[1]


def test_estimate_may_be_left_out(run):
    """A query as the first word is estimated."""
    assert run(FOUNDING) == run("estimate", FOUNDING)


def test_the_page_link_leads_to_the_same_run(run):
    """The printed link, given back, prints the same."""
    first = run("estimate", FOUNDING)
    page = next(line for line in first[1].splitlines() if line.startswith("Page: "))[6:]
    assert page.startswith("https://site.example/memory/workbench/?v=1&")
    assert run("estimate", page) == first


def test_the_printed_command_prints_the_same(run):
    """The command under a report computes that report."""
    out = run("estimate", FOUNDING)[1]
    command = next(line for line in out.splitlines() if line.startswith("Command: "))
    assert run("estimate", command.split('"')[1])[1] == out


def test_figures_are_those_of_the_estimator(run):
    """Each total in the terminal is the estimator's, through the formatting that the page uses."""
    report = estimate(parse(FOUNDING)[0])
    out = run("estimate", FOUNDING)[1]
    phases = [sum(report.parts_at(name).values()) for name in report.phases]
    for size in (report.allocated, report.reserved, report.device, *phases):
        assert units.size_text(size) in out
    for row in report.rows:
        assert units.size_text(row.bytes, decimals=2) in out


def test_json_says_the_same_as_the_estimator(run):
    """JSON holds the estimator's bytes."""
    code, out, _ = run("estimate", FOUNDING, "--json")
    found, report = json.loads(out), estimate(parse(FOUNDING)[0])
    assert found["device"]["expected"] == report.device
    assert found["parts"] == report.by_part
    assert sum(row["bytes"] for row in found["rows"]) == report.device
    assert code == cli.EXIT_CODES[report.verdict.kind]


def test_csv_and_markdown_have_every_row(run):
    """Both tables have as many rows as the ledger."""
    rows = estimate(parse(FOUNDING)[0]).rows
    assert len(list(csv.DictReader(io.StringIO(run(FOUNDING, "--csv")[1])))) == len(rows)
    lines = run(FOUNDING, "--markdown")[1].splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == len(rows) + 3


def test_svg_is_written_to_a_file(run, tmp_path):
    """--svg writes a well-formed drawing, and the report is printed as well."""
    path = tmp_path / "bar.svg"
    code, out, err = run("estimate", SMALL, "--svg", str(path))
    assert ET.fromstring(path.read_text("utf-8")).tag.endswith("svg")
    assert (code, err) == (0, "")
    assert out == run("estimate", SMALL)[1]


def test_svg_may_go_to_standard_output(run):
    """--svg - prints the drawing alone."""
    assert ET.fromstring(run("estimate", SMALL, "--svg", "-")[1]).tag.endswith("svg")


def test_a_file_that_cannot_be_written_is_a_sentence(run, tmp_path):
    """A path that does not exist is named, and nothing is raised."""
    code, _, err = run("estimate", SMALL, "--svg", str(tmp_path / "no" / "bar.svg"))
    assert code == 2
    assert "bar.svg" in err


def test_compare_shows_two_runs(run):
    """Two runs stand side by side with what differs and both links."""
    code, out, _ = run("compare", SMALL, f"{SMALL}&optimizer=sgd")
    assert code == 0
    assert "adamw" in out
    assert out.count("Optimizer step") == 1
    assert "B: https://site.example/memory/workbench/?v=1&" in out


def test_the_version_is_printed(run):
    """`--version` prints the version of the package."""
    assert run("--version") == (0, f"trainmem {trainmem.__version__}\n", "")


def test_a_filter_that_finds_nothing_is_shown_without_control_characters(run):
    """A terminal is not steered by a filter that is echoed."""
    code, _, err = run("gpus", "\x1b[31mred")
    assert code == 2
    assert "\x1b" not in err


def test_link_prints_the_canonical_link(run):
    """The link of a run holds only what differs from the defaults."""
    assert run("link", "seq=2k", "gpus=8")[1].strip().endswith("workbench/?v=1&gpus=8")


@pytest.mark.parametrize("language", ["ur", "bn"])
def test_other_languages_have_the_same_figures(run, language):
    """A translated report has the English one's figures, and its link leads to that language."""
    report = estimate(parse(FOUNDING)[0])
    out = run("estimate", FOUNDING, "--lang", language)[1]
    assert units.size_text(report.device) in out
    assert f"memory/{language}/workbench/?" in out


@pytest.mark.parametrize("command", ["models", "gpus", "optimizers"])
def test_lists_can_be_filtered(run, command):
    """A list has a head and rows; a filter that nothing matches is a fault."""
    assert len(run(command)[1].splitlines()) > 3
    code, out, err = run(command, "no such thing")
    assert (code, out) == (2, "")
    assert "no such thing" in err


@pytest.mark.parametrize(
    "noise",
    ["model=nope", "gpus=-3", "seq=1e99", "tp=3", "zero=9", "seq=1&seq=2", "%00", "<script>=1",
     "\u202emodel=x", "a" * 100_000, "=&&==&", "model=%ff%fe"],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)  # fmt: skip
def test_noise_never_raises(run, noise):
    """Whatever is given, there is an answer, a sentence and the exit code for bad input."""
    code, out, err = run("estimate", noise)
    assert code == 2
    assert out
    assert err
    assert all(sign.isprintable() or sign == "\n" for sign in err)


def test_text_of_a_report_is_what_the_command_prints(run):
    """The package's own Markdown is the command's."""
    report = estimate(parse(SMALL)[0])
    page = cli.page_link(link(report.run))
    assert run(SMALL, "--markdown")[1] == text.markdown(report, page)


@pytest.mark.parametrize("command", ["estimate", "compare", "link", "models", "gpus", "optimizers"])
def test_each_command_explains_itself(run, command):
    """--help says how a command is used, and the overview names it."""
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: trainmem {command} ")
    assert command in run()[1]


def test_help_lists_every_key(run):
    """The help of `estimate` has a line for each key of a query."""
    out = run("estimate", "--help")[1]
    assert all(f"\n  {key} " in out for key in KEYS)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["estimate", SMALL, "--lang", "xx"], "--lang"),
        (["estimate", SMALL, "--svg"], "--svg"),
        (["estimate", SMALL, "--json", "--csv"], "--csv"),
        (["models", "--json"], "--json"),
        (["estimate", "--nope"], "--nope"),
        (["compare", SMALL], "compare"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_command_line_is_a_sentence(run, given, named):
    """A command line that cannot be read names the culprit and exits with 2."""
    code, out, err = run(*given)
    assert (code, out) == (2, "")
    assert named in err
    assert len(err.splitlines()) == 1


@pytest.mark.cpython
def test_the_module_is_the_command():
    """`python -m trainmem` works, in a pipe, without colour."""
    found = subprocess.run(
        [sys.executable, "-m", "trainmem", "estimate", SMALL],
        capture_output=True, check=False, text=True, encoding="utf-8", env=_environment(),
    )  # fmt: skip
    assert found.returncode == 0
    assert found.stdout.startswith("Fits.")
    assert "\x1b" not in found.stdout


@pytest.mark.cpython
def test_a_closed_pipe_is_no_error():
    """A reader that goes away early, such as `head`, leaves no traceback."""
    code = "import sys, subprocess; p = subprocess.Popen(sys.argv[1:], stdout=-1, stderr=-1); "
    code += "p.stdout.close(); print(p.stderr.read().decode()); sys.exit(p.wait())"
    found = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "-m", "trainmem", "models"],
        capture_output=True, check=False, text=True, env=_environment(),
    )  # fmt: skip
    assert "Traceback" not in found.stdout


def _environment(**more):
    source = str(Path(cli.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8", **more}


def test_search_lists_the_best_layouts_with_their_links(run):
    """A row a layout, the one that leaves most free first, each with the page of its largest micro-batch."""
    code, out, _ = run("search", "model=llama-3.1-8b", "--gpus", "8", "--limit", "3")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("19 layouts on 8 GPUs; ")
    assert len(lines) == 1 + 1 + 3 + 1
    for line in lines[2:5]:
        page = line.split()[-1]
        found, problems = parse(page.partition("?")[2])
        assert page.startswith("https://site.example/memory/workbench/?v=1&")
        assert problems == []
        assert found.gpus == 8
        assert estimate(found).verdict.kind == "fits"
    assert lines[5] == "The fewest that hold it: 3 GPUs, as DP 3 · FSDP2 ZeRO-3."


def test_search_lines_its_columns_up(run):
    """All rows have their link in the same column."""
    out = run("search", "model=llama-3.1-8b", "--gpus", "8")[1]
    places = {line.index("https://") for line in out.splitlines() if "https://" in line}
    assert len(places) == 1


def test_search_as_json_gives_bytes(run):
    """JSON holds the same layouts with sizes in bytes, and how many evaluations were made."""
    code, out, _ = run("search", "model=llama-3.1-8b&gpus=8", "--json", "--limit=2")
    told = json.loads(out)
    assert code == 0
    assert told["count"] == 19
    assert told["evaluations"] > 19
    assert len(told["layouts"]) == 2
    first = told["layouts"][0]
    assert first["need"] == estimate(parse(first["query"])[0]).verdict.need
    assert told["smallest"]["gpus"] == 3


def test_search_makes_up_a_global_batch(run):
    """With a global batch, micro-batch, accumulation and data parallelism multiply to it."""
    told = json.loads(run("search", SMALL, "--gpus=4", "--global-batch=64", "--json")[1])
    for row in told["layouts"]:
        found, _ = parse(row["page"].partition("?")[2])
        assert found.micro_batch * found.grad_accum * (found.gpus // found.tp) == 64


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["model=llama-3-70b", "--gpus=2"], 3),
        ([SMALL], 0),
        ([SMALL, "zro=3"], 2),
        (["model=llama-3.1-8b", "--gpus=16", "--global-batch=8191"], 3),
    ],
)
def test_search_has_the_exit_codes_of_estimate(run, given, code):
    """0 where a layout fits, 3 where none does, 2 where the input has a fault."""
    assert run("search", *given)[0] == code


@pytest.mark.parametrize("given", [["--gpus"], ["--gpus=no"], ["--limit=0"], ["--gpus=1.5"]])
def test_search_needs_whole_numbers(run, given):
    """A number that is none is a usage error in one sentence."""
    code, out, err = run("search", SMALL, *given)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
