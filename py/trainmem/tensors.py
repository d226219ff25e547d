"""What a walk is made of: tensors, parameter tensors, and operations with what their backward needs.

Elements are counted for the whole micro-batch on one GPU.
"""

from typing import NamedTuple


class Tensor:
    """`elements` numbers of `width` bytes. `grad`: whether backward must reach it. `storage`: the tensor whose bytes a view shows."""

    __slots__ = ("elements", "grad", "storage", "width")

    def __init__(
        self, elements: int, width: int, grad: bool = True, storage: "Tensor | None" = None
    ) -> None:
        self.elements, self.width, self.grad = elements, width, grad
        self.storage: Tensor = storage.storage if storage else self

    @property
    def bytes(self) -> int:
        """Bytes of the storage."""
        return self.elements * self.width


class Weight(NamedTuple):
    """A parameter tensor: its name, shape (columns 0 for a vector), bytes an element, and whether it trains.

    `matmul`: whether it is a linear's, which autocast casts and quantisation packs; `matrices`: how many of that shape stand
    in it, one behind the other.
    """

    name: str
    rows: int
    columns: int
    width: int
    trainable: bool = True
    matmul: bool = True
    matrices: int = 1

    @property
    def elements(self) -> int:
        """Number of parameters."""
        return self.matrices * self.rows * (self.columns or 1)

    def cut(self, rows: int, width: int) -> "Weight":
        """So many rows of it, in a format of `width` bytes."""
        if rows == self.rows and width == self.width:
            return self
        return Weight(
            self.name, rows, self.columns, width, self.trainable, self.matmul, self.matrices
        )

    def piece(self, ranks: int, width: int) -> "Weight":
        """The largest of `ranks` pieces along the first dimension, in a format of `width` bytes."""
        if self.matrices == 1:
            return self.cut(-(-self.rows // ranks), width)
        return self._replace(matrices=-(-self.matrices // ranks), width=width)


class Operation(NamedTuple):
    """One node of the backward graph.

    `others`: outputs besides the first. `kept`: tensors that its backward needs. `weights`: those that get a gradient here. `temporary`: bytes that its backward
    makes besides gradients. `view`: the gradient is passed on, not copied. `casts`: bytes of low-precision weights kept.
    """

    output: Tensor
    inputs: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    weights: tuple[Weight, ...]
    temporary: int
    view: bool
    casts: int
    kind: str
    others: tuple[Tensor, ...] = ()


class Adapter(NamedTuple):
    """LoRA on some linears: rank, bytes of its weights, dropout."""

    rank: int
    targets: frozenset[str]
    width: int
    dropout: float

    def covers(self, name: str) -> bool:
        """Whether the linear of this name carries an adapter."""
        short = name.rpartition(".")[2]  # as PEFT: the end of a module's path is enough
        return name in self.targets or short in self.targets or "all-linear" in self.targets
