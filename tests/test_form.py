"""The settings of a page: every key has a field, and what a field shows can be read again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmem import form, words
from trainmem.form import Form
from trainmem.link import link, parse
from trainmem.run import KEYS, Run

ALL = set(KEYS) - form.HIDDEN


def built(run=None, language="en"):
    return "".join(form.groups(Form(run or Run(), Run(), language, "calc-1"), {}))


@pytest.mark.parametrize("language", words.languages)
def test_every_setting_has_a_field(language):
    """Each key of a run can be reached in the form, in every language, with a name that is no key."""
    html = built(language=language)
    assert set(re.findall(r'data-key="([^"]+)"', html)) == ALL
    assert set(re.findall(r' name="([^"]+)"', html)) == ALL
    for name in ALL:
        assert words.has(f"label.{name}", language)


def test_rare_settings_are_folded():
    """Only the settings that most readers want are in sight; a rare one that is set opens its fold."""
    assert " open=" not in built()
    opened = re.findall(
        r'<details class="tm-more" open="">(.*?)</details>', built(Run().but(bucket=1000))
    )
    assert len(opened) == 1
    assert 'data-key="bucket"' in opened[0]


def test_every_choice_has_words():
    """Each choice of each closed list is put in words."""
    missing = [
        f"{name}={value}"
        for name, key in KEYS.items()
        for value in key.choices
        if not (words.has(f"choice.{name}.{value}") or value in form.SHARED)
    ]
    assert missing == []


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "seq": st.integers(1, 1 << 27),
            "bucket": st.integers(1, 1 << 40),
            "usable": st.integers(1 << 20, 1 << 50),
            "headroom": st.integers(0, 9000).map(lambda hundredths: hundredths / 100),
            "layers": st.none() | st.integers(1, 2048),
            "ecc": st.booleans(),
        },
    )
)
def test_what_a_box_shows_means_the_same_run(changes):
    """The text in each box, sent back as it stands, gives the value that it shows."""
    run = Run().but(**changes)
    boxes = "&".join(f"{name}={form.shown(KEYS[name], getattr(run, name))}" for name in changes)
    read, problems = parse(boxes)
    assert problems == []
    assert link(read) == link(run)


def test_state_tells_what_differs_from_the_pages_default():
    """After a change the page hears which boxes differ from its default and where its sliders stand."""
    base, _ = parse("gpus=8&seq=4096")
    told = form.state(base.but(seq=8192, gpus=1), base)
    assert told["changed"] == {"seq": "8,192", "gpus": "1"}
    assert form.STEPS["seq"][told["sliders"]["seq"]] == 8192


@pytest.mark.parametrize("language", words.languages)
def test_one_is_one(language):
    """Beside 1 a unit is in the singular, beside other numbers it is not, and every language has both."""
    for key in KEYS.values():
        if words.has(f"unit.{key.unit}.one", "en"):
            assert f"unit.{key.unit}.one" in words.table(language)
            assert words.unit(key.unit, 1, language) == words.text(f"unit.{key.unit}.one", language)
            assert words.unit(key.unit, 2, language) == words.text(f"unit.{key.unit}", language)
    assert form.described(KEYS["gpus"], 1, "en") == "1 GPU"
    assert form.described(KEYS["micro_batch"], 4, "en") == "4 sequences"


@pytest.mark.parametrize(("value", "stop"), [(1, 128), (8192, 8192), (6000, 8192), (10**9, 131072)])
def test_sliders_stop_at_the_nearest_power(value, stop):
    """A slider stands at the stop nearest to the value, also beyond its ends."""
    steps = form.STEPS["seq"]
    assert steps[form.nearest(steps, value)] == stop


def test_fields_are_named_for_screen_readers():
    """Every control has a label, every group a legend, every reset says what it goes back to."""
    html = built()
    labelled = set(re.findall(r'<label for="([^"]+)"', html))
    for identity in re.findall(r'<(?:select|input) id="([^"]+)"', html):
        assert identity in labelled
    for identity in re.findall(r'aria-labelledby="([^"]+)"', html):
        assert f'id="{identity}"' in html
    assert re.search(r'aria-label="[^"]*Sequence length[^"]*2,048 tokens[^"]*"', html)
