"""HTML and SVG text, escaped by construction: what is not `Markup` is text, and text is escaped.

Strings are joined instead of a tree being built: mixed text and elements read as they print, nothing has to be imported,
and the element that is made most, a number, costs one formatted string.
"""

VOID = frozenset({"br", "input"})
THIN_SPACE = "\u202f"
MINUS = "\u2212"
_OPEN, _CLOSE = "\ue000", "\ue001"  # private use: they mark where markup goes into a sentence


class Markup(str):
    """Text that is markup already. Only this module, and constants of the package, make it."""

    __slots__ = ()


def escape(text: object) -> str:
    """Text as it may stand in an element or in a double-quoted attribute; markup passes."""
    if type(text) is Markup:
        return text
    plain = str(text)
    if "&" in plain:
        plain = plain.replace("&", "&amp;")
    if "<" in plain:
        plain = plain.replace("<", "&lt;")
    if ">" in plain:
        plain = plain.replace(">", "&gt;")
    if '"' in plain:
        plain = plain.replace('"', "&quot;")
    return plain


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """One element.

    `class_` becomes class and `aria_label` aria-label; None and False leave an attribute out, True leaves it empty.
    """
    parts = ["<", tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        text = "" if value is True else escape(str(value))
        parts.append(f' {_attribute(key)}="{text}"')
    parts.append(">")
    if tag not in VOID:
        parts += [child if type(child) is Markup else inside(child) for child in children]
        parts.append(f"</{tag}>")
    return Markup("".join(parts))


_ATTRIBUTES: dict[str, str] = {}


def _attribute(key: str) -> str:
    """The attribute that a keyword stands for; the program's own keywords are few, so each is worked out once."""
    name = _ATTRIBUTES.get(key)
    if name is None:
        name = _ATTRIBUTES[key] = key.rstrip("_").replace("_", "-")
    return name


def inside(child: object) -> str:
    """A child of an element as text: None is nothing, tuples and lists are opened, everything else is escaped."""
    if isinstance(child, list | tuple):
        return "".join([inside(one) for one in child])
    return "" if child is None else escape(child)


def fragment(*children: object) -> Markup:
    """Elements and text side by side."""
    return Markup(inside(children))


def number(text: str, unit: str = "", extra: str = "") -> Markup:
    """A number as one thing: never reversed, never broken, its unit small beside it."""
    shown = f'<span class="u">{THIN_SPACE}{escape(unit)}</span>' if unit else ""
    more = f" {escape(extra)}" if extra else ""
    return Markup(f'<bdi dir="ltr" class="tm-n{more}">{escape(text)}{shown}</bdi>')


def stand_ins(values: dict[str, Markup]) -> dict[str, str]:
    """For each value a marker that passes unharmed through the formatting of a translated sentence."""
    return {name: f"{_OPEN}{name}{_CLOSE}" for name in values}


def fill(sentence: str, values: dict[str, Markup]) -> Markup:
    """The sentence, escaped, with its markers replaced by the markup that they stand for."""
    text = escape(str(sentence))
    for name, value in values.items():
        text = text.replace(f"{_OPEN}{name}{_CLOSE}", value)
    return Markup(text)


def isolate(text: str) -> str:
    """A number inside a right-to-left SVG label, where no element can isolate it."""
    return f"\u2066{text}\u2069"
