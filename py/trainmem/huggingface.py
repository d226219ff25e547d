"""A Hugging Face config.json as a Model: the names that each family gives to its dimensions, and its defaults."""

from collections.abc import Callable, Mapping
from typing import Any

from trainmem import configs as values
from trainmem.architectures import ARCHITECTURES, Model
from trainmem.configs import ConfigError


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
            "OlmoeForCausalLM": "olmoe", "DeepseekV2ForCausalLM": "deepseek_v2", "DeepseekV3ForCausalLM": "deepseek_v3"}.get(first, "")  # fmt: skip


def _llama(kind: str, config: Mapping[str, Any]) -> Model:
    """Llama, Mistral, Qwen2, Qwen3."""
    hidden, heads = values.count(config, "hidden_size"), values.count(config, "num_attention_heads")
    if kind.startswith("qwen"):
        values.refuse(config, "use_sliding_window", False)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers"),
        hidden=hidden,
        ffn=values.count(config, "intermediate_size"),
        heads=heads,
        kv_heads=values.count(config, "num_key_value_heads", default=heads),
        head_dim=values.count(
            config, "head_dim", default=128 if kind == "qwen3" else max(1, hidden // heads)
        ),
        vocab=values.count(config, "vocab_size"),
        positions=values.count(config, "max_position_embeddings", default=2048),
        tied=values.flag(config, "tie_word_embeddings", False),
        attention_bias=values.flag(config, "attention_bias", ARCHITECTURES[kind].attention_bias),
        mlp_bias=values.flag(config, "mlp_bias", False),
        attention_dropout=values.rate(config, "attention_dropout"),
        window=values.window(config, 4096) if kind == "mistral" else 0,
    )


def _gpt2(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = values.count(config, "n_embd", "hidden_size", default=768)
    heads = values.count(config, "n_head", "num_attention_heads", default=12)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "n_layer", "num_hidden_layers", default=12),
        hidden=hidden,
        ffn=values.count(config, "n_inner", default=4 * hidden),
        heads=heads,
        kv_heads=heads,
        head_dim=max(1, hidden // heads),
        vocab=values.count(config, "vocab_size", default=50257),
        positions=values.count(
            config, "n_positions", "n_ctx", "max_position_embeddings", default=1024
        ),
        tied=values.flag(config, "tie_word_embeddings", True),
        attention_bias=True,
        mlp_bias=True,
        dropout=values.rate(config, "resid_pdrop", 0.1),
        attention_dropout=values.rate(config, "attn_pdrop", 0.1),
    )


def _gpt_neox(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = values.count(config, "hidden_size", default=6144)
    heads = values.count(config, "num_attention_heads", default=64)
    values.refuse(config, "use_parallel_residual", True)
    head_dim = max(1, hidden // heads)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers", default=44),
        hidden=hidden,
        ffn=values.count(config, "intermediate_size", default=24576),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        vocab=values.count(config, "vocab_size", default=50432),
        positions=values.count(config, "max_position_embeddings", default=2048),
        tied=values.flag(config, "tie_word_embeddings", False),
        attention_bias=values.flag(config, "attention_bias", True),
        mlp_bias=True,
        dropout=values.rate(config, "hidden_dropout"),
        attention_dropout=values.rate(config, "attention_dropout"),
        rotary_dim=values.rotary(kind, config, head_dim),
    )


def _opt(kind: str, config: Mapping[str, Any]) -> Model:
    hidden = values.count(config, "hidden_size", default=768)
    heads = values.count(config, "num_attention_heads", default=12)
    values.refuse(config, "do_layer_norm_before", True)
    values.refuse(config, "word_embed_proj_dim", hidden)
    bias = values.flag(config, "enable_bias", True)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers", default=12),
        hidden=hidden,
        ffn=values.count(config, "ffn_dim", default=3072),
        heads=heads,
        kv_heads=heads,
        head_dim=max(1, hidden // heads),
        vocab=values.count(config, "vocab_size", default=50272),
        positions=values.count(config, "max_position_embeddings", default=2048),
        tied=values.flag(config, "tie_word_embeddings", True),
        attention_bias=bias,
        mlp_bias=bias,
        dropout=values.rate(config, "dropout", 0.1),
        attention_dropout=values.rate(config, "attention_dropout"),
    )


def _phi(kind: str, config: Mapping[str, Any]) -> Model:
    """Phi-1 to Phi-4."""
    old = kind == "phi"
    hidden = values.count(config, "hidden_size", default=2048 if old else 3072)
    heads = values.count(config, "num_attention_heads", default=32)
    values.refuse(config, "qk_layernorm", False)
    values.refuse(config, "embd_pdrop", 0)
    head_dim = max(1, hidden // heads)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers", default=24 if old else 32),
        hidden=hidden,
        ffn=values.count(config, "intermediate_size", default=8192),
        heads=heads,
        kv_heads=values.count(config, "num_key_value_heads", default=heads),
        head_dim=head_dim,
        vocab=values.count(config, "vocab_size", default=51200 if old else 32064),
        positions=values.count(config, "max_position_embeddings", default=2048 if old else 4096),
        tied=values.flag(config, "tie_word_embeddings", False),
        attention_bias=old,
        mlp_bias=old,
        dropout=values.rate(config, "resid_pdrop"),
        attention_dropout=values.rate(config, "attention_dropout"),
        rotary_dim=values.rotary(kind, config, head_dim),
        window=0 if old else values.window(config),
    )


def _gemma(kind: str, config: Mapping[str, Any]) -> Model:
    """Gemma 2 and 3, the text part of a larger model too."""
    config = config.get("text_config") or config
    old = kind == "gemma2"
    heads = values.count(config, "num_attention_heads", default=8)
    caps = (50.0, 30.0) if old else (None, None)
    for name, cap in zip(("attn_logit_softcapping", "final_logit_softcapping"), caps, strict=True):
        if (config.get(name, cap) is None) != (cap is None):
            values.refuse(config, name, cap)
    values.refuse(config, "use_bidirectional_attention", False)
    return Model(
        name=values.name(config),
        arch=kind.removesuffix("_text"),
        layers=values.count(config, "num_hidden_layers", default=26),
        hidden=values.count(config, "hidden_size", default=2304),
        ffn=values.count(config, "intermediate_size", default=9216),
        heads=heads,
        kv_heads=values.count(config, "num_key_value_heads", default=4),
        head_dim=values.count(config, "head_dim", default=256),
        vocab=values.count(config, "vocab_size", default=256_000 if old else 262_208),
        positions=values.count(config, "max_position_embeddings", default=8192 if old else 131_072),
        tied=values.flag(config, "tie_word_embeddings", True),
        attention_bias=values.flag(config, "attention_bias", False),
        attention_dropout=values.rate(config, "attention_dropout"),
        window=values.window(config, 4096),
    )


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
            values.refuse(config, name, modelled)
    hidden = values.count(config, "hidden_size", default=hidden)
    heads = values.count(config, "num_attention_heads", default=heads)
    ffn = values.count(config, "intermediate_size", default=ffn)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers", default=layers),
        hidden=hidden,
        ffn=ffn,
        heads=heads,
        kv_heads=values.count(config, "num_key_value_heads", default=kv_heads or heads),
        head_dim=values.count(config, "head_dim", default=max(1, hidden // heads)),
        vocab=values.count(config, "vocab_size", default=VOCABULARIES.get(kind, 151_936)),
        positions=values.count(
            config, "max_position_embeddings", default=POSITIONS.get(kind, 32768)
        ),
        tied=bool(config.get("tie_word_embeddings", False)),
        attention_bias=bool(
            config.get("qkv_bias", config.get("attention_bias", kind == "qwen2_moe"))
        ),
        attention_dropout=values.rate(config, "attention_dropout"),
        window=values.window(config) if kind == "mixtral" else 0,
        experts=values.count(config, "num_local_experts", "num_experts", default=experts),
        experts_per_token=values.count(config, "num_experts_per_tok", default=chosen),
        moe_ffn=values.count(config, "moe_intermediate_size", default=moe_ffn or ffn),
        shared_experts=_shared(config) if kind == "qwen2_moe" else 0,
    )


VOCABULARIES = {"mixtral": 32_000, "olmoe": 50_304}
POSITIONS = {"mixtral": 131_072, "olmoe": 4096}


def _shared(config: Mapping[str, Any]) -> int:
    """How many experts of the usual width make up the shared one."""
    one = values.count(config, "moe_intermediate_size", default=1408)
    shared = values.count(config, "shared_expert_intermediate_size", default=5632)
    if shared % one:
        raise ConfigError(
            f"shared_expert_intermediate_size={shared} must be a multiple of moe_intermediate_size={one}."
        )
    return shared // one


def _deepseek(kind: str, config: Mapping[str, Any]) -> Model:
    """DeepSeek V2 and V3. The shared experts are as wide as the others."""
    old = kind == "deepseek_v2"
    defaults = (4096, 11008, 32, 32, 64, 2, 0) if old else (7168, 18432, 61, 128, 256, 1, 3)
    hidden, ffn, layers, heads, experts, shared, dense = defaults
    heads = values.count(config, "num_attention_heads", default=heads)
    rotated = values.count(config, "qk_rope_head_dim", default=64)
    q_rank = config.get("q_lora_rank", 1536)
    return Model(
        name=values.name(config),
        arch=kind,
        layers=values.count(config, "num_hidden_layers", default=layers),
        hidden=values.count(config, "hidden_size", default=hidden),
        ffn=values.count(config, "intermediate_size", default=ffn),
        heads=heads,
        kv_heads=heads,
        head_dim=values.count(config, "qk_nope_head_dim", default=128) + rotated,
        vocab=values.count(config, "vocab_size", default=102_400 if old else 129_280),
        positions=values.count(config, "max_position_embeddings", default=2048 if old else 4096),
        tied=bool(config.get("tie_word_embeddings", False)),
        attention_bias=bool(config.get("attention_bias", False)),
        attention_dropout=values.rate(config, "attention_dropout"),
        rotary_dim=rotated,
        experts=values.count(config, "n_routed_experts", "num_experts", default=experts),
        experts_per_token=values.count(config, "num_experts_per_tok", default=6 if old else 8),
        moe_ffn=values.count(config, "moe_intermediate_size", default=1407 if old else 2048),
        shared_experts=values.count_or_none(config, "n_shared_experts", shared),
        dense_layers=values.count_or_none(config, "first_k_dense_replace", dense),
        q_rank=values.count(config, "q_lora_rank", default=1536) if q_rank else 0,
        kv_rank=values.count(config, "kv_lora_rank", default=512),
        value_dim=values.count(config, "v_head_dim", default=128),
    )


READERS: dict[str, Callable[[str, Mapping[str, Any]], Model]] = {
    "llama": _llama, "mistral": _llama, "qwen2": _llama, "qwen3": _llama, "gpt2": _gpt2,
    "gpt_neox": _gpt_neox, "opt": _opt, "phi": _phi, "phi3": _phi,
    "gemma2": _gemma, "gemma3": _gemma, "gemma3_text": _gemma,
    "mixtral": _experts, "qwen2_moe": _experts, "qwen3_moe": _experts, "olmoe": _experts,
    "deepseek_v2": _deepseek, "deepseek_v3": _deepseek,
}  # fmt: skip
