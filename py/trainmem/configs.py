"""What a config.json says: its values read one by one, each checked, with a sentence where one is wrong."""

from collections.abc import Mapping
from typing import Any

from trainmem.architectures import ARCHITECTURES


class ConfigError(ValueError):
    """A config.json that we cannot read; the message says which key is missing or wrong, and what is known."""


def count(config: Mapping[str, Any], *names: str, default: int | None = None) -> int:
    """The first of some keys that is there, as a positive whole number."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1 << 24:
            raise ConfigError(f"{name}={str(value)[:40]!r} must be a positive whole number.")
        return value
    if default is None:
        raise ConfigError(f"{names[0]} is missing; it must be a positive whole number.")
    return default


def rate(config: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"{name}={str(value)[:40]!r} must be a number from 0 to less than 1.")
    return float(value)


def flag(config: Mapping[str, Any], name: str, default: bool) -> bool:
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name}={str(value)[:40]!r} must be true or false.")
    return default if value is None else value


def window(config: Mapping[str, Any], default: int = 0) -> int:
    """Tokens that a layer sees; a config that says null sees all."""
    return count(config, "sliding_window", default=0) if "sliding_window" in config else default


def count_or_none(config: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number that may be 0."""
    return count(config, name, default=default) if config.get(name, default) else 0


def refuse(config: Mapping[str, Any], name: str, modelled: Any) -> None:
    """Stops at a switch of which only one position is modelled."""
    value = config.get(name, modelled)
    if value != modelled:
        raise ConfigError(f"{name}={str(value)[:40]!r} is not modelled; only {modelled!r} is.")


def rotary(kind: str, config: Mapping[str, Any], head_dim: int) -> int:
    """Numbers of a head that are rotated, where it is not the family's share; 0 otherwise."""
    share: Any = ARCHITECTURES[kind].rotary
    for place in (config, config.get("rope_scaling"), config.get("rope_parameters")):
        if isinstance(place, Mapping):
            share = place.get("partial_rotary_factor", place.get("rotary_pct", share))
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ConfigError(
            f"partial_rotary_factor={str(share)[:40]!r} must be a number from 0 to 1."
        )
    dimension = int(head_dim * share)
    return 0 if dimension == int(head_dim * ARCHITECTURES[kind].rotary) else dimension


def name(config: Mapping[str, Any]) -> str:
    return str(config.get("_name_or_path") or "")[:80]
