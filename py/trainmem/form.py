"""The settings as HTML: a field for each key of a run, in the groups of the link's vocabulary.

A control carries the name of its key and nothing else that a script must understand. What changes with a keystroke (which
fields differ from the default, what their boxes show) is told by `state`, so the form is built once a page.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trainmem import catalog, units, words
from trainmem.markup import Markup, element
from trainmem.run import DIMENSIONS, GROUPS, KEYS, Key, Run

PLAIN = frozenset({
    "model", "precision", "optimizer", "micro_batch", "seq", "checkpointing", "lora_rank", "offload", "gpus", "zero",
    "tp", "gpu", "headroom", "units",
})  # fmt: skip
"""Keys that are always in sight; the others of each group fold under "more"."""

HIDDEN = frozenset({"embed"})
STEPS = {
    "seq": tuple(2**power for power in range(7, 18)),
    "micro_batch": tuple(2**power for power in range(8)),
}
"""Where the sliders stop; the boxes beside them take any number."""

CATALOGS = {"model": "models", "gpu": "gpus"}
LONGEST_SEGMENTS = 30  # characters of all choices that still fit side by side
RESET = Markup(
    '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 8a5 5 0 1 0 2-4M3 2v4h4"></path></svg>'
)
MIB = 2**20


class Form(NamedTuple):
    """What a form shows: the run, the run that counts as its default, the language, and the prefix of its ids."""

    run: Run
    base: Run
    language: str
    identity: str

    def word(self, key: str, **values: str) -> str:
        """A string of the interface."""
        return words.text(key, self.language, **values)

    def label(self, key: Key) -> str:
        """The name of a setting."""
        return words.text(f"label.{key.name}", self.language)


def shown(key: Key, value: object) -> str:
    """A value as it stands in its box; reading it gives the same value again."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if key.kind.endswith("bytes") and isinstance(value, int):
        return f"{value // MIB:,} MiB" if value % MIB == 0 else f"{value:,} B"
    if isinstance(value, int | float):
        return units.plain(value)
    return str(value)


SHARED = {"": "value.preset", "auto": "value.auto", "1": "value.on", "0": "value.off"}
"""Words of choices that mean the same for every key."""


def choice(key: Key, value: str, language: str) -> str:
    """A choice in words, or as it stands in a link where nobody has put it in words."""
    own = f"choice.{key.name}.{value}"
    shared = SHARED.get(value, "")
    found = own if words.has(own, language) else shared
    return words.text(found, language) if found else value


def described(key: Key, value: object, language: str) -> str:
    """A value in words, for a sentence or a printed list."""
    text = shown(key, value)
    if key.name in CATALOGS:
        return str(catalog.entry(CATALOGS[key.name], text)["name"]) if text else text
    if key.kind == "flag":
        return words.text("value.on" if value else "value.off", language)
    if key.kind == "choice":
        return choice(key, text, language)
    if not text:
        return words.text("value.auto", language)
    return f"{text} {words.unit(key.unit, value, language)}" if key.unit else text


def state(run: Run, base: Run, language: str = "en") -> dict[str, Any]:
    """What a form must show after a change: texts of the boxes that differ from the default, units, slider positions."""
    changed = {
        name: shown(key, getattr(run, name))
        for name, key in KEYS.items()
        if getattr(run, name) != getattr(base, name)
    }
    sliders = {name: nearest(steps, getattr(run, name)) for name, steps in STEPS.items()}
    told = {
        name: words.unit(key.unit, getattr(run, name), language)
        for name, key in KEYS.items()
        if key.unit
    }
    return {"changed": changed, "sliders": sliders, "units": told}


def nearest(steps: Sequence[int], value: float) -> int:
    """The stop of a slider that is nearest to a value, on the logarithmic scale that the stops are on."""
    value = max(value, 1e-9)
    return min(range(len(steps)), key=lambda at: max(steps[at] / value, value / steps[at]))


def dimensions(run: Run, model: object) -> dict[str, str]:
    """What the model's own boxes show while they are empty: the figures of the preset."""
    found = {}
    for name in DIMENSIONS:
        value = getattr(model, name, None)
        if KEYS[name].kind.startswith("optional") and value is not None:
            found[name] = shown(KEYS[name], value)
    return found if run.model else {}


# Fields


def groups(form: Form, hints: dict[str, str]) -> list[Markup]:
    """All settings, group by group, the rare ones folded."""
    found = []
    for group in GROUPS:
        keys = [key for key in KEYS.values() if key.group == group and key.name not in HIDDEN]
        plain = [field(form, key, hints) for key in keys if key.name in PLAIN]
        rare = [key for key in keys if key.name not in PLAIN]
        if plain or rare:
            legend = element("legend", form.word(f"group.{group}"))
            found.append(element(
                "fieldset", legend, element("div", plain, _more(form, rare, hints)), class_="tm-group"
            ))  # fmt: skip
    return found


def _more(form: Form, keys: list[Key], hints: dict[str, str]) -> Markup | None:
    if not keys:
        return None
    is_open = any(getattr(form.run, key.name) != getattr(form.base, key.name) for key in keys)
    fields = [field(form, key, hints) for key in keys]
    summary = element("summary", form.word("button.more"))
    return element("details", summary, *fields, class_="tm-more", open=is_open)


def field(form: Form, key: Key, hints: dict[str, str]) -> Markup:
    """One setting: dot, name, question mark; control; reset; slider, help, error."""
    value, default = getattr(form.run, key.name), getattr(form.base, key.name)
    identity = f"{form.identity}-{key.name}"
    options = _options(form, key)
    segmented = options is not None and _fit_side_by_side(options)
    wide = options is not None or key.kind == "preset"
    helped = _help(form, key)
    control = _segments(form, key, options or []) if segmented else _box(form, key, options, hints)
    return element(
        "div",
        _label(form, key, segmented=segmented, helped=bool(helped)),
        control,
        _reset(form, key),
        _slider(form, key),
        element("p", helped, class_="tm-hint", id=f"{identity}-h", hidden=True) if helped else None,
        element("p", class_="tm-error", id=f"{identity}-e", hidden=True),
        class_="tm-field tm-field--wide" if wide else "tm-field",
        data_key=key.name,
        data_default=shown(key, default),
        data_changed=value != default,
    )


def _help(form: Form, key: Key) -> str:
    own = f"help.{key.name}"
    return form.word(own) if words.has(own, form.language) else ""


def _label(form: Form, key: Key, *, segmented: bool, helped: bool) -> Markup:
    identity = f"{form.identity}-{key.name}"
    name = form.label(key)
    changed = element("span", " ", form.word("status.changed"), class_="tm-vh tm-if-changed")
    if segmented:
        title = element("span", name, changed, id=f"{identity}-l")
    else:
        title = element("label", name, changed, for_=identity)
    about = element(
        "button", "?", type="button", class_="tm-help", aria_expanded="false",
        aria_controls=f"{identity}-h", aria_label=form.word("form.about", label=name),
    ) if helped else None  # fmt: skip
    return element(
        "span",
        element("span", class_="tm-dotmark", aria_hidden="true"),
        title,
        about,
        class_="tm-label",
    )


def _options(form: Form, key: Key) -> list[tuple[str, str]] | None:
    """(value, text) of a closed list; None for a box that is typed into."""
    if key.kind == "flag":
        return [(value, form.word(f"value.{word}")) for value, word in (("0", "off"), ("1", "on"))]
    if key.kind == "choice":
        return [(value, choice(key, value, form.language)) for value in key.choices]
    return None


def _fit_side_by_side(options: list[tuple[str, str]]) -> bool:
    return len(options) <= 4 and sum(len(text) + 2 for _, text in options) <= LONGEST_SEGMENTS


def _segments(form: Form, key: Key, options: list[tuple[str, str]]) -> Markup:
    identity, current = f"{form.identity}-{key.name}", shown(key, getattr(form.run, key.name))
    labels = []
    for value, text in options:
        radio = element("input", type="radio", name=key.name, value=value, checked=value == current)
        labels.append(element("label", radio, element("span", text)))
    return element(
        "div", *labels, class_="tm-seg", role="radiogroup", aria_labelledby=f"{identity}-l"
    )


def _box(
    form: Form, key: Key, options: list[tuple[str, str]] | None, hints: dict[str, str]
) -> Markup:
    identity, current = f"{form.identity}-{key.name}", shown(key, getattr(form.run, key.name))
    described = f"{identity}-h {identity}-e"
    if key.kind == "preset" or options is not None:
        inside = _catalog(key, current) if options is None else _choices(options, current)
        box = element(
            "select", inside, id=identity, name=key.name, aria_describedby=described,
            data_preset=key.kind == "preset",
        )  # fmt: skip
        return element("span", box, class_="tm-control")
    numeric = not key.kind.endswith(("list", "bytes"))
    box = element(
        "input", id=identity, name=key.name, type="text", value=current, autocomplete="off", spellcheck="false",
        inputmode="decimal" if key.kind.endswith("number") else "numeric" if numeric else None,
        placeholder=hints.get(key.name), aria_describedby=described, class_="tm-ltr",
    )  # fmt: skip
    value = getattr(form.run, key.name)
    beside = (
        element("span", words.unit(key.unit, value, form.language), class_="tm-unit")
        if key.unit
        else None
    )
    return element("span", box, beside, class_="tm-control")


def _choices(options: list[tuple[str, str]], current: str) -> list[Markup]:
    return [
        element("option", text, value=value, selected=value == current) for value, text in options
    ]


def _catalog(key: Key, current: str) -> list[Markup]:
    """The entries of the catalog, family by family."""
    return [
        element("optgroup", _choices(list(entries), current), label=family)
        for family, entries in catalog.families(CATALOGS[key.name])
    ]


def _reset(form: Form, key: Key) -> Markup:
    text = described(key, getattr(form.base, key.name), form.language)
    title = form.word("form.reset", label=form.label(key), default=text)
    return element("button", RESET, type="button", class_="tm-reset", aria_label=title)


def _slider(form: Form, key: Key) -> Markup | None:
    steps = STEPS.get(key.name)
    if steps is None:
        return None
    value = getattr(form.run, key.name)
    at = nearest(steps, value)
    beside = words.unit(key.unit, value, form.language) if key.unit else ""
    return element(
        "input", type="range", class_="tm-slider", min=0, max=len(steps) - 1, value=at,
        data_steps=" ".join(units.integer(step) for step in steps),
        aria_label=form.label(key), aria_valuetext=f"{units.integer(steps[at])} {beside}".strip(),
    )  # fmt: skip
