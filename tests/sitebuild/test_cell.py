"""Editable cells: what the build prints under them."""

import pytest
from pymdownx.superfences import SuperFencesException

from sitebuild.cell import cell


def test_output_of_the_build_is_shown():
    """The cell's code and what it prints are both on the page, escaped."""
    html = cell("print('<b>', 6 * 7)", "cell", "", {}, None)

    assert "print('&lt;b&gt;', 6 * 7)" in html
    assert "&lt;b&gt; 42" in html


def test_cell_that_raises_stops_the_build():
    """A cell that no longer works is found when the site is built."""
    with pytest.raises(SuperFencesException, match="ZeroDivisionError"):
        cell("1 / 0", "cell", "", {}, None)
