"""Architectures: one short function a family that reads like the published forward.

To add one: write a function like `llama_layer` in dense.py (it records one layer on the tape and returns its output), an entry
in ARCHITECTURES below, and a reader in huggingface.py. Parameter counts, activations and FLOPs all come from that one walk.
"""

from trainmem.architectures.dense import (
    gpt2_layer,
    gpt_neox_layer,
    llama_layer,
    opt_layer,
    phi3_layer,
    phi_layer,
    qwen3_layer,
)
from trainmem.architectures.experts import (
    mixtral_layer,
    olmoe_layer,
    qwen2_moe_layer,
    qwen3_moe_layer,
)
from trainmem.architectures.gemma import gemma2_layer, gemma3_layer
from trainmem.architectures.latent import deepseek_v2_layer, deepseek_v3_layer
from trainmem.architectures.model import (
    Architecture,
    Kinds,
    Model,
    dense_first,
    every_sixth_sees_all,
)
from trainmem.tensors import Weight

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Kinds",
    "Model",
    "kinds",
    "outside_weights",
    "rotary_dim",
    "targets",
]


def kinds(model: Model, seq: int) -> Kinds:
    """The kinds of a model's layers; a window that is longer than the sequence makes no difference."""
    return ARCHITECTURES[model.arch].kinds(
        model._replace(window=model.window * (model.window <= seq))
    )


def targets(model: Model) -> tuple[str, ...]:
    """The family's targets of adapters that this model has."""
    absent: set[str] = set()
    if model.kv_rank:
        absent |= {"q_proj"} if model.q_rank else {"q_a_proj", "q_b_proj"}
    if model.experts and not model.shared_experts and not model.dense_layers:
        absent |= {"gate_proj", "up_proj", "down_proj", "shared_expert_gate"}
    return tuple(name for name in ARCHITECTURES[model.arch].targets if name not in absent)


ADAPTS_EXPERTS = frozenset({"mixtral", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3"})
"""Where PEFT's `all-linear` also adapts the fused experts, making their weights anew in each forward: not modelled."""


def every_target(model: Model) -> tuple[str, ...]:
    """What may be adapted: the family's targets, and `all-linear` where that means them."""
    names = targets(model)
    return names if model.experts and model.arch in ADAPTS_EXPERTS else (*names, "all-linear")


def rotary_dim(model: Model) -> int:
    """Numbers of a head that are rotated."""
    return model.rotary_dim or int(model.head_dim * ARCHITECTURES[model.arch].rotary)


def outside_weights(
    model: Model, width: int, trains: bool = True, positions: bool | None = None, norm: str = ""
) -> list[Weight]:
    """The parameters in no layer, in the order in which the model lists them; the head is the embedding when tied.

    `positions` and `norm`, where given, stand for the family's own.
    """
    architecture = ARCHITECTURES[model.arch]
    learned = architecture.learned_positions if positions is None else positions
    weights = [Weight("embed_tokens", model.vocab, model.hidden, width, trains, matmul=False)]
    if learned:
        weights.append(
            Weight(
                "positions",
                model.positions + architecture.spare_positions,
                model.hidden,
                width,
                trains,
                matmul=False,
            )
        )
    weights.append(Weight("norm", model.hidden, 0, width, trains, matmul=False))
    if (norm or architecture.final_norm) == "layernorm":
        weights.append(Weight("norm.bias", model.hidden, 0, width, trains, matmul=False))
    if not model.tied:
        weights.append(Weight("lm_head", model.vocab, model.hidden, width, trains, matmul=False))
    if architecture.head_bias:
        weights.append(Weight("lm_head.bias", model.vocab, 0, width, trains, matmul=False))
    return weights


LATENT = (
    "q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
)  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(llama_layer),
    "mistral": Architecture(llama_layer),
    "qwen2": Architecture(llama_layer, attention_bias=True),
    "qwen3": Architecture(qwen3_layer),
    "gpt2": Architecture(
        gpt2_layer, "layernorm", learned_positions=True, rotary=0, embedding_dropout=True, attention_bias=True,
        mlp_bias=True, dropout=0.1, attention_dropout=0.1, targets=("c_attn", "c_proj", "c_fc"),
    ),
    "gpt_neox": Architecture(
        gpt_neox_layer, "layernorm", rotary=0.25, attention_bias=True, mlp_bias=True,
        listed_first=("input_layernorm", "post_attention_layernorm"),
        targets=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
    ),
    "opt": Architecture(
        opt_layer, "layernorm", learned_positions=True, spare_positions=2, rotary=0, attention_bias=True, mlp_bias=True,
        dropout=0.1, targets=("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
    ),
    "phi": Architecture(
        phi_layer, "layernorm", rotary=0.5, head_bias=True, attention_bias=True, mlp_bias=True,
        targets=("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"),
    ),
    "mixtral": Architecture(
        mixtral_layer, defaults={"experts": 8, "experts_per_token": 2}, targets=("q_proj", "k_proj", "v_proj", "o_proj"),
    ),
    "qwen2_moe": Architecture(
        qwen2_moe_layer, attention_bias=True, defaults={"experts": 60, "experts_per_token": 4, "shared_experts": 4},
        targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "shared_expert_gate"),
    ),
    "qwen3_moe": Architecture(
        qwen3_moe_layer, defaults={"experts": 128, "experts_per_token": 8},
        targets=("q_proj", "k_proj", "v_proj", "o_proj"),
    ),
    "olmoe": Architecture(
        olmoe_layer, defaults={"experts": 64, "experts_per_token": 8}, targets=("q_proj", "k_proj", "v_proj", "o_proj"),
    ),
    "deepseek_v2": Architecture(
        deepseek_v2_layer, kinds=dense_first, targets=LATENT,
        defaults={
            "experts": 64, "experts_per_token": 6, "shared_experts": 2, "kv_rank": 512, "rotary_dim": 64, "value_dim": 128,
        },
    ),
    "deepseek_v3": Architecture(
        deepseek_v3_layer, kinds=dense_first, targets=LATENT,
        defaults={
            "experts": 256, "experts_per_token": 8, "shared_experts": 1, "kv_rank": 512, "rotary_dim": 64, "value_dim": 128,
        },
    ),
    "gemma2": Architecture(gemma2_layer, "gemma_norm", sees_all=1, attentions=("eager",), capped=True),
    "gemma3": Architecture(gemma3_layer, "gemma_norm", tables=2, sees_all=5, kinds=every_sixth_sees_all),
    "phi3": Architecture(
        phi3_layer, listed_first=("o_proj",), targets=("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    ),
}  # fmt: skip
