from pathlib import Path

import pytest

from trainmem.architectures import ARCHITECTURES
from trainmem.huggingface import from_hf
from trainmem.link import FROZEN, LONGEST_QUERY, RENAMED, VERSION, link, parse
from trainmem.run import KEYS, Run, model_of

VERSION_1 = {
    "model": "llama-3.1-8b", "arch": "", "layers": None, "hidden": None, "ffn": None, "heads": None,
    "kv_heads": None, "head_dim": None, "vocab": None, "positions": None, "tied": "", "attention_bias": "",
    "mlp_bias": "", "dropout": None, "attention_dropout": None, "window": None, "rotary_dim": None, "experts": None,
    "experts_per_token": None, "moe_ffn": None, "shared_experts": None, "dense_layers": None, "q_rank": None,
    "kv_rank": None, "value_dim": None, "precision": "bf16-mixed", "optimizer": "adamw",
    "micro_batch": 1, "seq": 2048, "grad_accum": 1, "attention": "sdpa", "loss": "full", "gradients": "freed",
    "keep_outputs": False, "framework": "transformers", "checkpointing": "none", "lora_rank": 0,
    "lora_targets": "q_proj,v_proj", "lora_dropout": 0.0, "lora_dtype": "fp32", "base": "recipe",
    "offload": "none", "gpus": 1, "zero": "0", "sharding": "auto", "fsdp_param": "auto", "fsdp_reduce": "auto",
    "bucket": 500_000_000, "tp": 1, "gpu": "h100-sxm-80gb", "ecc": True, "usable": None, "headroom": 10.0,
    "units": "gib", "embed": False,
}  # fmt: skip
"""The defaults with which links of version 1 are read. They never change: not here, not in the package."""

PUBLISHED = [
    tuple(line.rstrip("\n").split("\t"))
    for line in (Path(__file__).parent / "links.txt").open(encoding="utf-8")
    if not line.startswith("#")
]


def read(query):
    """A run, and the sentences of what was wrong."""
    run, problems = parse(query)
    return run, [str(problem) for problem in problems]


# What a link means for ever


def test_the_defaults_of_version_1_are_frozen():
    """The table of the first link version stands as it was published; the keys' defaults follow it."""
    for name, value in VERSION_1.items():
        assert FROZEN[1][name] == value, name
        assert type(FROZEN[1][name]) is type(value), name
    assert VERSION == 1
    assert {name: KEYS[name].default for name in VERSION_1} == VERSION_1
    assert {name: getattr(Run(), name) for name in VERSION_1} == VERSION_1


def test_every_key_has_a_frozen_default():
    """A key that is added gets its default in the table of the version, or old links would not be complete."""
    assert set(FROZEN[VERSION]) == set(KEYS)
    assert FROZEN[VERSION] == {name: key.default for name, key in KEYS.items()}


def test_renamed_keys_lead_to_keys():
    """An old name leads to one of today's, and is none itself."""
    assert set(RENAMED.values()) <= set(KEYS)
    assert not set(RENAMED) & set(KEYS)


@pytest.mark.parametrize(
    ("query", "meaning"), PUBLISHED, ids=[query or "empty" for query, _ in PUBLISHED]
)
def test_published_links_mean_what_they_meant(query, meaning):
    """A published link is read without a problem, and as the run that it was published for."""
    run, problems = read(query)
    assert problems == []
    assert link(run) == meaning
    assert read(meaning) == (run, [])


def test_there_are_published_links():
    """The list of links is there, and no line of it was lost."""
    assert len(PUBLISHED) >= 16


# Reading and writing


def test_a_link_names_only_what_differs():
    """The version, then the keys that differ from the defaults, in the order of the keys."""
    assert link(Run()) == "v=1"
    assert (
        link(Run(seq=512, zero="3", gpus=8, model="gpt2")) == "v=1&model=gpt2&seq=512&gpus=8&zero=3"
    )
    assert (
        link(Run(keep_outputs=True, ecc=False, headroom=12.5))
        == "v=1&keep_outputs=1&ecc=0&headroom=12.5"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (80 << 30, "80GiB"),
        (80 * 10**9, "80GB"),
        (24_564 << 20, "24564MiB"),
        (85_045_477_376, "85045477376B"),
    ],
)
def test_sizes_keep_their_bytes(size, text):
    """A size is written in the largest unit that leaves a whole number, and read as the same bytes."""
    assert link(Run(usable=size)) == f"v=1&usable={text}"
    assert parse(f"usable={text}")[0].usable == size


@pytest.mark.parametrize(
    "query",
    ["?seq=512", "seq=512&", "&&seq=512", "v=1&seq=512", "seq=5%312", " seq = 512 ", "seq=512&v=1"],
)
def test_links_are_read_as_browsers_write_them(query):
    """A question mark, empty pairs, spaces and percent signs are nothing wrong."""
    assert read(query) == (Run(seq=512), [])


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ("seq=8k", "seq", 8192), ("bucket=2e8", "bucket", 200_000_000), ("vocab=128k", "vocab", 128_000),
        ("seq=2,048", "seq", 2048), ("model=GPT-2", "model", "gpt2"), ("keep_outputs=true", "keep_outputs", True),
        ("keep_outputs", "keep_outputs", True), ("ecc=off", "ecc", False), ("usable=80GB", "usable", 80_000_000_000),
        ("usable=80", "usable", 80 << 30), ("headroom=7.5", "headroom", 7.5), ("dropout=0.1", "dropout", 0.1),
        ("layers=", "layers", None), ("arch=", "arch", ""), ("micro_batch=٤", "micro_batch", 4),
        ("lora_targets=q_proj,+k_proj,q_proj", "lora_targets", "q_proj,k_proj"),
    ],
)  # fmt: skip
def test_values_as_people_type_them(query, key, value):
    """Suffixes, groups, other digits, other names: all are understood."""
    run, problems = read(query)
    assert problems == []
    assert getattr(run, key) == value


def test_a_pages_default_is_read_first():
    """What a page sets stands until the link says otherwise, and both may be wrong on their own."""
    run, problems = parse("seq=512", default="seq=1024&optimizer=sgd")
    assert (run, problems) == (Run(seq=512, optimizer="sgd"), [])
    _, problems = parse("seq=no", default="zero=9")
    assert [problem.key for problem in problems] == ["zero", "seq"]
    assert parse("seq=no", default="seq=1024")[0].seq == 1024


def test_a_model_from_a_config_is_part_of_the_run():
    """A config's dimensions become keys, so that its link holds everything; the query's own win."""
    config = {"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512,
              "tie_word_embeddings": True}  # fmt: skip
    model = from_hf(config)
    run, problems = parse("seq=128", model=model)
    assert problems == []
    assert model_of(run) == model
    assert parse(link(run)) == (run, [])
    assert parse("layers=5", model=model)[0].layers == 5


# What is wrong in a link, in a sentence


@pytest.mark.parametrize(
    ("query", "sentence", "stands"),
    [
        ("model=nope", "model: No model is called nope. Closest names: llama-3.1-8b.", {}),
        ("gpu=h10", "gpu: No GPU is called h10. Closest names: h100-sxm-80gb, h100-nvl-94gb, h100-pcie-80gb.", {}),
        ("gpus=-3", "gpus must be between 1 and 1,048,576; -3 was given.", {}),
        ("seq=1e99", "seq must be between 1 and 134,217,728; 1e99 was given.", {}),
        ("seq=lots", "seq must be a number; lots is not one.", {}),
        ("seq=1.5", "seq must be a whole number; the nearest to 1.5 is 2.", {}),
        ("tp=3&gpus=6", "tp cannot be 3: heads (32) must be divisible by it. Nearest values that work: 2, 4.", {"gpus": 6}),
        ("zero=9", "zero cannot be 9; allowed are 0, 1, 2, 3, and 3 is the nearest.", {}),
        ("optimizer=adam", "optimizer cannot be adam; allowed are adamw, adamw-fused, adamw-forloop, adamw-8bit, sgd, sgd-momentum, adagrad, adafactor, adafactor-foreach, lion, muon, and adamw is the nearest.", {}),
        ("precision=", "precision cannot be “”; allowed are fp32-true, bf16-true, bf16-mixed, fp16-mixed, bf16-master, and bf16-mixed is the nearest.", {}),
        ("ecc=maybe", "ecc cannot be maybe; allowed are 1, 0, and 1 is the nearest.", {}),
        ("seq=512&seq=1024", "seq is given twice; the first, 512, is used.", {"seq": 512}),
        ("microbatch=4", "microbatch is not a setting. Did you mean micro_batch?", {}),
        ("qqq=1", "qqq is not a setting, and was ignored.", {}),
        ("%00", "\N{REPLACEMENT CHARACTER} is not a setting, and was ignored.", {}),
        ("seq=%00", "seq must be a number; \N{REPLACEMENT CHARACTER} is not one.", {}),
        ("usable=big", "usable must be a size such as 80GiB; big is not one.", {}),
        ("usable=1", "", {"usable": 1 << 30}),
        ("headroom=95", "headroom must be between 0 and 90; 95 was given.", {}),
        ("base=nf4", "base cannot be nf4: that requires lora_rank.", {}),
        ("model=gpt2&seq=4096", "seq cannot be 4096: GPT-2 (124M) has learned positions for 1024 tokens, and 1024 is used.",
         {"model": "gpt2", "seq": 1024}),
        ("v=2", "This link is of version 2, which we don't know; it is read as version 1.", {}),
        ("<script>alert(1)</script>=1", "<script>alert(1)</script> is not a setting, and was ignored.", {}),
        ("model=<script>", "model: No model is called <script>. Closest names: llama-3.1-8b.", {}),
        ("\u202eseq=512", "\N{REPLACEMENT CHARACTER}seq is not a setting. Did you mean seq?", {}),
        ("model=\u202ea\u2066b", "model: No model is called \N{REPLACEMENT CHARACTER}a\N{REPLACEMENT CHARACTER}b. Closest names: llama-3.1-8b.", {}),
        ("x" * 100_000, "This link has 100000 characters; only the first 8192 were read.", {}),
    ],
)  # fmt: skip
def test_each_bad_value_is_one_sentence_and_the_rest_stands(query, sentence, stands):
    """The sentence names the key, what was given and what would do; the optimizer set beside it is not lost."""
    run, problems = read(f"{query}&lora_dtype=base" if len(query) < LONGEST_QUERY else query)
    assert problems == ([sentence] if sentence else [])
    beside = {"lora_dtype": "base"} if len(query) < LONGEST_QUERY else {}
    assert run == Run(**stands | beside)


def test_what_stands_before_the_limit_is_read():
    """Of a link that is too long, whole settings of its beginning count."""
    run, problems = read("seq=512&" + "a" * 20_000)
    assert run.seq == 512
    assert len(problems) == 1


def test_a_long_value_is_cut_in_its_sentence():
    """A reader's own text is shown, but not all of it."""
    _, problems = read("model=" + "m" * 3000)
    assert len(problems[0]) < 200
    assert "…" in problems[0]


def test_problems_speak_three_languages():
    """The same problem is a sentence in each language, with the key and what was given in it."""
    (problem,) = parse("gpus=-3")[1]
    for language in ("en", "ur", "bn"):
        assert "gpus" in problem.sentence(language)
        assert "-3" in problem.sentence(language)
    assert problem.sentence("ur") != problem.sentence("en") != problem.sentence("bn")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_targets_are_those_of_the_family(arch):
    """A target that the family does not have is refused, with those that it has."""
    run, problems = read(f"arch={arch}&kv_heads=32&seq=16&lora_rank=4&lora_targets=query")
    assert len(problems) == 1
    assert set(run.lora_targets.split(",")) <= set(ARCHITECTURES[arch].targets)
