import pytest

from trainmem import words
from trainmem.architectures import ARCHITECTURES as FAMILIES
from trainmem.optimizers import OPTIMIZERS as RULES
from trainmem.precision import PRECISIONS as RECIPES
from trainmem.run import (
    ARCHITECTURES,
    DIMENSIONS,
    GROUPS,
    KEYS,
    OPTIMIZERS,
    PRECISIONS,
    Run,
    model_of,
)


def test_a_run_has_the_keys_and_their_defaults():
    """The frozen object and the table of keys say the same."""
    assert Run._fields == tuple(KEYS)
    assert {name: getattr(Run(), name) for name in KEYS} == {
        name: key.default for name, key in KEYS.items()
    }
    assert all(key.name == name for name, key in KEYS.items())


def test_defaults_are_allowed_values():
    """Each default is one that a reader may choose."""
    for key in KEYS.values():
        if key.kind == "choice":
            assert key.default in key.choices
        elif key.kind in ("count", "number"):
            assert key.minimum <= key.default <= key.maximum
        elif key.kind.startswith("optional"):
            assert key.default is None
        assert key.group in GROUPS


def test_choices_are_what_the_estimator_knows():
    """The names that a link may give are exactly those that have a rule."""
    assert set(OPTIMIZERS) == set(RULES)
    assert set(PRECISIONS) == set(RECIPES)
    assert set(ARCHITECTURES) == set(FAMILIES)


@pytest.mark.parametrize("name", KEYS)
def test_each_key_has_a_label_and_a_help(name):
    """A form and the command line's help can say what each key is."""
    assert words.has(f"label.{name}")
    assert words.has(f"help.{name}")


def test_changed_names_what_differs():
    """Only what is not the default, in the order of the keys."""
    assert Run().changed() == {}
    run = Run(seq=512, model="gpt2", tied="0")
    assert list(run.changed().items()) == [("model", "gpt2"), ("tied", "0"), ("seq", 512)]


def test_but_leaves_the_run_alone():
    """A changed copy is another run."""
    run = Run()
    assert run.but(seq=1).seq == 1
    assert run.seq == 2048
    with pytest.raises(AttributeError):
        run.seq = 1


def test_a_preset_has_its_published_shape():
    """Llama 3.1 8B as its config.json has it."""
    model = model_of(Run(model="llama-3.1-8b"))
    assert (model.arch, model.layers, model.hidden, model.ffn) == ("llama", 32, 4096, 14336)
    assert (model.heads, model.kv_heads, model.head_dim, model.vocab) == (32, 8, 128, 128_256)
    assert not model.tied
    assert model.name


def test_named_dimensions_replace_the_presets():
    """A run may change the shape of a preset; then it no longer bears its name."""
    model = model_of(Run(layers=2, tied="1", mlp_bias="1", dropout=0.5))
    assert (model.layers, model.hidden, model.tied, model.mlp_bias, model.dropout) == (
        2,
        4096,
        True,
        True,
        0.5,
    )
    assert not model.name
    assert model_of(Run(tied="1")).name


def test_a_family_brings_its_biases_and_dropout():
    """Qwen2 has biases on q, k and v, GPT-2 everywhere and dropout 0.1, unless the run says otherwise."""
    assert model_of(Run(model="qwen2.5-7b")).attention_bias
    gpt2 = model_of(Run(model="gpt2"))
    assert (gpt2.attention_bias, gpt2.mlp_bias, gpt2.dropout) == (True, True, 0.1)
    assert model_of(Run(model="gpt2", dropout=0.0)).dropout == 0
    assert not model_of(Run(model="qwen2.5-7b", attention_bias="0")).attention_bias


def test_every_dimension_of_a_model_is_a_key():
    """A model that is no preset can be written as a link."""
    assert set(DIMENSIONS) <= set(KEYS)
    assert set(DIMENSIONS) == set(type(model_of(Run()))._fields) - {"name"}
