"""The order of nodes on one device: branch after branch, not all branches at once."""

from __future__ import annotations

import thalweg as tf
from thalweg._native import core


def test_branches_run_one_after_the_other_in_a_fraction_of_the_memory() -> None:
    size, branches = 128, 8
    x = tf.random_uniform([size, size], seed=1)
    ends = []
    for k in range(branches):
        y = tf.sort(tf.matmul(x, x * float(k + 1)))
        ends.append(tf.reduce_sum(tf.sort(tf.matmul(y, x))))
    total = tf.add_n(ends)
    with tf.Session() as sess:
        sess.run(total)
        before = core.allocator_stats()["bytes_in_use"]
        core.reset_peak_bytes()
        sess.run(total)
        peak = (core.allocator_stats()["peak_bytes"] - before) / (4 * size * size)
    assert peak < branches * 0.75
