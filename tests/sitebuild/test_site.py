"""The pages of a language, the packed files, the zips."""

import base64
import gzip
import json
import os
import zipfile

from sitebuild import archive, runtime, site
from trainmem import words


def test_english_page_is_marked():
    """An English page in another language's build says so in its front matter."""
    assert site.marked("# A\n").startswith("---\nuntranslated: true\n---\n# A")
    assert site.marked("---\ntitle: A\n---\n# A").startswith("---\nuntranslated: true\ntitle: A\n")


def test_pages_of_a_language_are_complete(root):
    """Each language has every English page: its own where there is one, else the marked English."""
    english = {path.relative_to(root / "docs/en") for path in (root / "docs/en").rglob("*.md")}
    assert english
    for language in site.LANGUAGES[1:]:
        pages = site.pages(language)
        assert english <= {path.relative_to(pages) for path in pages.rglob("*.md")}
        for name in english:
            own = (root / "docs" / language / name).exists()
            text = (pages / name).read_text("utf-8")
            assert own != ("untranslated: true" in text)


def test_every_language_has_the_same_pages_in_the_site():
    """A language link never leads nowhere."""
    pages = {
        language: {path.relative_to(folder) for path in folder.rglob("*.html")}
        for language in site.LANGUAGES[1:]
        for folder in [site.SITE / language]
    }
    english = {path.relative_to(site.SITE) for path in site.SITE.rglob("*.html")}
    english = {path for path in english if path.parts[0] not in site.LANGUAGES}

    assert len(english) > 4
    for found in pages.values():
        assert english == found


def test_no_fence_or_expression_is_left_in_a_page():
    """Everything between braces and every fence became what it stands for."""
    for page in site.SITE.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "{{ " not in text.replace("<code>{{ ", ""), page
        assert "```" not in text, page


def test_search_leaves_calculators_out():
    """What calculators say is not in the search index, however deep their elements are nested."""
    for language in site.LANGUAGES:
        folder = site.SITE if language == "en" else site.SITE / language
        pages = json.loads((folder / "search/search_index.json").read_text("utf-8"))["docs"]
        assert len(pages) > 10
        changed = words.text("status.changed", language)
        assert changed in (folder / "workbench/index.html").read_text("utf-8")
        assert [] == [page["location"] for page in pages if changed in page["text"]]


def test_pack_holds_the_file():
    """A pack's script hands over the very bytes of its file."""
    for name in runtime.FILES:
        text = (runtime.RUNTIME / "pack" / f"{name}.js").read_text()
        assert text.startswith(f'tmPack("{name}","')
        packed = base64.b64decode(text.split('"')[3])
        assert (runtime.RUNTIME / name).read_bytes() == gzip.decompress(packed)


def test_runtime_keeps_its_budget():
    """What the browser downloads to run Python is at most 5.1 MB, gzipped."""
    sizes = [len(gzip.compress((runtime.RUNTIME / name).read_bytes(), 9)) for name in runtime.FILES]

    assert sum(sizes) <= 5_100_000


def test_zip_is_reproducible(tmp_path):
    """The same files give the same zip, whenever and in whatever order they were written."""
    made = []
    for turn, names in enumerate([("b", "a"), ("a", "b")]):
        folder = tmp_path / str(turn)
        (folder / "sub").mkdir(parents=True)
        for name in names:
            (folder / "sub" / name).write_text(name)
            os.utime(folder / "sub" / name, (turn * 10**6, turn * 10**6))
        archive.folder(tmp_path / f"{turn}.zip", folder, "top/")
        made.append((tmp_path / f"{turn}.zip").read_bytes())

    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "0.zip") as found:
        assert ["top/sub/a", "top/sub/b"] == found.namelist()
