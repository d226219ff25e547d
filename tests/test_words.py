import re
import unicodedata
import warnings

import pytest

from trainmem import words
from trainmem.estimate import estimate
from trainmem.ledger import PARTS, PHASES
from trainmem.link import parse
from trainmem.rows import KINDS
from trainmem.run import GROUPS, KEYS

PLACEHOLDER = re.compile(r"\{(\w+)\}")
BRACKETS = re.compile(r"\([^()]*\)")
EXPECTED = [
    *(f"label.{name}" for name in KEYS),
    *(f"help.{name}" for name in KEYS),
    *(f"group.{group}" for group in GROUPS),
    *(f"part.{part}" for part in PARTS),
    *(f"phase.{phase.replace(' ', '_')}" for phase in PHASES),
    *(f"verdict.{kind}" for kind in ("fits", "tight", "over", "unknown")),
    *(f"{kind}.{key}" for key in KINDS for kind in ("row", "why")),
    *sorted({f"unit.{key.unit}" for key in KEYS.values() if key.unit}),
]


@pytest.mark.parametrize("key", EXPECTED)
def test_english_has_a_text_for_each_part_of_the_interface(key):
    """Settings, groups, parts, phases and verdicts all have a name in English."""
    assert key in words.table("en")


@pytest.mark.parametrize("language", words.languages)
@pytest.mark.parametrize(
    "query",
    ["", "gpus=8&zero=3", "gpus=8&zero=2&sharding=deepspeed", "gpus=8", "tp=2", "model=gpt2", "lora_rank=8&base=nf4"],
)  # fmt: skip
def test_formulas_and_changes_are_said_in_each_language(query, language):
    """No unit of a formula, no row and no change of common runs lacks its word."""
    report = estimate(parse(query)[0])
    rows = [row for phase in report.phases for row in report.rows_at(phase)]
    units = {factor.unit for row in rows for factor in row.factors() if factor.unit}
    wanted = [
        *(f"unit.{unit}" for unit in units),
        *(f"change.{one.key}" for one in report.changes()),
    ]
    assert [key for key in wanted if key not in words.table(language)] == []


@pytest.mark.parametrize("language", ["ur", "bn"])
def test_a_translation_has_the_placeholders_of_the_english(language):
    """A translated text has each placeholder of the English one and no other, and no key of its own."""
    english = words.table("en")
    for key, text in words.table(language).items():
        assert set(PLACEHOLDER.findall(text)) == set(PLACEHOLDER.findall(english[key])), key


@pytest.mark.parametrize("language", ["ur", "bn"])
def test_missing_translations_are_reported(language):
    """What a language lacks is said in one warning; labels and verdicts may not be lacking."""
    missing = [key for key in words.table("en") if key not in words.table(language)]
    if missing:
        warnings.warn(f"{language} lacks {len(missing)}: {', '.join(missing)}", stacklevel=1)
    assert not [key for key in missing if key.startswith(("label.", "verdict.", "part.", "phase."))]


@pytest.mark.parametrize("language", words.languages)
def test_texts_are_clean(language):
    """Texts are in normal form, on one line, without straight quotes or double spaces."""
    for key, text in words.table(language).items():
        assert unicodedata.is_normalized("NFC", text), key
        assert not re.search(r'["\n\t]|  ', text), key
        assert text == text.strip() != "", key


def test_urdu_follows_its_spelling():
    """Urdu has its own letters and punctuation, Latin digits, and a full stop that is its own."""
    for key, text in words.table("ur").items():
        prose = re.sub(r"\d[\d,]*", "", BRACKETS.sub("", text))
        assert not re.search("[يكىة٠-٩۰-۹]", text), key
        assert not re.search(r"[,;?]", prose), key
        assert not re.search("[\u0600-\u06ff]-[\u0600-\u06ff]", text), key
        assert not re.search(r"[\u0600-\u06ff]\.$", text), key
        assert not re.search(r"\} \{", text), key


def test_bengali_follows_its_spelling():
    """Bengali keeps Latin digits, its own full stop, and the joiner that "rank" needs."""
    for key, text in words.table("bn").items():
        assert not re.search("[০-৯]", text), key
        assert not re.search(r"[\u0980-\u09ff]\.$", text), key
        assert not re.search("(?<!\u09cd)র্যা", text), key
        assert not re.search("করুণ|লিঙ্ক|মেমরি|ঘন্টা", text), key


def test_placeholders_are_filled_and_values_are_not_read():
    """A value that looks like a placeholder is shown as it is."""
    shown = words.text("verdict.range", low="{high}", high="9")
    assert shown == "Range: {high} to 9"


def test_a_placeholder_may_be_called_key():
    """Problems name their key: that name is free for values."""
    assert words.text("error.unknown_key_plain", "en", key="zro").startswith("zro is not a setting")


def test_a_language_falls_back_to_english_and_english_to_the_key():
    """A text that is nowhere is the last part of its key, in any language."""
    assert words.text("label.model", "xx") == "Model"
    assert words.text("choice.optimizer.new-one", "bn") == "new-one"


def test_numbers_choose_their_form():
    """One thing is one, everything else is not, zero too."""
    assert words.counted("unit.gpu_count", 1) == "1 GPU"
    assert words.counted("unit.gpu_count", 0) == "0 GPUs"
    assert words.counted("unit.gpu_count", 8, "bn") == "8টি GPU"
