"""A Hugging Face config.json as a Model: the names that each family gives to its dimensions, and its defaults."""

from collections.abc import Callable, Mapping
from typing import Any

from trainmem.architectures import ARCHITECTURES, Model


class ConfigError(ValueError):
    """A config.json that we cannot read; the message says which key is missing or wrong, and what is known."""


def from_hf(config: Mapping[str, Any]) -> Model:
    """The model that a parsed config.json describes.

    Raises ConfigError when the family is not one of ours, or a dimension is missing or is no positive whole number.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"A config.json is an object of keys, not a {type(config).__name__}.")
    kind = str(config.get("model_type") or "") or _guessed(config)
    if kind not in READERS:
        known = ", ".join(READERS)
        raise ConfigError(
            f"model_type={kind[:40]!r} is not a family that is modelled; known are {known}."
        )
    model = READERS[kind](kind, config)
    if model.heads % model.kv_heads:
        raise ConfigError(
            f"num_key_value_heads={model.kv_heads} does not divide num_attention_heads={model.heads}."
        )
    return model


def _guessed(config: Mapping[str, Any]) -> str:
    """The family from the class name, for a config that leaves model_type out."""
    names = config.get("architectures")
    first = str(names[0]) if isinstance(names, list) and names else ""
    return {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "Qwen2ForCausalLM": "qwen2",
            "Qwen3ForCausalLM": "qwen3", "GPT2LMHeadModel": "gpt2", "GPTNeoXForCausalLM": "gpt_neox",
            "OPTForCausalLM": "opt", "PhiForCausalLM": "phi", "Phi3ForCausalLM": "phi3",
            "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3_text",
            "MixtralForCausalLM": "mixtral", "Qwen2MoeForCausalLM": "qwen2_moe", "Qwen3MoeForCausalLM": "qwen3_moe",
            "OlmoeForCausalLM": "olmoe"}.get(first, "")  # fmt: skip


def _count(config: Mapping[str, Any], *names: str, default: int | None = None) -> int:
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


def _rate(config: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"{name}={str(value)[:40]!r} must be a number from 0 to less than 1.")
    return float(value)


def _flag(config: Mapping[str, Any], name: str, default: bool) -> bool:
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name}={str(value)[:40]!r} must be true or false.")
    return default if value is None else value


def _llama(kind: str, config: Mapping[str, Any]) -> Model:
    """Llama, Mistral, Qwen2, Qwen3."""
    hidden, heads = _count(config, "hidden_size"), _count(config, "num_attention_heads")
    if kind.startswith("qwen"):
        _refuse(config, "use_sliding_window", False)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "num_hidden_layers"),
        hidden=hidden,
        ffn=_count(config, "intermediate_size"),
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", default=heads),
        head_dim=_count(
            config, "head_dim", default=128 if kind == "qwen3" else max(1, hidden // heads)
        ),
        vocab=_count(config, "vocab_size"),
        positions=_count(config, "max_position_embeddings", default=2048),
        tied=_flag(config, "tie_word_embeddings", False),
        attention_bias=_flag(config, "attention_bias", ARCHITECTURES[kind].attention_bias),
        mlp_bias=_flag(config, "mlp_bias", False),
        attention_dropout=_rate(config, "attention_dropout"),
        window=_window(config, 4096) if kind == "mistral" else 0,
    )


def _gpt2(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = _count(config, "n_embd", "hidden_size", default=768)
    heads = _count(config, "n_head", "num_attention_heads", default=12)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "n_layer", "num_hidden_layers", default=12),
        hidden=hidden,
        ffn=_count(config, "n_inner", default=4 * hidden),
        heads=heads,
        kv_heads=heads,
        head_dim=max(1, hidden // heads),
        vocab=_count(config, "vocab_size", default=50257),
        positions=_count(config, "n_positions", "n_ctx", "max_position_embeddings", default=1024),
        tied=_flag(config, "tie_word_embeddings", True),
        attention_bias=True,
        mlp_bias=True,
        dropout=_rate(config, "resid_pdrop", 0.1),
        attention_dropout=_rate(config, "attn_pdrop", 0.1),
    )


def _gpt_neox(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = _count(config, "hidden_size", default=6144)
    heads = _count(config, "num_attention_heads", default=64)
    _refuse(config, "use_parallel_residual", True)
    head_dim = max(1, hidden // heads)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "num_hidden_layers", default=44),
        hidden=hidden,
        ffn=_count(config, "intermediate_size", default=24576),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        vocab=_count(config, "vocab_size", default=50432),
        positions=_count(config, "max_position_embeddings", default=2048),
        tied=_flag(config, "tie_word_embeddings", False),
        attention_bias=_flag(config, "attention_bias", True),
        mlp_bias=True,
        dropout=_rate(config, "hidden_dropout"),
        attention_dropout=_rate(config, "attention_dropout"),
        rotary_dim=_rotary(kind, config, head_dim),
    )


def _opt(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = _count(config, "hidden_size", default=768)
    heads = _count(config, "num_attention_heads", default=12)
    _refuse(config, "do_layer_norm_before", True)
    _refuse(config, "word_embed_proj_dim", hidden)
    bias = _flag(config, "enable_bias", True)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "num_hidden_layers", default=12),
        hidden=hidden,
        ffn=_count(config, "ffn_dim", default=3072),
        heads=heads,
        kv_heads=heads,
        head_dim=max(1, hidden // heads),
        vocab=_count(config, "vocab_size", default=50272),
        positions=_count(config, "max_position_embeddings", default=2048),
        tied=_flag(config, "tie_word_embeddings", True),
        attention_bias=bias,
        mlp_bias=bias,
        dropout=_rate(config, "dropout", 0.1),
        attention_dropout=_rate(config, "attention_dropout"),
    )


def _phi(kind: str, config: Mapping[str, Any]) -> Model:
    """Phi-1 to Phi-4."""
    old = kind == "phi"
    hidden = _count(config, "hidden_size", default=2048 if old else 3072)
    heads = _count(config, "num_attention_heads", default=32)
    _refuse(config, "qk_layernorm", False)
    _refuse(config, "embd_pdrop", 0)
    head_dim = max(1, hidden // heads)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "num_hidden_layers", default=24 if old else 32),
        hidden=hidden,
        ffn=_count(config, "intermediate_size", default=8192),
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", default=heads),
        head_dim=head_dim,
        vocab=_count(config, "vocab_size", default=51200 if old else 32064),
        positions=_count(config, "max_position_embeddings", default=2048 if old else 4096),
        tied=_flag(config, "tie_word_embeddings", False),
        attention_bias=old,
        mlp_bias=old,
        dropout=_rate(config, "resid_pdrop"),
        attention_dropout=_rate(config, "attention_dropout"),
        rotary_dim=_rotary(kind, config, head_dim),
        window=0 if old else _window(config),
    )


def _gemma(kind: str, config: Mapping[str, Any]) -> Model:
    """Gemma 2 and 3, the text part of a larger model too."""
    config = config.get("text_config") or config
    old = kind == "gemma2"
    heads = _count(config, "num_attention_heads", default=8)
    caps = (50.0, 30.0) if old else (None, None)
    for name, cap in zip(("attn_logit_softcapping", "final_logit_softcapping"), caps, strict=True):
        if (config.get(name, cap) is None) != (cap is None):
            _refuse(config, name, cap)
    _refuse(config, "use_bidirectional_attention", False)
    return Model(
        name=_name(config),
        arch=kind.removesuffix("_text"),
        layers=_count(config, "num_hidden_layers", default=26),
        hidden=_count(config, "hidden_size", default=2304),
        ffn=_count(config, "intermediate_size", default=9216),
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", default=4),
        head_dim=_count(config, "head_dim", default=256),
        vocab=_count(config, "vocab_size", default=256_000 if old else 262_208),
        positions=_count(config, "max_position_embeddings", default=8192 if old else 131_072),
        tied=_flag(config, "tie_word_embeddings", True),
        attention_bias=_flag(config, "attention_bias", False),
        attention_dropout=_rate(config, "attention_dropout"),
        window=_window(config, 4096),
    )


def _window(config: Mapping[str, Any], default: int = 0) -> int:
    """Tokens that a layer sees; a config that says null sees all."""
    return _count(config, "sliding_window", default=0) if "sliding_window" in config else default


def _experts(kind: str, config: Mapping[str, Any]) -> Model:
    """Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE: every layer has experts, chosen without dropping."""
    hidden, layers, ffn, heads, kv_heads, experts, chosen, moe_ffn = {
        "mixtral": (4096, 32, 14336, 32, 8, 8, 2, 0),
        "qwen2_moe": (2048, 24, 5632, 16, 16, 60, 4, 1408),
        "qwen3_moe": (2048, 24, 6144, 32, 4, 128, 8, 768),
        "olmoe": (2048, 16, 2048, 16, 0, 64, 8, 0),
    }[kind]
    for name, modelled in (
        ("decoder_sparse_step", 1), ("mlp_only_layers", []), ("clip_qkv", None), ("router_jitter_noise", 0),
        ("use_sliding_window", False),
    ):  # fmt: skip
        if config.get(name) is not None:
            _refuse(config, name, modelled)
    hidden = _count(config, "hidden_size", default=hidden)
    heads = _count(config, "num_attention_heads", default=heads)
    ffn = _count(config, "intermediate_size", default=ffn)
    return Model(
        name=_name(config),
        arch=kind,
        layers=_count(config, "num_hidden_layers", default=layers),
        hidden=hidden,
        ffn=ffn,
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", default=kv_heads or heads),
        head_dim=_count(config, "head_dim", default=max(1, hidden // heads)),
        vocab=_count(config, "vocab_size", default=VOCABULARIES.get(kind, 151_936)),
        positions=_count(config, "max_position_embeddings", default=POSITIONS.get(kind, 32768)),
        tied=bool(config.get("tie_word_embeddings", False)),
        attention_bias=bool(
            config.get("qkv_bias", config.get("attention_bias", kind == "qwen2_moe"))
        ),
        attention_dropout=_rate(config, "attention_dropout"),
        window=_window(config) if kind == "mixtral" else 0,
        experts=_count(config, "num_local_experts", "num_experts", default=experts),
        experts_per_token=_count(config, "num_experts_per_tok", default=chosen),
        moe_ffn=_count(config, "moe_intermediate_size", default=moe_ffn or ffn),
        shared_experts=_shared(config) if kind == "qwen2_moe" else 0,
    )


VOCABULARIES = {"mixtral": 32_000, "olmoe": 50_304}
POSITIONS = {"mixtral": 131_072, "olmoe": 4096}


def _shared(config: Mapping[str, Any]) -> int:
    """How many experts of the usual width make up the shared one."""
    one = _count(config, "moe_intermediate_size", default=1408)
    shared = _count(config, "shared_expert_intermediate_size", default=5632)
    if shared % one:
        raise ConfigError(
            f"shared_expert_intermediate_size={shared} must be a multiple of moe_intermediate_size={one}."
        )
    return shared // one


def _refuse(config: Mapping[str, Any], name: str, modelled: Any) -> None:
    """Stops at a switch of which only one position is modelled."""
    value = config.get(name, modelled)
    if value != modelled:
        raise ConfigError(f"{name}={str(value)[:40]!r} is not modelled; only {modelled!r} is.")


def _rotary(kind: str, config: Mapping[str, Any], head_dim: int) -> int:
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


def _name(config: Mapping[str, Any]) -> str:
    return str(config.get("_name_or_path") or "")[:80]


READERS: dict[str, Callable[[str, Mapping[str, Any]], Model]] = {
    "llama": _llama, "mistral": _llama, "qwen2": _llama, "qwen3": _llama, "gpt2": _gpt2,
    "gpt_neox": _gpt_neox, "opt": _opt, "phi": _phi, "phi3": _phi,
    "gemma2": _gemma, "gemma3": _gemma, "gemma3_text": _gemma,
    "mixtral": _experts, "qwen2_moe": _experts, "qwen3_moe": _experts, "olmoe": _experts,
}  # fmt: skip
