"""Query string <-> Run.

`parse` never raises: a value that cannot be used becomes a Problem with a sentence, and that key falls back.
`link` writes only what differs from the defaults, in the fixed order of the keys, so one run has one address.
The defaults of each link version are frozen: a published link means the same for ever.
"""

import math
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus

from trainmem import catalog, checks, units, words
from trainmem.architectures import Model
from trainmem.run import DIMENSIONS, KEYS, Key, Run

VERSION = 1
FROZEN: dict[int, dict[str, Any]] = {
    1: {
        "model": "llama-3.1-8b", "arch": "", "layers": None, "hidden": None, "ffn": None, "heads": None,
        "kv_heads": None, "head_dim": None, "vocab": None, "positions": None, "tied": "", "attention_bias": "",
        "mlp_bias": "", "dropout": None, "attention_dropout": None, "window": None, "rotary_dim": None, "experts": None,
        "experts_per_token": None, "moe_ffn": None, "shared_experts": None, "dense_layers": None, "q_rank": None,
        "kv_rank": None, "value_dim": None, "precision": "bf16-mixed", "optimizer": "adamw",
        "micro_batch": 1, "seq": 2048, "grad_accum": 1, "attention": "sdpa", "loss": "full", "gradients": "freed",
        "keep_outputs": False, "framework": "transformers", "norm": "", "activation": "", "position": "",
        "gradient_fusion": True, "mask": True, "checkpointing": "none", "lora_rank": 0,
        "lora_targets": "q_proj,v_proj", "lora_dropout": 0.0, "lora_dtype": "fp32", "base": "recipe",
        "offload": "none", "gpus": 1, "zero": "0", "sharding": "auto", "fsdp_param": "auto", "fsdp_reduce": "auto",
        "bucket": 500_000_000, "tp": 1, "sp": False, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "etp": None,
        "dispatcher": "alltoall", "grouped_gemm": True, "gpu": "h100-sxm-80gb", "ecc": True, "usable": None, "headroom": 10.0, "workspace": None,
        "units": "gib", "embed": False,
    },
}  # fmt: skip
RENAMED: dict[str, str] = {}  # old key -> today's key; entries are only ever added
LONGEST_QUERY = 8192  # characters; a link of every key at once takes less than a tenth of this
LONGEST_SHOWN = 40
MOST_PROBLEMS = 10  # sentences; what more is wrong is counted


class Problem(NamedTuple):
    """Something in a link that could not be used: the key, what was given, and what would be right."""

    key: str
    given: str
    kind: str
    values: dict[str, Any]

    def sentence(self, language: str = "en") -> str:
        """One sentence for the reader; it names the key, what was given and what is allowed."""
        return words.text(
            f"error.{self.kind}", language, key=self.key, given=self.given, **self.values
        )

    def __str__(self) -> str:
        return self.sentence()


class _RejectedError(ValueError):
    """Carries the kind and the values of a problem out of a reader."""

    def __init__(self, kind: str, **values: Any) -> None:
        super().__init__(kind)
        self.kind, self.values_of_problem = kind, values


def parse(query: str, model: Model | None = None, default: str = "") -> tuple[Run, list[Problem]]:
    """The run that a query string means, and the problems met in reading it.

    `model` gives the architecture (from `from_hf`) where the query names none; `default` is a page's own query, read first.
    """
    problems: list[Problem] = []
    chosen: dict[str, Any] = dict(_dimensions(model)) if model else {}
    for text in (default, query):
        chosen |= _read_all(text, problems)
    run, broken = checks.settle(Run(**chosen), frozenset(chosen))
    problems = _few(problems)
    return run, problems + [
        Problem(key, shown(given), kind, values) for key, given, kind, values in broken
    ]


def _few(problems: list[Problem]) -> list[Problem]:
    """The first problems, and one that counts the rest: a link of noise must not fill the page."""
    rest = len(problems) - MOST_PROBLEMS
    if rest <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], Problem("", "", "many_more", {"n": rest})]


def link(run: Run) -> str:
    """The canonical query string of a run: the version, then only what differs from its defaults."""
    pairs = [("v", str(VERSION))] + [
        (name, _size(value) if KEYS[name].kind.endswith("bytes") else _written(value))
        for name, value in run.changed().items()
    ]
    return "&".join(f"{name}={quote(value, safe=',.:-_')}" for name, value in pairs)


def _dimensions(model: Model) -> dict[str, Any]:
    texts = {True: "1", False: "0"}
    values = {name: getattr(model, name) for name in DIMENSIONS}
    return {
        name: texts[value] if isinstance(value, bool) else value for name, value in values.items()
    }


def _read_all(text: str, problems: list[Problem]) -> dict[str, Any]:
    """The values that a query sets, and a problem for each part of it that sets nothing."""
    text = str(text).lstrip("?")
    if len(text) > LONGEST_QUERY:
        problems.append(
            Problem("", shown(text), "too_long", {"n": len(text), "limit": LONGEST_QUERY})
        )
        text = text[:LONGEST_QUERY].rpartition("&")[0]
    chosen: dict[str, Any] = {}
    for pair in filter(None, text.split("&")):
        raw_name, _, raw_value = pair.partition("=")
        name, given = unquote_plus(raw_name).strip(), unquote_plus(raw_value).strip()
        name = RENAMED.get(name, name)
        if name == "v":
            _check_version(given, problems)
        elif name not in KEYS:
            problems.append(_unknown_key(name, given))
        elif name in chosen:
            problems.append(
                Problem(name, shown(given), "duplicate", {"kept": _written(chosen[name])})
            )
        else:
            try:
                chosen[name] = _read(KEYS[name], given)
            except _RejectedError as rejected:
                problems.append(
                    Problem(name, shown(given), rejected.kind, rejected.values_of_problem)
                )
    return chosen


def _check_version(given: str, problems: list[Problem]) -> None:
    if given not in map(str, FROZEN):
        problems.append(Problem("v", shown(given), "version", {"version": VERSION}))


def _unknown_key(name: str, given: str) -> Problem:
    near = _near(name, tuple(KEYS), 0.6)
    kind = "unknown_key" if near else "unknown_key_plain"
    return Problem(shown(name), shown(given), kind, {"nearest": near[0]} if near else {})


def _near(text: str, choices: tuple[str, ...], likeness: float) -> list[str]:
    """The choice that a text resembles, if one does."""
    from difflib import get_close_matches  # noqa: PLC0415  (only a wrong link pays for it)

    return get_close_matches(text[:LONGEST_SHOWN], choices, 1, likeness)


def _read(key: Key, given: str) -> Any:
    """The value of one key from its text; raises _RejectedError with what would be right."""
    if key.kind.startswith("optional") and not given:
        return key.default
    return _READERS[key.kind.removeprefix("optional ")](key, given)


def _read_choice(key: Key, given: str) -> str:
    if given in key.choices:
        return given
    near = _near(given.lower(), key.choices, 0.5)
    if not near and given.isdecimal():  # beyond the last stage
        near = sorted(filter(str.isdecimal, key.choices))[-1:]
    allowed = ", ".join(choice for choice in key.choices if choice)
    raise _RejectedError(
        "bad_value", nearest=near[0] if near else key.default or key.choices[1], allowed=allowed
    )


def _read_preset(key: Key, given: str) -> str:
    kind = {"model": "models", "gpu": "gpus"}[key.name]
    found = catalog.resolve(kind, given) if len(given) <= LONGEST_SHOWN else None
    if found is None:
        near = catalog.closest(given[:LONGEST_SHOWN], [id_ for id_, _ in catalog.names(kind)])
        raise _RejectedError(f"unknown_{key.name}", nearest=", ".join(near) or key.default)
    return found


def _number(key: Key, given: str) -> float:
    if len(given) > LONGEST_SHOWN:
        raise _RejectedError("not_a_number", nearest=_written(key.default))
    try:
        value = float(units.parse_number(given, kilo=1024 if key.unit == "tokens" else 1000))
    except units.TooLargeError:
        value = math.inf
    except ValueError:
        raise _RejectedError("not_a_number", nearest=_written(key.default)) from None
    if not key.minimum <= value <= key.maximum:
        nearest = key.minimum if value < key.minimum else key.maximum
        low, high = units.number(key.minimum), units.number(key.maximum)
        raise _RejectedError("range", low=low, high=high, nearest=units.number(nearest))
    return value


def _read_count(key: Key, given: str) -> int:
    value = _number(key, given)
    if value != int(value):
        raise _RejectedError("whole_number", nearest=units.number(round(value)))
    return int(value)


def _read_bytes(key: Key, given: str) -> int:
    try:
        value = units.parse_bytes(given if len(given) <= LONGEST_SHOWN else "")
    except (ValueError, OverflowError):
        raise _RejectedError("not_a_size", nearest="80GiB") from None
    if not key.minimum <= value <= key.maximum:
        raise _RejectedError("range", low="1 MiB", high="1 PiB", nearest="80GiB")
    return value


def _read_flag(key: Key, given: str) -> bool:
    values = {
        "1": True,
        "0": False,
        "true": True,
        "false": False,
        "on": True,
        "off": False,
        "": True,
    }
    if given.lower() not in values:
        raise _RejectedError("bad_value", nearest=_written(key.default), allowed="1, 0")
    return values[given.lower()]


def _read_list(key: Key, given: str) -> str:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unusable = [name for name in names if not name.replace("_", "").replace("-", "").isascii()]
    if (
        not names
        or unusable
        or len(given) > 200
        or not given.replace(",", "").replace(" ", "").isprintable()
    ):
        raise _RejectedError("bad_value", nearest=key.default, allowed="all-linear, q_proj,v_proj")
    return ",".join(dict.fromkeys(names))


_READERS = {
    "choice": _read_choice, "preset": _read_preset, "count": _read_count, "number": _number, "bytes": _read_bytes,
    "flag": _read_flag, "list": _read_list,
}  # fmt: skip


def _written(value: Any) -> str:
    """A value as it stands in a link."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


def _size(value: int) -> str:
    """Bytes as they stand in a link: in the largest unit that leaves a whole number."""
    for scale, name in ((1 << 30, "GiB"), (10**9, "GB"), (1 << 20, "MiB")):
        if value % scale == 0:
            return f"{value // scale}{name}"
    return f"{value}B"


def shown(text: Any) -> str:
    """A reader's own text, short and without control or direction characters, so that a sentence stays readable."""
    visible = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in str(text)[: LONGEST_SHOWN + 1]
    )
    if not visible:
        return "“”"  # an empty value is still seen in its sentence
    return visible if len(visible) <= LONGEST_SHOWN else visible[:LONGEST_SHOWN] + "…"
