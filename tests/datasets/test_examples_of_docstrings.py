"""The examples in the docstrings of the data sets run and print what they say."""

import doctest

import pytest

from thalweg.datasets import batches, mnist, pictures


@pytest.mark.parametrize("module", [batches, mnist, pictures])
def test_the_examples_of_a_module_run(module):
    assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted
