import pytest

from trainmem.checks import nearest_divisors, settle
from trainmem.run import KEYS, Run, model_of


def settled(**keys):
    """The run that stands, and (key, kind) of what was changed."""
    run, broken = settle(Run(**keys), frozenset(keys))
    assert settle(run, frozenset(keys)) == (run, []), "a settled run stays as it is"
    return run, [(key, kind) for key, _, kind, _ in broken]


def test_the_default_run_stands():
    """Nothing is wrong with the defaults."""
    assert settled() == (Run(), [])


@pytest.mark.parametrize(
    ("count", "near", "expected"),
    [(32, 3, [2, 4]), (32, 64, [32]), (32, 1, [2]), (9, 2, [1, 3]), (7, 3, [1, 7]), (1, 5, [1])],
)
def test_nearest_divisors(count, near, expected):
    """The divisors on both sides of what was given."""
    assert nearest_divisors(count, near) == expected


@pytest.mark.parametrize(
    ("keys", "key", "kind"),
    [
        ({"tp": 3}, "tp", "not_divisible"),
        ({"tp": 2, "gpus": 3}, "tp", "not_divisible"),
        ({"tp": 2, "gpus": 2, "ffn": 101}, "tp", "not_divisible"),
        ({"kv_heads": 7}, "kv_heads", "not_divisible"),
        ({"model": "gpt2", "seq": 4096}, "seq", "beyond_positions"),
        ({"lora_rank": 8, "lora_targets": "c_attn"}, "lora_targets", "bad_value"),
        ({"sharding": "fsdp2", "zero": "1", "gpus": 8}, "zero", "bad_value"),
        ({"base": "nf4"}, "base", "needs"),
    ],
)
def test_keys_that_cannot_stand_together(keys, key, kind):
    """One problem, at the key that has to give way."""
    run, broken = settled(**keys)
    assert broken == [(key, kind)]
    assert getattr(run, key) != keys[key]


def test_the_rest_stands():
    """A key that falls back takes no other key with it."""
    run, _ = settled(tp=3, gpus=6, seq=512, optimizer="sgd")
    assert run == Run(gpus=6, seq=512, optimizer="sgd")


def test_tensor_parallelism_brings_its_gpus():
    """tp=4 alone means four GPUs, without a problem."""
    run, broken = settled(tp=4)
    assert (run.gpus, broken) == (4, [])


def test_fewer_key_heads_than_gpus():
    """Grouped heads are copied where more GPUs share a layer than there are."""
    run, broken = settled(tp=16)
    assert (run.tp, run.gpus, broken) == (16, 16, [])


def test_a_default_that_does_not_suit_the_family_moves_in_silence():
    """GPT-2 has fewer positions than the default sequence, and other linears: nobody asked for those, so nobody is told."""
    run, broken = settled(model="gpt2", lora_rank=8)
    assert broken == []
    assert run.seq == 1024
    assert run.lora_targets == "c_attn"


def test_query_heads_alone_bring_their_key_heads():
    """Somebody who names query heads only, which the preset's key heads do not divide, gets as many of both."""
    run, broken = settled(heads=31)
    assert not broken
    assert model_of(run).kv_heads == 31


def test_gpt2_has_no_grouped_heads():
    """The fused projection of GPT-2 has as many key heads as heads."""
    run, _ = settled(arch="gpt2", heads=8, kv_heads=2, hidden=64, seq=16)
    assert model_of(run).kv_heads == model_of(run).heads


def test_fallbacks_are_the_defaults():
    """What cannot stand becomes what it would be without having been given."""
    for key, value in (("tp", 3), ("base", "int8")):
        run, _ = settled(**{key: value})
        assert getattr(run, key) == KEYS[key].default


def test_capped_scores_are_written_out():
    """No fused kernel caps the scores of Gemma 2: its attention is eager, and a run that asks for another is told so."""
    run, broken = settled(model="gemma-2-2b", attention="sdpa")
    assert run.attention == "eager"
    assert broken == [("attention", "bad_value")]
    assert settle(Run(model="gemma-2-2b"), frozenset({"model"}))[1] == []


def test_a_mixture_has_experts_and_chooses_some():
    """A family of experts cannot be without them, and cannot choose more than it has."""
    run, broken = settled(arch="mixtral", experts=0)
    assert (model_of(run).experts, broken) == (8, [("experts", "range")])
    run, broken = settled(arch="mixtral", experts=4, experts_per_token=9)
    assert (model_of(run).experts_per_token, broken) == (2, [("experts_per_token", "range")])
    assert model_of(settled(model="mixtral-8x7b", experts=1)[0]).experts_per_token == 1
