"""The site: a mkdocs build for each language, then fonts, scripts and the runtime put beside them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from devtools.machine import PYTHON
from devtools.serve import public_url
from devtools.steps import CACHE, ROOT, Stamp, StepError, files, run, step
from sitebuild import fence, runtime

if TYPE_CHECKING:
    from pathlib import Path

SITE = ROOT / "site"
NEW = CACHE / "site"  # built there and moved when all went well, so the site is never half there
LANGUAGES = ("en", "ur", "bn")
OWN = ("assets/css", "assets/fonts", "js")  # one copy serves every language
FONTS = (
    "source-serif-4-latin-400-normal",
    "source-serif-4-latin-400-italic",
    "source-serif-4-latin-600-normal",
    "source-sans-3-latin-400-normal",
    "source-sans-3-latin-600-normal",
    "source-code-pro-latin-400-normal",
    "noto-nastaliq-urdu-arabic-400-normal",
    "noto-naskh-arabic-arabic-400-normal",
    "noto-naskh-arabic-arabic-600-normal",
    "noto-serif-bengali-bengali-400-normal",
    "noto-sans-bengali-bengali-400-normal",
    "noto-sans-bengali-bengali-600-normal",
)
FAMILIES = (
    "source-serif-4",
    "source-sans-3",
    "source-code-pro",
    "noto-nastaliq-urdu",
    "noto-naskh-arabic",
    "noto-serif-bengali",
    "noto-sans-bengali",
)


def build() -> bool:
    """Build the site unless it is up to date; say whether anything was made."""
    made = runtime.build()
    inputs = files("docs", "py", "package-lock.json", "requirements/site.txt", "LICENSE")
    configs = files(*(_config(language) for language in LANGUAGES))
    addresses = (public_url(), fence.repository())
    stamp = Stamp("site", [*inputs, *configs, made / "worker.js"], *addresses)
    if stamp.fresh(SITE / "index.html", *(SITE / code / "index.html" for code in LANGUAGES[1:])):
        return False
    stamp.path.unlink(missing_ok=True)
    for language in LANGUAGES:
        with step(f"build the pages, {language}"):
            _pages(language)
    with step("add fonts and the browser's Python"):
        _finish()
        _swap()
    stamp.set()
    return True


def _config(language: str) -> str:
    return "mkdocs.yml" if language == "en" else f"mkdocs.{language}.yml"


def _pages(language: str) -> None:
    env = {
        "SITE_URL": public_url(),
        "PYTHONPATH": str(ROOT / "py"),
        "SOURCE_DATE_EPOCH": "315532800",  # 1980: the same pages give the same bytes
        "NO_MKDOCS_2_WARNING": "1",
    }
    if language != "en":
        code = language.upper()
        env |= {
            f"SITE_URL_{code}": f"{public_url()}{language}/",
            f"DOCS_{code}": str(pages(language)),
        }
    try:
        target = NEW if language == "en" else NEW / language
        mkdocs: list[str | Path] = [PYTHON, "-m", "mkdocs", "build", "-q", "-d", target]
        run([*mkdocs, "-f", _config(language)], env=env)
    except StepError as error:
        raise StepError(_sentences(str(error))) from error


def _sentences(log: str) -> str:
    """Return what a writer needs of a failed build's log: the lines that name pages."""
    lines = [line for line in log.splitlines() if line.startswith(("ERROR", "WARNING"))]
    return "\n".join(lines) or log


def pages(language: str) -> Path:
    """Gather a language's pages, the English ones marked and in place of those not translated."""
    target = CACHE / "docs" / language
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs/en", target)
    for page in target.rglob("*.md"):
        page.write_text(marked(page.read_text("utf-8")), "utf-8")
    shutil.copytree(ROOT / "docs" / language, target, dirs_exist_ok=True)
    return target


def marked(page: str) -> str:
    """Return a page with `untranslated: true` in its front matter."""
    if page.startswith("---\n"):
        return page.replace("---\n", "---\nuntranslated: true\n", 1)
    return f"---\nuntranslated: true\n---\n{page}"


def _finish() -> None:
    for language in LANGUAGES[1:]:
        for name in OWN:
            shutil.rmtree(NEW / language / name, ignore_errors=True)
    (NEW / "assets/fonts").mkdir(parents=True, exist_ok=True)
    for font in FONTS:
        family = next(name for name in FAMILIES if font.startswith(f"{name}-"))
        name = f"{font}.woff2"
        source = ROOT / "node_modules/@fontsource" / family / "files" / name
        shutil.copyfile(source, NEW / "assets/fonts" / name)
    shim = ROOT / "node_modules/iframe-worker/shim/index.js"
    shutil.copyfile(shim, NEW / "js/iframe-worker-shim.js")
    for family in FAMILIES:
        licence = ROOT / "node_modules/@fontsource" / family / "LICENSE"
        shutil.copyfile(licence, NEW / "assets/fonts" / f"{family}-LICENSE.txt")
    runtime.install(NEW)


def _swap() -> None:
    old = CACHE / "site-old"
    shutil.rmtree(old, ignore_errors=True)
    if SITE.exists():
        SITE.rename(old)
    NEW.rename(SITE)
    shutil.rmtree(old, ignore_errors=True)
