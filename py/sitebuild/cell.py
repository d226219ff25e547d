r"""Python-Markdown: a Python cell that the reader can edit.

    ```cell
    import trainmem
    print(trainmem.parse("model=llama-2-7b")[0].model)
    ```

The cell is run when the site is built and its output stands under it, so the page says something
without JavaScript and from a folder; on a web server docs/theme/js/playground.js puts an editor in
its place. A cell that raises stops the build.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sitebuild.fence import LiveNumberError

if TYPE_CHECKING:
    from markdown import Markdown


def output(source: str) -> str:
    """Run a cell and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, "cell", "exec"), {"__name__": "__main__"})  # noqa: S102  (our pages)
    return printed.getvalue()


def cell(
    source: str,
    language: str,
    css_class: str,
    options: dict[str, Any],
    md: Markdown,
    **_more: object,
) -> str:
    """Render a cell: the code, and what it printed when the site was built."""
    del language, css_class, options, md
    try:
        text = output(source)
    except Exception as error:
        raise LiveNumberError(f"```cell: {error!r} in\n{source}") from error
    root = ElementTree.Element("div", {"class": "tm-embed", "lang": "en", "dir": "ltr"})
    holder = ElementTree.SubElement(root, "tm-playground")
    code = ElementTree.SubElement(ElementTree.SubElement(holder, "pre"), "code")
    code.set("class", "tm-cell__code")
    code.text = source.strip() + "\n"
    shown = ElementTree.SubElement(ElementTree.SubElement(holder, "pre"), "samp")
    shown.set("class", "tm-cell__output")
    shown.text = text
    return ElementTree.tostring(root, encoding="unicode", method="html")
