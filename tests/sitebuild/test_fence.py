"""Calculators in fences and live numbers in prose."""

import subprocess
import sys
from types import SimpleNamespace

import markdown
import pytest
from pymdownx.superfences import SuperFencesException

from sitebuild import fence, numbers
from trainmem import ledger

GIB = 2**30


class Report(SimpleNamespace):
    """A report of round figures."""

    def band(self, name):
        return getattr(self, name) - GIB, getattr(self, name) + GIB

    def rows_at(self, phase):
        return self.rows[:1] if phase == "forward end" else self.rows

    def parts_at(self, phase):
        return {part: size // 2 for part, size in self.by_part.items()}


def report(scale=1):
    parts = dict(zip(ledger.PARTS, (10, 10, 20, 5, 1), strict=True))
    rows = (SimpleNamespace(key="first", bytes=3 * GIB), SimpleNamespace(key="first", bytes=GIB))
    return Report(
        allocated=45 * scale * GIB,
        reserved=46 * scale * GIB,
        device=50 * scale * GIB,
        by_part={name: size * scale * GIB for name, size in parts.items()},
        phases=dict.fromkeys(ledger.PHASES, 30 * GIB),
        peak_phase="loss backward",
        outside_step={"load": GIB, "first step": GIB, "evaluation": GIB, "save": GIB},
        rows=rows,
        layer_saved=7 * 2**20,
        parameters=6_738_415_616,
        trainable=1_000_000,
        ranks=[
            SimpleNamespace(
                stage=stage,
                device=(40 - stage) * GIB,
                by_part={"activations": (9 - stage) * GIB, "overhead": 2 * GIB},
            )
            for stage in range(2)
        ],
        verdict=SimpleNamespace(kind="fits", need=50 * GIB, usable=79 * GIB, free=29 * GIB),
    )


@pytest.fixture
def render(monkeypatch):
    """Render Markdown with a report of round figures for every query."""
    monkeypatch.setattr(numbers, "report_of", lambda query: report(2 if "double" in query else 1))

    def convert(text, language="en"):
        extensions = ["tables", fence.makeExtension(language=language)]
        return markdown.markdown(text, extensions=extensions)

    return convert


@pytest.mark.parametrize(
    ("expression", "expected", "unit"),
    [
        ("allocated ? a=1", "45.0", "GiB"),
        ("GB.2: device ? a=1", "53.69", "GB"),
        ("MiB: layer-saved ? a=1", "7.0", "MiB"),
        ("B: row.first ? a=1", "4,294,967,296", "B"),
        ("row.first@forward-end ? a=1", "3.0", "GiB"),
        ("activations@loss-backward ? a=1", "2.5", "GiB"),
        ("activations@stage-2 ? a=1", "8.0", "GiB"),
        ("device@stage-1 ? a=1", "40.0", "GiB"),
        ("allocated@stage-2 ? a=1", "37.0", "GiB"),
        ("forward-end ? a=1", "30.0", "GiB"),
        ("first-step ? a=1", "1.0", "GiB"),
        ("device.high ? a=1", "51.0", "GiB"),
        ("usable - device ? a=1", "29.0", "GiB"),
        ("allocated - device ? a=1", "\N{MINUS SIGN}5.0", "GiB"),
        ("parameters + optimizer ? a=1", "30.0", "GiB"),
        ("optimizer / parameters ? a=1", "2.00×", ""),
        ("x.1: device ? a=double / device ? a=1", "2.0×", ""),
        ("%: optimizer / allocated ? a=1", "44", "%"),
        ("integer: parameter-count ? a=1", "6,738,415,616", ""),
    ],
)
def test_expression_prints_a_number(render, expression, expected, unit):
    """Each sort of quantity is computed, formatted, and kept together with its unit."""
    html = render(f"So {{{{ {expression} }}}}.")

    tail = f'<span class="u">{numbers.THIN_SPACE}{unit}</span>' if unit else ""
    assert f">{expected}{tail}</bdi>." in html
    assert '<bdi class="tm-n"' in html or '<bdi dir="ltr" class="tm-n"' in html


def test_part_carries_its_name(render):
    """A number of one contributor says which, so that it can have its colour."""
    assert 'data-part="optimizer"' in render("{{ optimizer ? a=1 }}")
    assert "data-part" not in render("{{ optimizer + gradients ? a=1 }}")


def test_named_query(render):
    """A query is named once, and the name can be added to; the line itself vanishes."""
    html = render("{{ let one = a=1 }}\n\n{{ device ? one }}, {{ device ? one&b=double }}")

    assert "let" not in html
    assert "50.0" in html
    assert "100.0" in html


def test_words_are_in_the_page_s_language(render):
    """The verdict and the peak's name are words, not numbers."""
    english = render("{{ peak-phase ? a=1 }}")
    urdu = render("{{ peak-phase ? a=1 }}", "ur")

    assert '<span class="tm-w">' in english
    assert english != urdu


def test_numbers_in_tables_and_code(render):
    """A number works in a table's cell; in code its text is left alone."""
    html = render("| a | b |\n|---|---|\n| {{ device ? a=1 }} | `{{ device ? a=1 }}` |")

    assert 1 == html.count("<bdi")
    assert "<code>{{ device ? a=1 }}</code>" in html


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("weight ? a=1", "no quantity"),
        ("row.none ? a=1", "there are first"),
        ("allocated", "no query"),
        ("allocated ? nobody", "called `nobody`"),
        ("activations@lunch ? a=1", "no phase"),
        ("activations@stage-3 ? a=1", "they are 1, 2"),
        ("weight@stage-1 ? a=1", "no quantity"),
        ("furlong: device ? a=1", "no format"),
        ("device + parameter-count ? a=1", "cannot be added"),
        ("device ? a=1 b=2", "is not `QUANTITY ? QUERY`"),
        ("device / 0 ? a=1", "divided by zero"),
    ],
)
def test_wrong_expression_stops_the_build(render, expression, reason):
    """A mistake is an exception that names the expression and the reason."""
    with pytest.raises(SuperFencesException, match=r"\{\{") as caught:
        render(f"{{{{ {expression} }}}}")
    assert reason in str(caught.value)


def test_query_with_a_problem_is_refused():
    """The estimator's own complaint about a query is passed on."""
    with pytest.raises(numbers.NumberError, match="nope"):
        numbers.evaluate("allocated ? model=nope", {}, "en")


CONFIG = """
site_name: Test
plugins: []
theme: {name: mkdocs}
markdown_extensions:
  pymdownx.superfences:
    custom_fences:
      - name: calc
        class: tm
        format: !!python/name:sitebuild.fence.calculator
        validator: !!python/name:sitebuild.fence.validate
  sitebuild.fence: {language: en}
"""


@pytest.mark.parametrize(
    "text",
    [
        "```calc\nmodel=nope\n```",
        '```calc field="gpus"\nmodel=llama-2-7b\n```',
        "Adam needs {{ optimiser ? model=llama-2-7b }}.",
    ],
)
def test_mkdocs_stops_with_the_page_s_name(tmp_path, text):
    """A wrong fence or number fails the build and says on which page; it is never swallowed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"# Test\n\n{text}\n")
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(tmp_path / "mkdocs.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 != done.returncode
    assert "index.md" in done.stderr


def test_mkdocs_puts_the_calculator_on_the_page(tmp_path):
    """A right fence becomes the calculator, out of the search index, in the page's language."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text('# T\n\n```calc fields="gpus"\nmodel=llama-2-7b\n```\n')
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(tmp_path / "mkdocs.yml")]
    subprocess.run(command, check=True)
    html = (tmp_path / "site/index.html").read_text("utf-8")

    assert '<div class="tm-embed"' in html
    assert "data-search-exclude" in html
    assert "GiB" in html


@pytest.mark.parametrize(
    ("page", "language", "spoken"),
    [
        ("index.md", "ur", "ur"),
        ("guides/where-does-the-memory-go.md", "ur", "en"),
        ("index.md", "en", "en"),
    ],
)
def test_words_in_prose_are_in_the_language_of_the_prose(page, language, spoken):
    """English prose that stands in for a translation has English words among its numbers."""
    relpath = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert (
        fence.written_in(SimpleNamespace(treeprocessors={"relpath": relpath}), language) == spoken
    )
