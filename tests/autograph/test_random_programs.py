"""Random programs give in a graph what they give in Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.programs import Writer
from tests.autograph.running import defined

_SEEDS_A_TEST = 10


@pytest.mark.parametrize("first", range(0, 240, _SEEDS_A_TEST))
def test_random_programs_give_what_python_gives(first: int) -> None:
    for seed in range(first, first + _SEEDS_A_TEST):
        text = Writer(seed).program()
        function = defined(text)
        numbers = random.Random(seed)
        graph = tf.Graph()
        with graph.as_default():
            a, b = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
            x = tf.placeholder(tf.float32, [])
            result = tf.autograph.to_graph(function)(a, b, x, tf.range)
            with tf.Session() as session:
                for _ in range(3):
                    values = numbers.randint(-4, 12), numbers.randint(-4, 12), numbers.choice([-1.5, 0.25, 3.0])
                    expected = function(*values, range)
                    actual = session.run(
                        [tf.convert_to_tensor(r) for r in result], dict(zip((a, b, x), values, strict=True))
                    )
                    np.testing.assert_allclose(actual, expected, rtol=1e-5, err_msg=f"seed {seed}, {values}\n{text}")
