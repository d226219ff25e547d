import pytest

from trainmem.precision import PRECISIONS
from trainmem.tape import Tape
from trainmem.tensors import Adapter, Tensor, Weight

TOKENS, WIDTH, OUT = 7, 24, 10
BF16, AUTOCAST, FP32 = PRECISIONS["bf16-true"], PRECISIONS["bf16-mixed"], PRECISIONS["fp32-true"]


def tape(recipe=BF16, trains=True, **keys):
    found = Tape(recipe, TOKENS, TOKENS, **keys)
    found.trains = trains
    return found


def test_a_linear_keeps_its_input():
    """The weight's gradient needs the input: 2 bytes a number in BF16."""
    walk = tape()
    y = walk.linear(walk.new(WIDTH), OUT, "a")
    assert walk.kept_bytes() == 2 * TOKENS * WIDTH
    assert (y.elements, y.width) == (TOKENS * OUT, 2)
    assert walk.flops == 2 * TOKENS * WIDTH * OUT


def test_what_two_operations_keep_counts_once():
    """Two linears on the same tensor keep it once."""
    walk = tape()
    x = walk.new(WIDTH)
    walk.linear(x, OUT, "a")
    walk.linear(x, OUT, "b")
    assert walk.kept_bytes() == 2 * TOKENS * WIDTH


def test_autocast_copies_for_each_linear():
    """Under autocast each linear makes a low-precision copy of its own, of the input and of the weight."""
    walk = tape(AUTOCAST)
    x = walk.new(WIDTH)
    assert x.width == 4
    walk.linear(x, OUT, "a", bias=True)
    walk.linear(x, OUT, "b")
    assert walk.kept_bytes() == 2 * (2 * TOKENS * WIDTH)
    assert walk.cast_bytes() == 2 * (2 * WIDTH * OUT + OUT)
    assert tape().cast_bytes() == 0


def test_a_frozen_linear_keeps_nothing():
    """Where the weight does not train, the input's gradient needs the weight alone."""
    walk = tape(trains=False)
    walk.linear(walk.new(WIDTH), OUT, "a")
    assert walk.kept_bytes() == 0
    assert not walk.weights[0].trainable


def test_what_needs_no_gradient_is_not_recorded():
    """A frozen linear on an input that needs no gradient is no node of the graph."""
    walk = tape(trains=False)
    y = walk.linear(walk.new(WIDTH, grad=False), OUT, "a")
    assert not y.grad
    assert not walk.operations


def test_rmsnorm_keeps_three_things():
    """In BF16: an FP32 copy of the input, the inverse root of each token, the normalised BF16."""
    walk = tape()
    walk.rmsnorm(walk.new(WIDTH), "norm")
    assert walk.kept_bytes() == TOKENS * (4 * WIDTH + 4 + 2 * WIDTH)


def test_rmsnorm_of_heads_has_a_root_each():
    """A norm over heads of 8 numbers keeps one root a head and a weight of 8."""
    walk = tape()
    walk.rmsnorm(walk.new(WIDTH), "norm", 8)
    assert walk.kept_bytes() == TOKENS * (6 * WIDTH + 4 * WIDTH // 8)
    assert walk.weights[0].elements == 8


def test_layernorm_keeps_its_input_and_two_statistics():
    """Mean and inverse deviation are FP32 numbers of each token; under autocast an FP32 input is no copy."""
    for recipe, width in ((BF16, 2), (FP32, 4), (AUTOCAST, 4)):
        walk = tape(recipe)
        walk.layernorm(walk.new(WIDTH), "norm")
        assert walk.kept_bytes() == TOKENS * (width * WIDTH + 8)


def test_pointwise_operations():
    """An activation keeps its input; a product keeps both sides; a sum keeps nothing; dropout keeps a byte a number."""
    walk = tape()
    x, y = walk.new(WIDTH), walk.new(WIDTH)
    walk.add(x, y)
    assert walk.kept_bytes() == 0
    walk.activation(x)
    assert walk.kept_bytes() == 2 * TOKENS * WIDTH
    walk.mul(x, y)
    assert walk.kept_bytes() == 2 * 2 * TOKENS * WIDTH
    walk.dropout(y, 0.1)
    assert walk.kept_bytes() == (2 * 2 + 1) * TOKENS * WIDTH
    assert walk.dropout(y, 0.0) is y


def test_a_product_with_a_constant_keeps_one_side():
    """The gradient of x needs y; where y has no gradient, x is not kept."""
    walk = tape()
    x, y = walk.new(WIDTH), walk.new(WIDTH, grad=False)
    walk.mul(x, y)
    assert list(walk.kept().values()) == [y]


def test_gelu_written_out_keeps_four_tensors():
    """Half of x, the cube's base, the hyperbolic tangent, and one more than it."""
    walk = tape()
    walk.gelu_written_out(walk.new(WIDTH))
    assert walk.kept_bytes() == 4 * 2 * TOKENS * WIDTH


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_flash_attention_keeps_its_inputs_output_and_a_root_a_head(kv_heads):
    """q, k, v, the output, an FP32 log-sum-exp for each head and token, and 24 bytes of random state."""
    walk = tape()
    q, k, v = walk.new(WIDTH), walk.new(4 * kv_heads), walk.new(4 * kv_heads)
    walk.attend(q, k, v, 6, kv_heads)
    assert walk.kept_bytes() == TOKENS * (2 * 2 * WIDTH + 2 * 2 * 4 * kv_heads + 4 * 6) + 24
    assert walk.flops == 4 * TOKENS * TOKENS * WIDTH


def test_eager_attention_keeps_the_scores():
    """Softmax in FP32 and its BF16 copy: 6 bytes a pair of tokens and head; grouped k and v are repeated."""
    walk = tape(attention="eager")
    q, k, v = walk.new(WIDTH), walk.new(8), walk.new(8)
    walk.attend(q, k, v, 6, 2)
    assert walk.kept_bytes() == TOKENS * (2 * 3 * WIDTH + 6 * 6 * TOKENS)


def test_eager_attention_without_upcast_keeps_two_bytes_a_pair():
    """Where softmax runs in BF16 it is kept once and serves the product too."""
    walk = tape(attention="eager")
    q = walk.new(WIDTH)
    walk.attend(q, walk.new(WIDTH), walk.new(WIDTH), 6, 6, upcast=False)
    assert walk.kept_bytes() == TOKENS * (2 * 3 * WIDTH + 2 * 6 * TOKENS)


def test_lora_keeps_an_fp32_input_and_the_narrow_product():
    """PEFT's FP32 adapter on a frozen BF16 linear: an FP32 copy of the input, and rank numbers a token."""
    walk = Tape(BF16, TOKENS, TOKENS, adapter=Adapter(4, frozenset({"a"}), 4, 0.0))
    assert not walk.trains
    y = walk.linear(walk.new(WIDTH), OUT, "a")
    assert walk.kept_bytes() == TOKENS * (4 * WIDTH + 4 * 4)
    assert y.width == 2
    assert sum(w.elements for w in walk.weights if w.trainable) == 4 * (WIDTH + OUT)


def test_lora_leaves_other_linears_alone():
    """A linear that is no target has no adapter."""
    walk = Tape(BF16, TOKENS, TOKENS, adapter=Adapter(4, frozenset({"b"}), 2, 0.0))
    walk.linear(walk.new(WIDTH), OUT, "a")
    assert walk.kept_bytes() == 0
    assert len(walk.weights) == 1


def test_sizes():
    """A tensor's bytes are its numbers times their width; a vector has no columns."""
    assert Tensor(10, 4).bytes == 40
    assert Weight("a", 5, 3, 2).elements == 15
    assert Weight("a", 5, 0, 2).elements == 5


def test_relu_keeps_what_it_returns():
    """The output tells where the input was positive, and the next product keeps it anyway."""
    walk = tape()
    walk.linear(walk.relu(walk.new(WIDTH)), OUT, "a")
    assert walk.kept_bytes() == 2 * TOKENS * WIDTH


def test_a_view_keeps_the_whole():
    """One third of a fused projection, kept, keeps all three; so does a part of it."""
    for views in (lambda walk, x: walk.split(x, 8, 8, 8), lambda walk, x: (walk.part(x, 8),)):
        walk = tape()
        walk.activation(views(walk, walk.new(WIDTH))[-1])
        assert walk.kept_bytes() == 2 * TOKENS * WIDTH


@pytest.mark.parametrize(("recipe", "copies"), [(BF16, 1), (FP32, 0)])
def test_attention_on_joined_heads_is_copied_back(recipe, copies):
    """Flash attention answers in the order of q; the memory-efficient kernel always token by token."""
    kept = {}
    for joined in (False, True):
        walk = tape(recipe)
        q, k, v = (walk.new(WIDTH) for _ in range(3))
        walk.linear(walk.attend(q, k, v, 3, 3, joined=joined), OUT, "o")
        kept[joined] = walk.kept_bytes()
    assert kept[True] - kept[False] == copies * 2 * TOKENS * WIDTH
