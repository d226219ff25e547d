"""The dimensions of a model, and what a family of models is."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trainmem.tape import Tape
from trainmem.tensors import Tensor


class Model(NamedTuple):
    """The dimensions of a decoder. `positions`: the longest sequence (the size of the table where positions are learned).

    0 stands for what a model does not have: `window` (tokens that a windowed layer sees), `rotary_dim` (numbers of a head that
    are rotated, where it is not the family's share), experts, and the ranks of latent attention. `moe_ffn`: width of an expert;
    `dense_layers`: how many layers at the beginning have no experts; `value_dim`: width of a head's value where it is not its key's.
    """

    name: str
    arch: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int
    tied: bool
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    window: int = 0
    rotary_dim: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    value_dim: int = 0


class Kinds(NamedTuple):
    """The kinds of layers of a model, as models that have nothing else, the commonest first; and the kind of each layer."""

    models: tuple[Model, ...]
    order: tuple[int, ...]


def alike(model: Model) -> Kinds:
    """All layers are of one kind."""
    return Kinds((model,), (0,) * model.layers)


def dense_first(model: Model) -> Kinds:
    """Some layers without experts, then all with them."""
    dense = min(model.dense_layers, model.layers)
    plain, order = model._replace(experts=0), (1,) * dense + (0,) * (model.layers - dense)
    if dense in (0, model.layers):
        return alike(plain if dense else model)
    if dense > model.layers - dense:  # the commonest kind comes first
        return Kinds((plain, model), tuple(1 - kind for kind in order))
    return Kinds((model, plain), order)


def every_sixth_sees_all(model: Model) -> Kinds:
    """Five layers with a window, then one without."""
    order = tuple(int(index % 6 == 5) for index in range(model.layers))
    return Kinds((model, model._replace(window=0)), order) if model.window else alike(model)


class Architecture(NamedTuple):
    """A family: its layer, the norm at its end, and what stands before the first layer.

    `learned_positions`: whether there is a weight for each position, and `spare_positions` for how many more; `rotary`: the share
    of a head that is rotated, from so many pairs of `tables`; `embedding_dropout`: whether the dropout stands behind the embedding too; `listed_first`: the tensors
    that a layer lists before those in the order of its forward (a loop over tensors meets neighbours); `capped`: whether the logits
    go through a tanh; `kinds`: which layers are unlike the others; `sees_all`: the first layer without a window,
    where the others have one; `attentions`: the kernels that it has, where not all; `defaults`: dimensions that a layer
    of this family cannot be without.
    """

    layer: Callable[[Tape, Model, Tensor], Tensor]
    final_norm: str = "rmsnorm"
    learned_positions: bool = False
    spare_positions: int = 0
    rotary: float = 1.0
    tables: int = 1
    sees_all: int = 0
    head_bias: bool = False
    capped: bool = False
    kinds: Callable[[Model], Kinds] = alike
    attentions: tuple[str, ...] = ()
    embedding_dropout: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    defaults: Mapping[str, int] = {}
    listed_first: tuple[str, ...] = ()
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )
