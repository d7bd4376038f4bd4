"""Errors of Session.run that tell a newcomer what to do."""

from __future__ import annotations

import pytest

import thalweg as tf


def test_a_tensor_inside_of_a_loop_cannot_be_fetched_and_the_error_says_what_to_do() -> None:
    inner: list[tf.Tensor] = []

    def body(i: tf.Tensor) -> tf.Tensor:
        inner.append(tf.identity(i, name="inner"))
        return i + 1

    tf.while_loop(lambda i: i < 3, body, [0])
    with tf.Session() as session:
        with pytest.raises(ValueError, match=r"not fetchable.*the while loop 'while'.*TensorArray"):
            session.run(inner[0])
        with pytest.raises(ValueError, match=r"Operation 'while/inner' has been .*the while loop 'while'"):
            session.run(inner[0].op)


def test_a_tensor_inside_of_a_branch_cannot_be_fetched_and_the_error_says_what_to_do() -> None:
    inner: list[tf.Tensor] = []

    def branch() -> tf.Tensor:
        inner.append(tf.random_uniform([]))
        return inner[0]

    tf.cond(tf.constant(True), branch, lambda: tf.constant(1.0))
    with tf.Session() as session, pytest.raises(ValueError, match=r"the conditional 'cond'.*from both branches"):
        session.run(inner[0])


@pytest.mark.parametrize(("shape", "said"), [
    ([None, 3], r"with dtype float32 and shape \[\?,3\]$"), ([], r"and shape \[\]$"), (None, "with dtype float32$"),
])  # fmt: skip
def test_a_missing_feed_shows_the_expected_shape(shape: list[int | None] | None, said: str) -> None:
    x = tf.placeholder(tf.float32, shape, name="x")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as raised:
        session.run(x * 2)
    import re

    assert re.search(said, raised.value.message)
