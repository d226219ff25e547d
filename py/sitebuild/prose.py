"""Tables in prose: each in an element that scrolls by itself, and no heading without words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markdown.treeprocessors import Treeprocessor

from trainmem import words

if TYPE_CHECKING:
    from markdown import Markdown


class Tables(Treeprocessor):
    """Wraps each table of a page in `<tm-table>`, whose script says when there is something to scroll to."""

    def __init__(self, md: Markdown, language: str) -> None:
        super().__init__(md)
        self.language = language

    def run(self, root: ElementTree.Element) -> None:
        parents = {child: parent for parent in root.iter() for child in parent}
        for table in [one for one in root.iter("table") if not one.get("class")]:
            for cell in table.iter("th"):
                if not "".join(cell.itertext()).strip():
                    cell.tag = "td"  # an empty heading names nothing
            table.set("class", "tm-prose")
            parent = parents[table]
            frame = ElementTree.Element(
                "tm-table",
                {
                    "class": "tm-scroll",
                    "data-label": words.text("table.wide", self.language),
                    "data-hint": words.text("table.scroll", self.language),
                },
            )
            frame.tail, table.tail = table.tail, None
            place = list(parent).index(table)
            parent.remove(table)
            frame.append(table)
            parent.insert(place, frame)
