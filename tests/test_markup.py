"""The builder of elements: whatever is text stays text."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from trainmem.markup import Markup, element, fill, fragment, number, stand_ins

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@given(TEXT, TEXT)
def test_any_text_comes_back_as_text(inside, value):
    """Whatever is put into an element or an attribute is read from it again, character for character."""
    read = ElementTree.fromstring(element("p", inside, title=value))
    assert (read.text or "", read.get("title")) == (inside, value)
    assert len(read) == 0


def test_markup_passes_and_text_does_not():
    """An element inside an element stays one; the same characters as text are escaped."""
    inner = element("b", "x")
    assert element("p", inner, "<b>x</b>") == "<p><b>x</b>&lt;b&gt;x&lt;/b&gt;</p>"


def test_markup_in_an_attribute_is_text():
    """Markup was made for a place between tags: in an attribute it is escaped like any text."""
    assert element("p", title=element("b", "x")) == '<p title="&lt;b&gt;x&lt;/b&gt;"></p>'


def test_attributes_that_are_absent_or_bare():
    """None and False leave an attribute out, True writes it without a value; names get their hyphens."""
    made = element(
        "input", type_="text", aria_label=None, hidden=True, checked=False, data_key="seq"
    )
    assert made == '<input type="text" hidden="" data-key="seq">'


def test_sentences_take_elements():
    """A translated sentence is escaped, and only its own markers become elements."""
    values = {"need": number("62.5"), "usable": number("79.1", "GiB")}
    sentence = "{need} < {usable}".format(**stand_ins(values))
    filled = fill(sentence, values)
    assert " &lt; " in filled
    assert filled.startswith('<bdi dir="ltr" class="tm-n">62.5</bdi>')
    assert type(filled) is Markup


def test_fragment_opens_lists():
    """Lists of elements and missing elements may be given as they are."""
    assert fragment([element("i"), None, ["a", "&"]]) == "<i></i>a&amp;"
