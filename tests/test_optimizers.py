import pytest

from trainmem.estimate import estimate
from trainmem.optimizers import OPTIMIZERS
from trainmem.run import Run
from trainmem.tensors import Weight

MATRIX, VECTOR, SMALL = Weight("m", 512, 256, 4), Weight("v", 512, 0, 4), Weight("s", 32, 16, 4)
P = 512 * 256


def states(name, weight):
    return sum(size(weight, weight.width) for size in OPTIMIZERS[name].states.values())


@pytest.mark.parametrize(
    ("name", "matrix", "vector"),
    [
        ("adamw", 8 * P, 8 * 512),
        ("adamw-fused", 8 * P, 8 * 512),
        ("adamw-forloop", 8 * P, 8 * 512),
        ("sgd", 0, 0),
        ("sgd-momentum", 4 * P, 4 * 512),
        ("adagrad", 4 * P, 4 * 512),
        ("lion", 4 * P, 4 * 512),
        ("adafactor", 4 * (512 + 256), 4 * 512),
        ("adafactor-foreach", 4 * (512 + 256), 4 * 512),
        ("adamw-8bit", 2 * (P + 4 * P // 256), 2 * 4 * 512),
        ("muon", 4 * P, 8 * 512),
    ],
)
def test_states_of_a_matrix_and_of_a_vector(name, matrix, vector):
    """What an optimizer keeps for 512 x 256 FP32 weights, and for 512."""
    assert states(name, MATRIX) == matrix
    assert states(name, VECTOR) == vector


def test_eight_bit_adam_takes_two_bytes_and_a_scale_a_block():
    """A byte a parameter and moment, an FP32 scale for each 256; a tensor below 4,096 stays wide."""
    assert states("adamw-8bit", MATRIX) / P == pytest.approx(2 + 2 * 4 / 256)
    assert states("adamw-8bit", SMALL) == 8 * 512


@pytest.mark.parametrize(
    ("name", "copies"),
    [("adamw", 1), ("adamw-fused", 0), ("sgd", 0), ("sgd-momentum", 0), ("adagrad", 2), ("adafactor-foreach", 1), ("adamw-8bit", 0)],
)  # fmt: skip
def test_temporaries_of_a_step_in_copies_of_the_weights(name, copies):
    """torch's foreach form makes whole copies of every tensor; fused kernels make none."""
    counted = [(MATRIX, 3), (VECTOR, 2)]
    assert OPTIMIZERS[name].step(counted) == copies * 4 * (3 * P + 2 * 512)


def test_a_loop_over_tensors_needs_only_the_largest():
    """AdamW's loop holds two tensors of the largest one's size, however many there are."""
    assert OPTIMIZERS["adamw-forloop"].step([(MATRIX, 3), (VECTOR, 2)]) == 2 * 4 * P
    assert OPTIMIZERS["adamw-forloop"].step([]) == 0


@pytest.mark.parametrize(
    ("name", "state", "temporary"),
    [("adamw", 2, 1), ("adamw-fused", 2, 0), ("sgd-momentum", 1, 0), ("sgd", 0, 0), ("adagrad", 1, 2),
     ("adafactor", 0.0006, 0.13), ("adafactor-foreach", 0.0006, 1), ("muon", 1, 0.37)],
)  # fmt: skip
def test_states_and_temporaries_of_a_3b_model(name, state, temporary):
    """The share of the weights that states and step take, as PyTorch's operations were counted on a 3B model."""
    report = estimate(Run(model="llama-3.2-3b", precision="bf16-true", optimizer=name))
    amounts = report.amounts["optimizer step"]
    keys = OPTIMIZERS[name].states
    weights = amounts["weights"]
    assert sum(amounts.get(key, 0) for key in keys) / weights == pytest.approx(state, abs=0.004)
    assert amounts["step_temporary"] / weights == pytest.approx(temporary, abs=0.02)


def test_adam_triples_the_weights():
    """In FP32, weights with Adam's moments are three times the weights; four with gradients; five at the step."""
    report = estimate(Run(model="llama-2-7b", precision="fp32-true", micro_batch=1, seq=1))
    amounts = report.amounts["optimizer step"]
    weights = 4 * 6_738_415_616
    assert amounts["weights"] == weights
    assert amounts["weights"] + amounts["first_moment"] + amounts["second_moment"] == 3 * weights
    assert report.phases["optimizer step"] == 5 * weights + 16
    fused = estimate(report.run.but(optimizer="adamw-fused"))
    assert fused.phases["optimizer step"] == 4 * weights + 16


def test_states_have_sources_and_names():
    """Each optimizer says where its rule is from."""
    assert all(optimizer.source for optimizer in OPTIMIZERS.values())
