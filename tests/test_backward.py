from trainmem.backward import replay
from trainmem.precision import PRECISIONS
from trainmem.tape import Tape

N, IN, OUT = 5, 8, 6
BF16 = PRECISIONS["bf16-true"]


def linear(recipe="bf16-true"):
    tape = Tape(PRECISIONS[recipe], N, N)
    return tape, tape.linear(tape.new(IN), OUT, "a")


def test_one_linear():
    """At the highest point are the kept input, both gradients of activations, and the weight's gradient."""
    tape, y = linear()
    found = replay(tape, y)
    assert found.kept == 2 * N * IN
    assert found.weight_gradients == 2 * IN * OUT
    assert found.working == 2 * N * OUT + 2 * N * IN
    assert found.peak == found.kept + found.weight_gradients + found.working


def test_held_tensors_are_not_counted_twice():
    """A tensor that is counted elsewhere, such as a checkpointed input, is left out."""
    tape = Tape(BF16, N, N)
    x = tape.new(IN)
    y = tape.linear(x, OUT, "a")
    assert replay(tape, y, held=(x,)).kept == 0
    assert replay(tape, y).peak - replay(tape, y, held=(x,)).peak == 2 * N * IN


def test_the_gradient_of_a_sum_is_passed_on():
    """A residual sum makes no second gradient: its backward is as high as the branch alone."""
    tape = Tape(BF16, N, N)
    x = tape.new(IN)
    y = tape.add(x, tape.linear(x, IN, "a"))
    found = replay(tape, y)
    # the gradient of the sum waits for x while the linear makes the one of its input: two, and no third
    assert found.working == 2 * 2 * N * IN


def test_kept_tensors_are_freed_as_backward_passes():
    """In a chain of linears the last one's input is gone when the first one's gradient is made."""
    tape = Tape(BF16, N, N)
    x = tape.new(IN)
    y = tape.linear(tape.linear(x, IN, "a"), IN, "b")
    found = replay(tape, y)
    one, weight = 2 * N * IN, 2 * IN * IN
    # at "b": both inputs, two gradients, one weight gradient; at "a": one input, two gradients, two weight gradients
    assert found.peak == max(2 * one + 2 * one + weight, one + 2 * one + 2 * weight)


def test_accumulated_gradients_live_for_their_operation():
    """With gradients already there, a new one is added and freed: a chain holds one at a time."""
    tape = Tape(BF16, 1, 1)
    x = tape.new(IN)
    for name in "abcd":
        x = tape.linear(x, IN, name)
    assert replay(tape, x, accumulate=True).weight_gradients == 2 * IN * IN
    assert replay(tape, x).weight_gradients == 4 * 2 * IN * IN


def test_autocast_gradients_are_cast_to_fp32():
    """The narrow gradient and its FP32 copy exist together for a moment, beside the input's FP32 gradient."""
    tape, y = linear("bf16-mixed")
    assert replay(tape, y).peak == 4 * N * IN + (2 + 4) * IN * OUT


def test_autocast_holds_the_copy_of_the_weight_until_its_backward():
    """With many outputs the highest point is the linear's own backward, the weight's copy beside it."""
    tape = Tape(PRECISIONS["bf16-mixed"], 100, 100)
    y = tape.linear(tape.new(IN), 64, "a")
    found = replay(tape, y)
    assert found.casts == 2 * IN * 64
    assert found.peak == 2 * (2 * 100 * IN + 100 * 64 + 2 * IN * 64)


def test_recomputed_operations_come_back_late():
    """What a recomputed block keeps does not exist while the backward of what follows runs."""
    tape = Tape(BF16, N, N)
    x = tape.new(IN)
    y = tape.activation(tape.activation(x))
    z = tape.linear(y, 64 * IN, "a")
    whole, late = replay(tape, z), replay(tape, z, recomputed=(0, 2))
    assert whole.peak - late.peak == 2 * 2 * N * IN


def test_a_branch_without_gradient_costs_nothing():
    """An input that needs no gradient gets none."""
    tape = Tape(BF16, N, N)
    y = tape.linear(tape.new(IN, grad=False), OUT, "a")
    assert replay(tape, y).working == 2 * N * OUT


def test_the_gradients_of_a_split_are_joined_once():
    """Three thirds make one gradient of the whole; parts make a gradient of the whole each."""
    found = {}
    for cut in ("split", "part"):
        tape = Tape(BF16, N, N)
        x = tape.new(3 * IN)
        views = (
            tape.split(x, IN, IN, IN) if cut == "split" else [tape.part(x, IN) for _ in range(3)]
        )
        y = tape.add(tape.add(views[0], views[1]), views[2])
        found[cut] = replay(tape, y).working
    assert found == {"split": 2 * N * 4 * IN, "part": 2 * N * 7 * IN}
