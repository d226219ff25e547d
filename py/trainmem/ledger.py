"""The ledger: every estimated byte is a row, and every total is a sum of rows.

A row names the part of memory that it belongs to, how many bytes it takes on one GPU, the factors that multiply to
that figure, and where the rule comes from. Texts are made from these only when somebody reads them.
"""

from collections.abc import Callable
from typing import NamedTuple

PARTS = ("parameters", "gradients", "optimizer", "activations", "overhead")
PHASES = ("forward end", "loss backward", "layers backward", "embedding tail", "optimizer step")


class Factor(NamedTuple):
    """One factor of a formula: an operator ("" for the first), a value, and what is counted."""

    operator: str
    value: float
    unit: str


Factors = tuple[Factor, ...]


class Row(NamedTuple):
    """Some bytes on one GPU, and why they are there.

    `key` names the row in the words tables ("row.KEY", "why.KEY"); `source` is a key of data/sources.toml.
    `derive` returns the factors of the formula; it is called only when a formula is shown.
    """

    part: str
    key: str
    bytes: int
    source: str
    derive: Callable[[], Factors] = tuple

    def factors(self) -> Factors:
        """The formula with the run's numbers in it, for instance 4 bytes x 8.03 B parameters / 8 GPUs."""
        return self.derive()


class Ledger(list[Row]):
    """Rows in the order in which a reader meets them."""

    def total(self) -> int:
        """Bytes of all rows."""
        return sum(row.bytes for row in self)

    def by_part(self) -> dict[str, int]:
        """Bytes of each part, in the order of PARTS; parts that hold nothing are there with 0."""
        sums = dict.fromkeys(PARTS, 0)
        for row in self:
            sums[row.part] += row.bytes
        return sums


def product(*terms: tuple[float, str]) -> Factors:
    """Factors that multiply: product((4, "bytes"), (8e9, "parameters")); one of a thing goes without saying."""
    told = [term for term in terms if term[0] != 1 or term[1] == "bytes"] or terms[:1]
    return tuple(Factor("×" if i else "", value, unit) for i, (value, unit) in enumerate(told))


def divided(factors: Factors, *terms: tuple[float, str]) -> Factors:
    """The same factors, divided by more terms; a divisor of one is left out."""
    return factors + tuple(Factor("÷", value, unit) for value, unit in terms if value != 1)
