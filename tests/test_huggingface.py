import pytest

from trainmem import ConfigError, estimate, from_hf, parse
from trainmem.huggingface import READERS

LLAMA = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128_256,
    "max_position_embeddings": 131_072, "tie_word_embeddings": True,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50_257,
    "n_positions": 1024,
}


def parameters(config):
    run, problems = parse("seq=16", model=from_hf(config))
    assert problems == []
    return estimate(run).parameters


def test_a_llama():
    """Llama 3.2 1B from its config.json."""
    model = from_hf(LLAMA)
    assert (model.arch, model.layers, model.hidden, model.ffn) == ("llama", 16, 2048, 8192)
    assert (model.heads, model.kv_heads, model.head_dim, model.vocab) == (32, 8, 64, 128_256)
    assert (model.positions, model.tied, model.attention_bias) == (131_072, True, False)
    assert parameters(LLAMA) == 1_235_814_400


def test_a_gpt2():
    """GPT-2 has names of its own, and all of its defaults."""
    model = from_hf(GPT2)
    assert (model.hidden, model.ffn, model.heads, model.kv_heads, model.head_dim) == (
        768,
        3072,
        12,
        12,
        64,
    )
    assert (model.dropout, model.attention_dropout, model.attention_bias, model.tied) == (
        0.1,
        0.1,
        True,
        True,
    )
    assert parameters(GPT2) == 124_439_808
    assert from_hf({"model_type": "gpt2"}) == model


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
          "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": True}, 494_032_768),
        ({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
          "num_key_value_heads": 8, "vocab_size": 151_936, "tie_word_embeddings": True}, 596_049_920),
        ({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32,
          "num_key_value_heads": 8, "vocab_size": 32_768}, 7_248_023_552),
        ({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32, "num_attention_heads": 32,
          "vocab_size": 32_000}, 6_738_415_616),
    ],
    ids=["qwen2.5-0.5b", "qwen3-0.6b", "mistral-7b-v0.3", "llama-2-7b"],
)  # fmt: skip
def test_published_counts(config, count):
    """Parameters of published models, from what their config.json says and from the defaults of their family."""
    assert parameters(config) == count


def test_defaults_of_a_family():
    """No grouped heads unless said; a head size of hidden / heads, but 128 in Qwen3; biases in Qwen2."""
    short = {
        key: LLAMA[key]
        for key in (
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
        )
    }
    llama = from_hf(short | {"model_type": "llama"})
    assert (llama.kv_heads, llama.head_dim, llama.tied) == (32, 64, False)
    assert from_hf(short | {"model_type": "qwen3"}).head_dim == 128
    assert from_hf(short | {"model_type": "qwen2"}).attention_bias
    assert from_hf(short | {"model_type": "llama", "head_dim": None}).head_dim == 64


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("gpt_neox", 20_554_567_680), ("opt", 125_239_296), ("phi", 1_418_270_720), ("phi3", 3_821_079_552),
        ("gemma2", 2_614_341_888), ("gemma3_text", 2_628_658_432),
        ("mixtral", 46_702_792_704), ("qwen2_moe", 14_315_784_192), ("qwen3_moe", 15_350_731_776), ("olmoe", 13_361_612_800),
        ("deepseek_v2", 38_612_307_968), ("deepseek_v3", 671_026_404_352),
    ],
)  # fmt: skip
def test_defaults_are_those_of_the_config_classes(kind, count):
    """A config that says nothing but its family has as many parameters as transformers 5.24 makes from its defaults."""
    assert parameters({"model_type": kind}) == count


def test_windows():
    """Mistral's first model had a window of 4,096 tokens, which is the default; null means none; Gemma 3's text part has its own."""
    mistral = LLAMA | {"model_type": "mistral"}
    assert from_hf(mistral).window == 4096
    assert from_hf(mistral | {"sliding_window": None}).window == 0
    assert from_hf({"model_type": "gemma3", "text_config": {"sliding_window": 512}}).window == 512
    assert from_hf({"model_type": "phi3"}).window == from_hf(LLAMA).window == 0


def test_a_part_of_each_head_is_rotated():
    """The rotated part is read from any of its places, and the family's own share stays unsaid."""
    phi = {"model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32}
    assert from_hf(phi).rotary_dim == 0
    assert from_hf(phi | {"partial_rotary_factor": 0.4}).rotary_dim == 32
    assert from_hf(phi | {"rope_parameters": {"partial_rotary_factor": 0.4}}).rotary_dim == 32
    assert from_hf({"model_type": "gpt_neox", "rotary_pct": 1.0}).rotary_dim == 96


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt_neox", "use_parallel_residual": False},
        {"model_type": "opt", "do_layer_norm_before": False},
        {"model_type": "opt", "hidden_size": 1024, "word_embed_proj_dim": 512},
        {"model_type": "phi", "qk_layernorm": True},
        {"model_type": "phi", "partial_rotary_factor": 2},
        {"model_type": "gemma2", "attn_logit_softcapping": None},
        {"model_type": "gemma3_text", "final_logit_softcapping": 30.0},
        LLAMA | {"model_type": "qwen2", "use_sliding_window": True},
        {"model_type": "qwen3_moe", "decoder_sparse_step": 2},
        {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 5000},
    ],
)
def test_a_variant_that_is_not_modelled_is_refused(config):
    """A switch whose other position has no form here is named, not passed over."""
    with pytest.raises(ConfigError, match=list(config)[-1]):
        from_hf(config)


def test_the_class_stands_in_for_the_type():
    """A config without model_type is known by its architectures."""
    nameless = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert from_hf(nameless | {"architectures": ["LlamaForCausalLM"]}) == from_hf(LLAMA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, r"model_type='mamba' is not a family .* llama, mistral"),
        ({"model_type": ""}, r"model_type='' is not a family"),
        ({"hidden_size": None}, r"hidden_size is missing"),
        ({"hidden_size": 0}, r"hidden_size='0' must be a positive whole number"),
        ({"hidden_size": -4}, r"hidden_size='-4' must be"),
        ({"hidden_size": "big"}, r"hidden_size='big' must be"),
        ({"hidden_size": 1.5}, r"hidden_size='1.5' must be"),
        ({"hidden_size": True}, r"hidden_size='True' must be"),
        ({"hidden_size": 10**30}, r"hidden_size='10+' must be"),
        (
            {"num_key_value_heads": 7},
            r"num_key_value_heads=7 does not divide num_attention_heads=32",
        ),
        ({"attention_dropout": 1.0}, r"attention_dropout='1.0' must be a number from 0"),
        ({"attention_dropout": "x"}, r"attention_dropout='x' must be a number"),
    ],
)
def test_what_cannot_be_read_says_why(change, message):
    """The message names the key, what it holds, and what it should."""
    with pytest.raises(ConfigError, match=message):
        from_hf(LLAMA | change)


def test_every_family_has_a_reader():
    """A family that is modelled can be read."""
    from trainmem.architectures import ARCHITECTURES

    assert set(ARCHITECTURES) <= set(READERS)
