import pytest

from trainmem.precision import BYTES, PRECISIONS


@pytest.mark.parametrize(
    ("name", "weights", "gradients", "states"),
    [
        ("fp32-true", 4, 4, 8),
        ("bf16-true", 2, 2, 4),
        ("bf16-mixed", 4, 4, 8),
        ("fp16-mixed", 4, 4, 8),
        ("bf16-master", 2, 2, 12),
    ],
)
def test_bytes_a_parameter(name, weights, gradients, states):
    """Weights, gradients and Adam's states (with a master copy) take the published bytes a parameter."""
    recipe = PRECISIONS[name]
    assert recipe.weights == weights
    assert recipe.gradients == gradients
    assert 2 * recipe.moments + recipe.master == states


def test_the_round_rule():
    """7e9 parameters take 28 GB in FP32 and 14 GB in BF16."""
    assert 7e9 * PRECISIONS["fp32-true"].weights == 28e9
    assert 7e9 * PRECISIONS["bf16-true"].weights == 14e9


def test_only_mixed_recipes_cast():
    """autocast keeps wide weights and computes narrow; the other recipes compute in the weights' format."""
    for name, recipe in PRECISIONS.items():
        assert recipe.autocast == name.endswith("-mixed")
        assert (recipe.compute < recipe.weights) == recipe.autocast


def test_formats_have_their_bits():
    """Four bits are half a byte."""
    assert {name: 8 * size for name, size in BYTES.items()} == {
        "fp32": 32, "bf16": 16, "fp16": 16, "int8": 8, "nf4": 4,
    }  # fmt: skip
