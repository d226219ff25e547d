"""The run: every key of a link with its default, its choices and its unit, and the frozen object that holds them.

The form, the command line's help, the link reference and the JSON schema all come from KEYS.
"""

from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from trainmem import catalog
from trainmem.architectures import ARCHITECTURES as FAMILIES
from trainmem.architectures import Model

GROUPS = ("model", "training", "savers", "cluster", "hardware", "page")


class Key(NamedTuple):
    """One setting.

    `kind` is how its text is read: "choice" (one of `choices`), "preset" (an entry of the catalog), "count" (a whole
    number), "number", "flag" (1 or 0), "list" (names with commas); "optional ..." may also be nothing (None or "").
    """

    name: str
    group: str
    kind: str
    default: Any
    choices: tuple[str, ...] = ()
    minimum: float = 0
    maximum: float = 0
    unit: str = ""


PRECISIONS = ("fp32-true", "bf16-true", "bf16-mixed", "fp16-mixed", "bf16-master")
OPTIMIZERS = (
    "adamw", "adamw-fused", "adamw-forloop", "adamw-8bit", "sgd", "sgd-momentum", "adagrad", "adafactor",
    "adafactor-foreach", "lion", "muon",
)  # fmt: skip
CHECKPOINTING = (
    "none", "full", "every-2", "every-3", "every-4", "selective-matmul", "selective-attention",
)  # fmt: skip
ARCHITECTURES = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gpt2",
    "gpt_neox",
    "opt",
    "phi",
    "phi3",
    "gemma2",
    "gemma3",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "olmoe",
    "deepseek_v2",
    "deepseek_v3",
)

_KEYS = (
    Key("model", "model", "preset", "llama-3.1-8b"),
    Key("arch", "model", "choice", "", ("", *ARCHITECTURES)),
    Key("layers", "model", "optional count", None, (), 1, 2048, "layers"),
    Key("hidden", "model", "optional count", None, (), 1, 1 << 20),
    Key("ffn", "model", "optional count", None, (), 1, 1 << 22),
    Key("heads", "model", "optional count", None, (), 1, 4096),
    Key("kv_heads", "model", "optional count", None, (), 1, 4096),
    Key("head_dim", "model", "optional count", None, (), 1, 4096),
    Key("vocab", "model", "optional count", None, (), 1, 1 << 24),
    Key("positions", "model", "optional count", None, (), 1, 1 << 27, "tokens"),
    Key("tied", "model", "choice", "", ("", "1", "0")),
    Key("attention_bias", "model", "choice", "", ("", "1", "0")),
    Key("mlp_bias", "model", "choice", "", ("", "1", "0")),
    Key("dropout", "model", "optional number", None, (), 0, 0.99),
    Key("attention_dropout", "model", "optional number", None, (), 0, 0.99),
    Key("window", "model", "optional count", None, (), 0, 1 << 27, "tokens"),
    Key("rotary_dim", "model", "optional count", None, (), 0, 4096),
    Key("experts", "model", "optional count", None, (), 0, 1 << 16),
    Key("experts_per_token", "model", "optional count", None, (), 0, 1 << 16),
    Key("moe_ffn", "model", "optional count", None, (), 0, 1 << 22),
    Key("shared_experts", "model", "optional count", None, (), 0, 1 << 16),
    Key("dense_layers", "model", "optional count", None, (), 0, 2048, "layers"),
    Key("q_rank", "model", "optional count", None, (), 0, 1 << 20),
    Key("kv_rank", "model", "optional count", None, (), 0, 1 << 20),
    Key("value_dim", "model", "optional count", None, (), 0, 4096),
    Key("precision", "training", "choice", "bf16-mixed", PRECISIONS),
    Key("optimizer", "training", "choice", "adamw", OPTIMIZERS),
    Key("micro_batch", "training", "count", 1, (), 1, 1 << 20, "sequences"),
    Key("seq", "training", "count", 2048, (), 1, 1 << 27, "tokens"),
    Key("grad_accum", "training", "count", 1, (), 1, 1 << 20),
    Key("attention", "training", "choice", "sdpa", ("sdpa", "eager", "flash2", "fused", "unfused")),
    Key(
        "loss",
        "training",
        "choice",
        "full",
        ("full", "chunked", "fused", "vocab-parallel", "fused-te"),
    ),
    Key("gradients", "training", "choice", "freed", ("freed", "kept")),
    Key("keep_outputs", "training", "flag", False),
    Key("framework", "training", "choice", "transformers", ("transformers", "megatron")),
    Key("norm", "training", "choice", "", ("", "layernorm", "rmsnorm")),
    Key("activation", "training", "choice", "", ("", "gelu", "swiglu", "squared-relu")),
    Key("position", "training", "choice", "", ("", "learned", "rope")),
    Key("gradient_fusion", "training", "flag", True),
    Key("mask", "training", "flag", True),
    Key("checkpointing", "savers", "choice", "none", CHECKPOINTING),
    Key("lora_rank", "savers", "count", 0, (), 0, 1 << 16),
    Key("lora_targets", "savers", "list", "q_proj,v_proj"),
    Key("lora_dropout", "savers", "number", 0.0, (), 0, 0.99),
    Key("lora_dtype", "savers", "choice", "fp32", ("fp32", "base")),
    Key("base", "savers", "choice", "recipe", ("recipe", "bf16", "nf4", "int8")),
    Key("offload", "savers", "choice", "none", ("none", "optimizer")),
    Key("gpus", "cluster", "count", 1, (), 1, 1 << 20, "gpus"),
    Key("zero", "cluster", "choice", "0", ("0", "1", "2", "3")),
    Key("sharding", "cluster", "choice", "auto", ("auto", "deepspeed", "fsdp2", "megatron")),
    Key("fsdp_param", "cluster", "choice", "auto", ("auto", "bf16", "fp16", "fp32")),
    Key("fsdp_reduce", "cluster", "choice", "auto", ("auto", "bf16", "fp32")),
    Key("bucket", "cluster", "count", 500_000_000, (), 1, 1 << 40, "parameters"),
    Key("tp", "cluster", "count", 1, (), 1, 1024, "gpus"),
    Key("sp", "cluster", "flag", False),
    Key("pp", "cluster", "count", 1, (), 1, 256, "gpus"),
    Key("vpp", "cluster", "count", 1, (), 1, 256),
    Key("cp", "cluster", "count", 1, (), 1, 1024, "gpus"),
    Key("ep", "cluster", "count", 1, (), 1, 4096, "gpus"),
    Key("etp", "cluster", "optional count", None, (), 1, 1024, "gpus"),
    Key("dispatcher", "cluster", "choice", "alltoall", ("alltoall", "allgather")),
    Key("grouped_gemm", "cluster", "flag", True),
    Key("gpu", "hardware", "preset", "h100-sxm-80gb"),
    Key("ecc", "hardware", "flag", True),
    Key("usable", "hardware", "optional bytes", None, (), 1 << 20, 1 << 50),
    Key("headroom", "hardware", "number", 10.0, (), 0, 90, "percent"),
    Key("workspace", "hardware", "optional bytes", None, (), 1 << 10, 1 << 34),
    Key("units", "page", "choice", "gib", ("gib", "gb")),
    Key("embed", "page", "flag", False),
)
KEYS: dict[str, Key] = {key.name: key for key in _KEYS}
DIMENSIONS = (
    "arch", "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "positions", "tied",
    "attention_bias", "mlp_bias", "dropout", "attention_dropout", "window", "rotary_dim", "experts", "experts_per_token", "moe_ffn", "shared_experts",
    "dense_layers", "q_rank", "kv_rank", "value_dim",
)  # fmt: skip


class Run(NamedTuple):
    """One configuration: an attribute a key, with the defaults of KEYS. Sizes are counts, `usable` is bytes."""

    model: str = "llama-3.1-8b"
    arch: str = ""
    layers: int | None = None
    hidden: int | None = None
    ffn: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    positions: int | None = None
    tied: str = ""
    attention_bias: str = ""
    mlp_bias: str = ""
    dropout: float | None = None
    attention_dropout: float | None = None
    window: int | None = None
    rotary_dim: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    moe_ffn: int | None = None
    shared_experts: int | None = None
    dense_layers: int | None = None
    q_rank: int | None = None
    kv_rank: int | None = None
    value_dim: int | None = None
    precision: str = "bf16-mixed"
    optimizer: str = "adamw"
    micro_batch: int = 1
    seq: int = 2048
    grad_accum: int = 1
    attention: str = "sdpa"
    loss: str = "full"
    gradients: str = "freed"
    keep_outputs: bool = False
    framework: str = "transformers"
    norm: str = ""
    activation: str = ""
    position: str = ""
    gradient_fusion: bool = True
    mask: bool = True
    checkpointing: str = "none"
    lora_rank: int = 0
    lora_targets: str = "q_proj,v_proj"
    lora_dropout: float = 0.0
    lora_dtype: str = "fp32"
    base: str = "recipe"
    offload: str = "none"
    gpus: int = 1
    zero: str = "0"
    sharding: str = "auto"
    fsdp_param: str = "auto"
    fsdp_reduce: str = "auto"
    bucket: int = 500_000_000
    tp: int = 1
    sp: bool = False
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    dispatcher: str = "alltoall"
    grouped_gemm: bool = True
    gpu: str = "h100-sxm-80gb"
    ecc: bool = True
    usable: int | None = None
    headroom: float = 10.0
    workspace: int | None = None
    units: str = "gib"
    embed: bool = False

    def changed(self) -> dict[str, Any]:
        """The keys whose value differs from the default, in the order of KEYS."""
        return {
            name: value for name in KEYS if (value := getattr(self, name)) != KEYS[name].default
        }

    def but(self, **changes: Any) -> "Run":
        """The same run with other values for some keys; faster than `_replace`, which asks for each of the fields."""
        values = list(self)
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Run._make(values)


_PLACES = {name: place for place, name in enumerate(Run._fields)}
_dimensions = itemgetter(*(_PLACES[name] for name in DIMENSIONS))
assert Run._fields == tuple(KEYS), "Run and KEYS must list the same keys"


def model_of(run: Run) -> Model:
    """The model that a run trains: its preset, with the dimensions that the run names in place of the preset's."""
    return _model(run.model, _dimensions(run))


@lru_cache(maxsize=256)
def _model(preset: str, given: tuple[Any, ...]) -> Model:
    entry = catalog.entry("models", preset)
    named = {
        key: value for key, value in zip(DIMENSIONS, given, strict=True) if value not in ("", None)
    }
    family = FAMILIES[str(named.get("arch", entry["arch"]))]
    values: dict[str, Any] = dict(family.defaults)
    values |= {key: entry[key] for key in DIMENSIONS if key in entry}
    for key in ("attention_bias", "mlp_bias", "dropout", "attention_dropout"):
        values[key] = entry.get(key, getattr(family, key))
    values |= {
        key: value == "1" if key in ("tied", "attention_bias", "mlp_bias") else value
        for key, value in named.items()
    }
    shape = set(DIMENSIONS) - {
        "positions",
        "tied",
        "attention_bias",
        "mlp_bias",
        "dropout",
        "attention_dropout",
    }
    name = entry["name"] if not shape & set(named) else ""
    return Model(name=str(name), **values)
