"""Rows of measured runs as queries: what a published measurement says, in the vocabulary of links.

A row that uses a feature which the estimator does not model raises NotModelledError with the feature's name; nothing is guessed.
"""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]
Query = dict[str, Any]


class NotModelledError(Exception):
    """A row needs something that the estimator does not model; the text names it."""


MEGATRON_UNMODELLED = {
    "fp8-format": "FP8", "hybrid-layer-pattern": "hybrid layers", "use-megatron-fsdp": "Megatron-FSDP", "mtp-num-layers":
    "multi-token prediction", "cuda-graph-impl": "CUDA graphs", "overlap-moe-expert-parallel-comm": "overlapped expert traffic",
    "delay-wgrad-compute": "delayed weight gradients", "defer-embedding-wgrad-compute": "deferred embedding gradient",
    "num-distributed-optimizer-instances": "several optimizer instances", "pipeline-model-parallel-layout": "a pipeline layout of its own",
    "account-for-embedding-in-pipeline-split": "embedding counted as a layer",
    "encoder-num-layers": "encoder and decoder",
    "microbatch-group-size-per-virtual-pipeline-stage": "micro-batch groups", "img-h": "vision and language",
    "decoder-first-pipeline-num-layers": "uneven stages", "decoder-last-pipeline-num-layers": "uneven stages",
    "first-last-layers-bf16": "mixed layer formats", "recompute-modules": "recomputing single modules",
    "use-transformer-engine-op-fuser": "the operation fuser of Transformer Engine", "cp-comm-type": "hierarchical context parallelism",
}  # fmt: skip


def query_of(row: Row) -> str:
    """The query string of a row; raises NotModelledError."""
    repository = row["source"]["repo"]
    reader = READERS.get(repository)
    if reader is None:
        raise NotModelledError(f"the framework of {repository}")
    return "&".join(f"{key}={value}" for key, value in reader(row).items() if value is not None)


def _megatron(row: Row) -> Query:
    arguments = row.get("args") or {}
    for name, feature in MEGATRON_UNMODELLED.items():
        if name in arguments:
            raise NotModelledError(feature)
    if arguments.get("transformer-impl") == "local":
        raise NotModelledError("the local implementation of layers")
    if "bert" in row["id"] or "t5" in row["id"].split("-")[1]:
        raise NotModelledError("BERT and T5 in Megatron")
    if "muon" in str(arguments.get("optimizer")):
        raise NotModelledError("Muon in Megatron")
    if "uneven" in row["id"]:
        raise NotModelledError("uneven stages")
    if not row["n_gpus"]:
        raise NotModelledError("a number of GPUs that is not given")
    return _megatron_model(row, arguments) | _megatron_run(row, arguments)


def _megatron_model(row: Row, arguments: Row) -> Query:
    """Dimensions; what the arguments leave out is Megatron's default."""
    get = arguments.get
    hidden, heads = int(arguments["hidden-size"]), int(arguments["num-attention-heads"])
    gated, bias = "swiglu" in arguments, int("disable-bias-linear" not in arguments)
    grouped = "group-query-attention" in arguments
    wide = 4 * hidden if not gated else int(4 * hidden * 2 / 3 / 64) * 64
    unit = "swiglu" if gated else "squared-relu" if "squared-relu" in arguments else "gelu"
    return {
        "framework": "megatron", "arch": "gpt2", "layers": get("num-layers"), "hidden": hidden, "ffn": get("ffn-hidden-size") or wide,
        "heads": heads, "kv_heads": get("num-query-groups") if grouped else heads, "head_dim": get("kv-channels") or hidden // heads,
        "vocab": get("vocab-size") or row["model"]["vocab"] or 50257, "positions": get("max-position-embeddings"),
        "tied": int("untie-embeddings-and-output-weights" not in arguments), "attention_bias": bias, "mlp_bias": bias,
        "dropout": get("hidden-dropout", 0.1), "attention_dropout": get("attention-dropout", 0.1),
        "norm": "rmsnorm" if get("normalization") == "RMSNorm" else "layernorm", "activation": unit,
        "position": "rope" if get("position-embedding-type") == "rope" else "learned",
        **_megatron_experts(arguments), **_megatron_latent(arguments),
    }  # fmt: skip


def _megatron_experts(arguments: Row) -> Query:
    """Experts, where there are any; layers without come first or not at all."""
    get = arguments.get
    if not get("num-experts"):
        return {}
    pattern = str(get("moe-layer-freq", "1"))
    found = re.fullmatch(r"\(\[0\]\*(\d+)\+\[1\]\*\d+\)", pattern)
    if not found and pattern != "1":
        raise NotModelledError(f"layers with experts by the pattern {pattern}")
    width = int(
        get("moe-ffn-hidden-size") or get("ffn-hidden-size") or 4 * arguments["hidden-size"]
    )
    shared, rest = divmod(int(get("moe-shared-expert-intermediate-size", 0)), width)
    if rest:
        raise NotModelledError("a shared expert narrower than an expert")
    return {
        "experts": get("num-experts"), "experts_per_token": get("moe-router-topk", 2), "moe_ffn": width,
        "shared_experts": shared, "dense_layers": int(found[1]) if found else 0,
        "ep": get("expert-model-parallel-size", 1), "etp": get("expert-tensor-parallel-size"),
        "grouped_gemm": int("moe-grouped-gemm" in arguments),
        "dispatcher": "alltoall" if get("moe-token-dispatcher-type") == "alltoall" else "allgather",
    }  # fmt: skip


def _megatron_latent(arguments: Row) -> Query:
    """DeepSeek's latent attention."""
    get = arguments.get
    if not get("multi-latent-attention"):
        return {}
    rotary = int(arguments["qk-pos-emb-head-dim"])
    return {
        "q_rank": get("q-lora-rank"), "kv_rank": get("kv-lora-rank"), "rotary_dim": rotary,
        "head_dim": int(arguments["qk-head-dim"]) + rotary, "value_dim": get("v-head-dim"),
    }  # fmt: skip


def _megatron_run(row: Row, arguments: Row) -> Query:
    get = arguments.get
    axes = [
        int(get(f"{name}-parallel-size", 1))
        for name in ("tensor-model", "pipeline-model", "context")
    ]
    tensor, pipeline, context = axes
    data = row["n_gpus"] // (tensor * pipeline * context)
    batch, total = int(arguments["micro-batch-size"]), int(get("global-batch-size", 0))
    layers = int(arguments["num-layers"]) // pipeline
    chunks = get("num-virtual-stages-per-pipeline-rank")
    if "num-layers-per-virtual-pipeline-stage" in arguments:
        chunks = layers // int(arguments["num-layers-per-virtual-pipeline-stage"])
    fused = get("cross-entropy-fusion-impl", "native") == "native"
    kernels = {"unfused": "unfused", "flash": "flash2"}
    return {
        "micro_batch": batch, "seq": get("seq-length"), "grad_accum": max(1, total // (batch * data)) if total else None,
        "precision": "fp16-mixed" if "fp16" in arguments else "bf16-mixed", "optimizer": "adamw",
        "attention": kernels.get(get("attention-backend", ""), "fused"),
        "loss": ("fused" if fused else "fused-te") if "cross-entropy-loss-fusion" in arguments else "full",
        "gpus": row["n_gpus"], "zero": int("use-distributed-optimizer" in arguments), "tp": tensor, "pp": pipeline, "cp": context,
        "vpp": chunks, "sp": int("sequence-parallel" in arguments),
        "gradient_fusion": int("no-gradient-accumulation-fusion" not in arguments),
        "mask": int("no-create-attention-mask-in-dataloader" not in arguments),
        "checkpointing": "full" if get("recompute-granularity") == "full" else "none", "gpu": _card(row),
        "workspace": "32MiB",  # these tests set CUBLAS_WORKSPACE_CONFIG=:4096:8
    }  # fmt: skip


def _card(row: Row) -> str:
    name = str(row["gpu"]["name"]).lower()
    known = {"b200": "b200", "h100": "h100", "a100": "a100-80gb", "l40s": "l40s", "h200": "h200"}
    return next((identity for mark, identity in known.items() if mark in name), "h100")


def _simumax(row: Row) -> Query:
    """Megatron-Core as SimuMax runs it: Llama-like layers, fused loss of Transformer Engine, distributed optimizer."""
    model, shared = row["model"], row["sharding"]
    experts = _simumax_experts(str(model["mlp"]), model["head_dim"], shared["ep"])
    return {
        "framework": "megatron", "arch": "llama", "layers": model["layers"], "hidden": model["hidden"], "ffn": model["ffn"],
        "heads": model["heads"], "kv_heads": model["kv_heads"], "head_dim": model["head_dim"], "vocab": model["vocab"], "tied": 0,
        "micro_batch": row["micro_batch"], "seq": row["seq"], "precision": "bf16-mixed", "optimizer": "adamw", "loss": "fused-te",
        "attention": "fused", "gpus": row["n_gpus"], "zero": 1, "mask": 0, "tp": shared["tp"], "pp": shared["pp"], "cp": shared["cp"],
        "sp": int(bool(shared["sp"])), "gpu": _card(row),
        **experts,
    }  # fmt: skip


def _simumax_experts(text: str, head: int, parallel: int) -> Query:
    """Experts and latent attention as SimuMax's rows write them in words."""
    found = re.search(r"(\d+) experts top(\d+) ffn (\d+) \+ shared (\d+), (\d+) dense", text)
    latent = re.search(r"q_lora (\d+) kv_lora (\d+) rope (\d+)", text)
    if not found or not latent:
        return {}
    number, chosen, width, together, dense = map(int, found.groups())
    q_rank, kv_rank, rotary = map(int, latent.groups())
    return {
        "experts": number, "experts_per_token": chosen, "moe_ffn": width, "shared_experts": together // width,
        "dense_layers": dense, "ep": parallel, "etp": 1, "q_rank": q_rank, "kv_rank": kv_rank, "rotary_dim": rotary,
        "value_dim": head, "head_dim": head + rotary,
    }  # fmt: skip


def _peft(row: Row) -> Query:
    """transformers with PEFT on one GPU."""
    lora = row["lora"]
    kind = (lora or {}).get("peft_type") or "LORA"
    if kind != "LORA" or (lora or {}).get("dora") or row["quant"]:
        raise NotModelledError("DoRA" if (lora or {}).get("dora") else kind)
    presets = {"Llama 3.2 3B": "llama-3.2-3b"}
    if row["model"]["name"] not in presets:
        raise NotModelledError(f"the model {row['model']['name']}")
    query: Query = {
        "model": presets[row["model"]["name"]], "precision": "bf16-true", "optimizer": "adamw", "micro_batch": row["micro_batch"],
        "seq": row["seq"], "checkpointing": row["checkpointing"], "gpu": _card(row),
    }  # fmt: skip
    if lora:
        query |= {
            "lora_rank": lora["rank"],
            "lora_targets": ",".join(lora["targets"]),
            "lora_dtype": "fp32",
        }
    return query


READERS = {
    "NVIDIA/Megatron-LM": _megatron,
    "MooreThreads/SimuMax": _simumax,
    "huggingface/peft": _peft,
}
