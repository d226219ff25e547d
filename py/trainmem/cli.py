"""The command line: what the page computes, in a terminal.

    trainmem estimate "model=llama-2-13b&gpus=8&zero=3"
    trainmem https://…/workbench/?v=1&model=llama-2-13b
    trainmem search "model=llama-3.1-8b" --gpus 8
    trainmem compare A B · models · gpus · optimizers · link

Exit codes: 0 fits, 1 tight or no verdict, 3 does not fit, 2 the input had a fault (it is named on
stderr, and the answer with defaults in its place is still printed).
"""

# ruff: noqa: PLC0415  imports stand where they are needed: a call pays only for what it uses

import os
import sys
from typing import TYPE_CHECKING

import trainmem
from trainmem import arguments, words
from trainmem.arguments import Asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainmem.estimate import Report
    from trainmem.link import Problem
    from trainmem.run import Run

SITE = "https://training-memory.github.io/training-memory/"  # TRAINMEM_SITE names another
EXIT_CODES = {"fits": 0, "tight": 1, "over": 3, "unknown": 1}
BAD_INPUT = 2


def site() -> str:
    """The address of the site that links lead to: TRAINMEM_SITE, else the published one."""
    return os.environ.get("TRAINMEM_SITE", SITE).rstrip("/") + "/"


def page_link(query: str, language: str = "en") -> str:
    """The address of the workbench with a run in it."""
    folder = "" if language == "en" else f"{language}/"
    return f"{site()}{folder}workbench/?{query}"


def query_of(texts: "Sequence[str]") -> str:
    """The query in what was given: key=value words, a query string, a whole link, or a model's name."""
    text = "&".join(text.strip() for text in texts)
    text = text.partition("#")[0].replace("&amp;", "&")
    before, mark, query = text.partition("?")
    if mark:
        return query
    if "://" in before:
        return ""
    first = text.partition("&")[0]
    return text if "=" in first or not first else f"model={text}"


# Commands


def _read(texts: "Sequence[str]") -> "tuple[Run, list[Problem]]":
    from trainmem.link import parse

    return parse(query_of(texts))


def _complain(problems: "list[Problem]", language: str) -> None:
    for problem in problems:
        print(problem.sentence(language), file=sys.stderr)


def _estimate(asked: Asked) -> int:
    from trainmem.estimate import estimate
    from trainmem.link import link

    run, problems = _read(asked.given)
    report = estimate(run)
    page = page_link(link(run), asked.lang)
    if asked.svg:
        _write(asked.svg, _svg(report, page, asked.lang))
    if asked.svg != "-":
        print(_shown(report, page, problems, asked), end="")
    _complain(problems, asked.lang)
    return BAD_INPUT if problems else EXIT_CODES[report.verdict.kind]


def _shown(report: "Report", page: str, problems: "list[Problem]", asked: Asked) -> str:
    """The report in the form that was asked for."""
    from trainmem import text

    if asked.form == "json":
        import json

        return json.dumps(text.as_dict(report, page, problems), ensure_ascii=False, indent=2) + "\n"
    if asked.form == "markdown":
        return text.markdown(report, page, asked.lang)
    if asked.form == "csv":
        return text.csv(report, asked.lang)
    from trainmem.terminal import Ink, terminal

    command = f'trainmem estimate "{page.partition("?")[2]}"'
    return terminal(report, page, command, asked.lang, Ink(colored=_colored()))


def _colored() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _svg(report: "Report", page: str, language: str) -> str:
    from trainmem import chart, scene
    from trainmem.plot import Style

    shown = scene.Scene(report, Style(language, report.run.units), "", "")
    return chart.document(
        scene.load_of(report), shown.style, scene.heading(shown), scene.say(shown), page
    )


def _write(path: str, content: str) -> None:
    if path == "-":
        print(content, end="")
        return
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  pathlib costs 3 ms to import
        file.write(content)


def _compare(asked: Asked) -> int:
    from trainmem.estimate import estimate
    from trainmem.link import link
    from trainmem.terminal import compare

    runs: list[Run] = []
    problems: list[Problem] = []
    for query in asked.given:
        run, found = _read([query])
        runs.append(run)
        problems += found
    print(compare(estimate(runs[0]), estimate(runs[1]), asked.lang))
    for letter, run in zip("AB", runs, strict=True):
        print(f"{letter}: {page_link(link(run), asked.lang)}")
    _complain(problems, asked.lang)
    return BAD_INPUT if problems else 0


def _search(asked: Asked) -> int:
    from trainmem import found
    from trainmem.search import ranked, search, smallest

    run, problems = _read(asked.given)
    gpus, batch = asked.numbers.get("gpus", run.gpus), asked.numbers.get("global-batch")
    best = ranked(search(run, gpus, batch))
    shown = found.Found(run, gpus, batch, best, smallest(run))
    say = found.as_json if asked.form == "json" else found.table
    print(say(shown, page_link, asked.numbers.get("limit", 12), asked.lang), end="")
    _complain(problems, asked.lang)
    kinds = {candidate.best.kind for candidate in best} or {"over"}
    return BAD_INPUT if problems else min(EXIT_CODES[kind] for kind in kinds)


def _link(asked: Asked) -> int:
    from trainmem.link import link

    run, problems = _read(asked.given)
    print(page_link(link(run), asked.lang))
    _complain(problems, asked.lang)
    return BAD_INPUT if problems else 0


def _listed(asked: Asked) -> int:
    from trainmem import listings

    wanted = "".join(asked.given)
    rows = listings.LISTS[asked.command](wanted.lower(), asked.lang)
    if not rows:
        from trainmem.link import shown

        print(words.text("list.none", asked.lang, given=shown(wanted)), file=sys.stderr)
        return BAD_INPUT
    from trainmem.terminal import aligned

    print(aligned(rows), end="")
    return 0


COMMANDS = {
    "estimate": _estimate,
    "compare": _compare,
    "search": _search,
    "link": _link,
    "models": _listed,
    "gpus": _listed,
    "optimizers": _listed,
}


def main(given: "Sequence[str] | None" = None) -> int:
    """Run one command and return its exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    asked = list(sys.argv[1:] if given is None else given)
    if asked[:1] == ["--version"]:
        print(f"trainmem {trainmem.__version__}")
        return 0
    try:
        code = _run(arguments.read(asked))
        sys.stdout.flush()
    except arguments.UsageError as error:
        print(f"trainmem: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe has gone, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"trainmem: {error.filename}: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    return code


def _run(asked: Asked) -> int:
    if asked.help:
        print(arguments.usage(asked.command) if asked.command else arguments.overview(), end="")
        return 0
    return COMMANDS[asked.command](asked)
