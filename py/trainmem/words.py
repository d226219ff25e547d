"""The words of the interface in each language, from data/words/.

A text is one whole sentence or label with `{placeholders}`; nothing is ever joined from translated
pieces. What a translation lacks falls back to English, and a key that is nowhere to its last part,
so that a forgotten word never breaks a page.
"""

from trainmem.tables import load

languages = ("en", "ur", "bn")
RIGHT_TO_LEFT = frozenset({"ur"})

_tables: dict[str, dict[str, str]] = {}


def table(language: str) -> dict[str, str]:
    """All texts of one language by their keys; a language that we don't have has none."""
    if language not in _tables:
        known = language in languages
        lines = load(f"words/{language}.toml").splitlines() if known else []
        pairs = (line.partition(" = ") for line in lines if line.startswith('"'))
        _tables[language] = {key[1:-1]: value[1:-1] for key, _, value in pairs}
    return _tables[language]


def has(key: str, language: str = "en") -> bool:
    """Whether a language, or English in its place, has a text for a key."""
    return key in table(language) or key in table("en")


def template(key: str, language: str = "en") -> str:
    """The text of a key as it is written, with its placeholders."""
    found = table(language).get(key) or table("en").get(key)
    return found or key.rpartition(".")[2]


def text(key: str, /, language: str = "en", **values: object) -> str:
    """A text of the interface with its placeholders filled, for instance "Range: 57.0 to 66.0 GiB".

    A placeholder for which no value is given stays as it is. Values are never read as templates.
    """
    sentence = template(key, language)
    if "{" not in sentence:
        return sentence
    head, *rest = sentence.split("{")
    filled = [head]
    for piece in rest:
        name, _, after = piece.partition("}")
        filled += (str(values.get(name, "{" + name + "}")), after)
    return "".join(filled)


def counted(key: str, /, n: int, language: str = "en", **values: object) -> str:
    """The text of `key.one` where n is 1, else of `key.other`; `{n}` is filled too."""
    form = "one" if n == 1 else "other"
    return text(f"{key}.{form}", language, **{"n": n, **values})


def unit(name: str, value: object, language: str = "en") -> str:
    """The unit beside a value: 1 sequence, 2 sequences. A value that is written already counts as it stands."""
    one = f"unit.{name}.one"
    return text(one if value in (1, "1") and has(one, language) else f"unit.{name}", language)
