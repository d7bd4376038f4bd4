"""Batches drawn from arrays: every example once an epoch, repeatable, and refusals."""

import itertools

import numpy as np
import pytest

from thalweg.datasets import batches


def test_an_epoch_has_every_example_once():
    stream = batches.shuffled(3, np.arange(12))
    epochs = [np.concatenate([next(stream)[0] for _ in range(4)]) for _ in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(12))
    assert not np.array_equal(*epochs)


def test_examples_of_several_arrays_stay_together():
    stream = batches.shuffled(4, np.arange(10), np.arange(10) * 2.5)
    for x, y in itertools.islice(stream, 7):
        assert x.shape == y.shape == (4,) and np.array_equal(y, x * 2.5)


def test_the_seed_decides():
    first, same, other = (
        np.concatenate([batch for (batch,) in itertools.islice(batches.shuffled(5, np.arange(50), seed=seed), 10)])
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first, same) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("size", "arrays", "message"),
    [
        (2, ([1, 2, 3], [1, 2]), r"one length, not of \[3, 2\]"),
        (4, ([1, 2, 3],), "batch of 4 cannot be drawn from 3"),
        (0, ([1, 2, 3],), "batch of 0"),
        (1, (), r"one length, not of \[\]"),
    ],
)
def test_impossible_batches_are_refused_at_once(size, arrays, message):
    with pytest.raises(ValueError, match=message):
        batches.shuffled(size, *arrays)
