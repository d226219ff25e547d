"""What a writer can get wrong in a page: links, figures that were typed, translations that fell behind."""

import json
import re
from pathlib import Path

import pytest

from trainmem.link import link, parse

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/*/**/*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TO_WORKBENCH = re.compile(r"workbench/(?:index\.(?:md|html))?\?([^)\s\"#]+)")
LINKS = [(page, query) for page in TEXTS for query in TO_WORKBENCH.findall(page.read_text("utf-8"))]
TRANSLATED = [page for page in PAGES if page.relative_to(ROOT).parts[1] != "en"]
SIZE = re.compile(r"[0-9.,]+ (?:GiB|MiB)\b")
PUBLISHED = {"32 MiB", "8 MiB"}


def name(value):
    """A short name for a page in a list of tests."""
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else value


def english(page):
    """The English page of a translated one."""
    return ROOT / "docs/en" / page.relative_to(ROOT / "docs" / page.relative_to(ROOT).parts[1])


def test_there_is_something_to_test():
    """Pages, links and translations were found."""
    assert len(PAGES) > 8
    assert len(LINKS) > 12
    assert len(TRANSLATED) >= 4


@pytest.mark.parametrize(("page", "query"), LINKS, ids=name)
def test_links_to_the_workbench_are_understood(page, query):
    """A link in a page names its version, has no fault, and opens the run that it was written for."""
    run, problems = parse(query)
    assert not problems, [str(problem) for problem in problems]
    assert query.startswith("v=1&")
    assert set(link(run).split("&")) <= set(query.split("&"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_size_is_typed(page):
    """Sizes in prose come from the estimator, but for those that others published."""
    prose = re.sub(
        r"```.*?```|\{\{.*?\}\}|<code>.*?</code>", "", page.read_text("utf-8"), flags=re.DOTALL
    )
    assert set(SIZE.findall(prose)) <= PUBLISHED


@pytest.mark.parametrize("page", TRANSLATED, ids=name)
def test_a_translation_shows_the_numbers_of_its_original(page):
    """A translated page has the English page's live numbers, calculators and workbench links, in any order."""
    pattern = r"\{\{.*?\}\}|```\w+[^`]*```|workbench/index\.md\?[^)]+"
    ours, theirs = (
        sorted(re.findall(pattern, text.read_text("utf-8"))) for text in (page, english(page))
    )
    assert ours == theirs


def test_the_checked_runs_are_those_of_the_truth():
    """The table of checked runs gives the number of models and of runs that the files of truth hold."""
    text = (ROOT / "docs/en/how-sure.md").read_text("utf-8")
    table = dict(
        re.findall(r"^\| ([\w-]+(?: \w+)?)[^|]*\| (\d+ \| \d+) \| \d+ \|", text, flags=re.MULTILINE)
    )
    files = {
        "Llama": "llama",
        "Mistral": "mistral",
        "Qwen2": "qwen2",
        "Qwen3": "qwen3",
        "GPT-2": "gpt2",
        "GPT-NeoX": "gpt_neox",
        "OPT": "opt",
        "Phi-2": "phi",
        "Phi-3": "phi3",
        "Gemma 2": "gemma2",
        "Gemma 3": "gemma3",
        "Mixtral": "mixtral",
        "Qwen2 MoE": "qwen2_moe",
        "Qwen3 MoE": "qwen3_moe",
        "OLMoE": "olmoe",
        "DeepSeek V2": "deepseek_v2",
        "DeepSeek V3": "deepseek_v3",
    }
    found = {}
    for family, file in files.items():
        lines = (ROOT / f"tests/truth/{file}.jsonl").read_text("utf-8").splitlines()[1:]
        rows = [json.loads(line) for line in lines]
        found[family] = f"{len({row['name'] for row in rows})} | {len(rows)}"
    assert table == found
