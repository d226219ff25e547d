from trainmem.ledger import PARTS, PHASES, Factor, Ledger, Row, divided, product


def rows():
    return Ledger((
        Row("gradients", "a", 3, "s"), Row("parameters", "b", 5, "s"), Row("gradients", "c", 7, "s"),
    ))  # fmt: skip


def test_a_total_is_the_sum_of_its_rows():
    """A ledger of 3, 5 and 7 bytes holds 15."""
    assert rows().total() == 15
    assert Ledger().total() == 0


def test_parts_are_summed_in_their_order():
    """Every part is there, in the order of the bar, and what no row names holds nothing."""
    assert list(rows().by_part()) == list(PARTS)
    assert rows().by_part() == {
        "parameters": 5, "gradients": 10, "optimizer": 0, "activations": 0, "overhead": 0,
    }  # fmt: skip


def test_formulas_multiply_and_divide():
    """Factors carry their operators, and a division by one GPU is not written."""
    formula = product((4, "bytes"), (8e9, "parameters"))
    assert formula == (Factor("", 4, "bytes"), Factor("×", 8e9, "parameters"))
    assert divided(formula, (1, "gpus")) == formula
    assert product((1, "communicators"), (5, "bytes")) == (Factor("", 5, "bytes"),)
    assert divided(formula, (8, "gpus"))[-1] == Factor("÷", 8, "gpus")


def test_a_formula_is_made_only_when_asked_for():
    """Making a row does not make its formula."""
    asked = []
    row = Row("gradients", "a", 3, "s", lambda: asked.append(1) or product((3, "bytes")))
    assert not asked
    assert row.factors() == product((3, "bytes"))
    assert asked == [1]


def test_phases_are_in_the_order_of_time():
    """A step goes from its forward to the optimizer."""
    assert PHASES[0] == "forward end"
    assert PHASES[-1] == "optimizer step"
    assert len(PHASES) == 5
