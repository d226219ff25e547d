"""What the keys of a run must satisfy together, and the nearest run that does.

`settle` never raises: a key that cannot stand beside the others falls back, and a problem says why and what would be right.
"""

from typing import Any

from trainmem.architectures import ARCHITECTURES, Model, every_target
from trainmem.run import KEYS, Run, model_of

Broken = tuple[str, Any, str, dict[str, Any]]  # key, what was given, kind of problem, its values

SHAPE = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "positions")


def settle(run: Run, given: frozenset[str]) -> tuple[Run, list[Broken]]:
    """A run whose keys agree, and what had to be changed. `given`: the keys that somebody set."""
    broken: list[Broken] = []
    for check in (
        _shape,
        _attention,
        _positions,
        _megatron,
        _framework,
        _axes,
        _targets,
        _stage,
        _adapter_keys,
    ):
        run = check(run, given, broken)
    return run, broken


def nearest_divisors(count: int, near: int) -> list[int]:
    """The divisors of `count` beside `near`: the largest below it and the smallest above it."""
    return _beside(_divisors(count), near)


def _divisors(count: int) -> list[int]:
    return [d for d in range(1, min(count, 1024) + 1) if count % d == 0]


def _beside(works: list[int], near: int) -> list[int]:
    """The largest below and the smallest above; where nothing is on one side, what there is on the other."""
    below, above = [d for d in works if d < near], [d for d in works if d > near]
    return below[-1:] + above[:1]


def _fits(run: Run) -> bool:
    """Whether the axes of a run divide its GPUs and its model."""
    model = model_of(run)
    heads = model.kv_heads % run.tp == 0 or run.tp % model.kv_heads == 0
    parts = (
        model.heads % run.tp == 0 and heads and model.ffn % run.tp == 0 and run.pp <= model.layers
    )
    return parts and run.gpus % (run.tp * run.pp * run.cp) == 0


def _back(run: Run, key: str, broken: list[Broken], kind: str, **values: Any) -> Run:
    broken.append((key, getattr(run, key), kind, values))
    return run.but(**{key: KEYS[key].default})


def _divides(run: Run, key: str, count: int, what: str, broken: list[Broken]) -> Run:
    near = ", ".join(map(str, nearest_divisors(count, getattr(run, key))))
    return _back(run, key, broken, "not_divisible", count=count, what=what, nearest=near)


def _shape(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    model = model_of(run)
    if model.heads % model.kv_heads:
        if run.kv_heads:
            run = _divides(run, "kv_heads", model.heads, "heads", broken)
        if model_of(run).heads % model_of(run).kv_heads:  # only the query heads were named
            run = run.but(kv_heads=model_of(run).heads)
    for key, least in ARCHITECTURES[model.arch].defaults.items():
        if least and not getattr(model, key):
            run = _back(run, key, broken, "range", low=1, high=KEYS[key].maximum, nearest=least)
    model = model_of(run)
    if model.rotary_dim > model.head_dim:
        if run.rotary_dim:
            run = _back(run, "rotary_dim", broken, "range", low=0, high=model.head_dim, nearest=0)
        run = run.but(rotary_dim=min(model_of(run).rotary_dim, model.head_dim))
    run, model = _chosen(run, broken), model_of(run)
    alike = model.arch in ("gpt_neox", "opt")
    alike |= model.arch == "gpt2" and run.framework == "transformers"
    if alike and model_of(run).kv_heads != model_of(run).heads:
        heads = model_of(run).heads
        if run.kv_heads:
            run = _back(run, "kv_heads", broken, "bad_value", allowed=str(heads), nearest=heads)
        run = run.but(kv_heads=heads)
    return run


def _chosen(run: Run, broken: list[Broken]) -> Run:
    """No more experts work on a token than there are."""
    model = model_of(run)
    if model.experts_per_token <= max(1, model.experts):
        return run
    values = {"low": 1, "high": model.experts, "nearest": model.experts}
    run = _back(run, "experts_per_token", broken, "range", **values)
    if model_of(run).experts_per_token <= model.experts:
        return run
    return run.but(experts_per_token=model.experts)


def _attention(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """A family that no fused kernel serves is written out."""
    kernels = ARCHITECTURES[model_of(run).arch].attentions
    if not kernels or run.attention in kernels:
        return run
    if "attention" in given:
        values = {"allowed": ", ".join(kernels), "nearest": kernels[0]}
        broken.append(("attention", run.attention, "bad_value", values))
    return run.but(attention=kernels[0])


def _positions(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """A model with learned positions has a weight for each; a longer sequence cannot be run."""
    model: Model = model_of(run)
    if not ARCHITECTURES[model.arch].learned_positions or run.seq <= model.positions:
        return run
    if "seq" in given:
        values = {"positions": model.positions, "model": model.name or model.arch}
        broken.append(("seq", run.seq, "beyond_positions", values))
    return run.but(seq=model.positions)


MEGATRON_ALONE = {
    "sp": (True,), "pp": (), "vpp": (), "cp": (),
    "ep": (), "etp": (), "dispatcher": ("allgather",), "grouped_gemm": (False,), "norm": (), "activation": (), "position": (), "gradient_fusion": (False,), "mask": (False,),
    "attention": ("flash2", "fused", "unfused"), "loss": ("vocab-parallel", "fused-te"), "sharding": ("megatron",),
}  # fmt: skip
"""Keys of which some values (none listed: any but the default) exist in Megatron-Core's forms alone."""


def _framework(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """What only Megatron-Core's layers know needs that framework."""
    if run.framework == "megatron":
        return run
    for key, values in MEGATRON_ALONE.items():
        value = getattr(run, key)
        if value in values or (not values and value != KEYS[key].default):
            run = _back(run, key, broken, "needs", needs="framework=megatron")
    return run


NOT_IN_MEGATRON = {
    "lora_rank": 0, "offload": "none", "keep_outputs": False, "base": "recipe", "gradients": "freed",
}  # fmt: skip


MEGATRON_FAMILIES = (
    "llama", "mistral", "qwen2", "qwen3", "gpt2", "mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3",
)  # fmt: skip
"""Families whose layers Megatron-Core builds from the parts that we know; others are refused."""


def _megatron(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """What Megatron-Core's forms leave out is said, and left out."""
    if run.framework != "megatron":
        return run
    if model_of(run).arch not in MEGATRON_FAMILIES:
        return _back(run, "framework", broken, "not_modelled", what=f"arch={model_of(run).arch}")
    for key, off in NOT_IN_MEGATRON.items():
        if getattr(run, key) != off:
            run = _back(run, key, broken, "not_modelled", what="framework=megatron")
    if run.checkpointing not in ("none", "full", "selective-attention"):
        run = _back(
            run,
            "checkpointing",
            broken,
            "bad_value",
            allowed="none, full, selective-attention",
            nearest="full",
        )
    if run.loss == "chunked":
        run = _back(
            run,
            "loss",
            broken,
            "bad_value",
            allowed="full, vocab-parallel, fused, fused-te",
            nearest="full",
        )
    if run.zero > "1":
        run = _back(run, "zero", broken, "bad_value", allowed="0, 1", nearest="1").but(zero="1")
    if run.sharding not in ("auto", "megatron"):
        run = _back(
            run, "sharding", broken, "bad_value", allowed="auto, megatron", nearest="megatron"
        )
    return run


def _axes(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """Tensor, pipeline and context parallelism must divide what they share, and the GPUs."""
    run = _tensor_parallel(run, broken)
    model = model_of(run)
    if run.pp > model.layers:
        run = _divides(run, "pp", model.layers, "layers", broken)
    if run.vpp > 1 and (run.pp == 1 or model.layers % (run.pp * run.vpp)):
        run = _divides(run, "vpp", model.layers // run.pp if run.pp > 1 else 1, "layers", broken)
    if run.cp > 1 and run.seq % (2 * run.cp):
        run = _divides(run, "cp", max(1, run.seq // 2), "seq", broken)
    run = _experts(_groups(run, given, broken), broken)
    return run.but(vpp=1) if run.pp == 1 else run


def _groups(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """The axes multiply to a divisor of the GPUs; a number of GPUs that nobody set follows them."""
    group = run.tp * run.pp * run.cp
    if run.gpus % group == 0:
        return run
    if "gpus" not in given:
        return run.but(gpus=group)
    key = max(("tp", "pp", "cp"), key=lambda name: int(getattr(run, name)))
    works = [d for d in _divisors(run.gpus) if _fits(run.but(**{key: d}))]
    near = ", ".join(map(str, _beside(works, getattr(run, key))))
    run = _back(run, key, broken, "not_divisible", count=run.gpus, what="gpus", nearest=near)
    return run if run.gpus % (run.tp * run.pp * run.cp) == 0 else run.but(tp=1, pp=1, cp=1)


def _experts(run: Run, broken: list[Broken]) -> Run:
    """Experts are dealt whole; an expert's own tensor parallelism divides its width."""
    model = model_of(run)
    if run.ep > 1 and (not model.experts or model.experts % run.ep):
        run = _divides(run, "ep", model.experts or 1, "experts", broken)
    if run.etp and (model.moe_ffn or model.ffn) % run.etp:
        run = _divides(run, "etp", model.moe_ffn or model.ffn, "moe_ffn", broken)
    ranks = run.gpus // run.pp
    if run.ep > 1 and ranks % (run.ep * (run.etp or run.tp)):
        run = _divides(run, "ep", ranks, "gpus", broken).but(etp=None)
    return run


def _tensor_parallel(run: Run, broken: list[Broken]) -> Run:
    if run.tp == 1:
        return run
    model = model_of(run)
    if model.heads % run.tp:
        return _divides(run, "tp", model.heads, "heads", broken)
    if model.kv_heads % run.tp and run.tp % model.kv_heads:
        return _divides(run, "tp", model.kv_heads, "kv_heads", broken)
    if model.ffn % run.tp:
        return _divides(run, "tp", model.ffn, "ffn", broken)
    return run


def _targets(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """LoRA targets are names of the family's linears; PEFT's default for a family stands in for names that it lacks."""
    known = every_target(model_of(run))
    names = run.lora_targets.split(",")
    if not run.lora_rank or all(name in known for name in names):
        return run
    if "lora_targets" in given:
        unknown = next(name for name in names if name not in known)
        broken.append(
            (
                "lora_targets",
                unknown,
                "bad_value",
                {"allowed": ", ".join(known), "nearest": known[0]},
            )
        )
    fallback = KEYS["lora_targets"].default
    fits = all(name in known for name in fallback.split(","))
    return run.but(lora_targets=fallback if fits else known[0])


def _stage(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    if run.sharding == "fsdp2" and run.zero == "1":
        return _back(run, "zero", broken, "bad_value", allowed="0, 2, 3", nearest="2").but(zero="2")
    return run


def _adapter_keys(run: Run, given: frozenset[str], broken: list[Broken]) -> Run:
    """A packed base cannot train: it needs adapters."""
    if run.base != "recipe" and not run.lora_rank:
        return _back(run, "base", broken, "needs", needs="lora_rank")
    return run
