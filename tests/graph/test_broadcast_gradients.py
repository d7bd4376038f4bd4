"""reduce_to_shape: a gradient of the broadcast shape, summed back to the shape of the argument."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import thalweg as tf
from thalweg.graph.definitions.op_registry import is_defined
from thalweg.ops.math.math_gradients import _stretched_axes, reduce_to_shape


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("grad", "x", "other", "axes"),
    [
        ((2, 3), (2, 3), (3,), []),
        ((2, 3), (3,), (2, 3), [0]),
        ((2, 3), (2, 1), (2, 3), [1]),
        ((4, 2, 3), (1, 3), (4, 2, 3), [0, 1]),
        ((2, 3), (), (2, 3), [0, 1]),
        ((None, 3), (None, 3), (3,), []),  # A batch dimension that nothing stretches.
        ((None, 3), (3,), (None, 3), [0]),
        ((None, 3), (1, 3), (None, 3), [0]),
        ((None, 3), (None, 3), (None, 3), None),  # Either may be 1.
        ((5, 3), (None, 3), (5, 3), None),
        ((1, 3), (None, 3), (1, 3), []),
        (None, (3,), None, None),
        ((2, 3), None, (2, 3), None),
        ((1, 1), (1, 1), (1,), []),
    ],
)
def test_stretched_axes_are_found_when_shapes_decide(
    grad: tuple[int, ...] | None, x: tuple[int, ...] | None, other: tuple[int, ...] | None, axes: list[int] | None
) -> None:
    assert _stretched_axes(grad, x, other) == axes


def test_nothing_is_added_when_nothing_was_stretched(graph: tf.Graph) -> None:
    grad, x, bias = (
        tf.placeholder(tf.float32, [None, 3]),
        tf.placeholder(tf.float32, [None, 3]),
        tf.placeholder(tf.float32, [3]),
    )
    before = len(graph.get_operations())
    assert reduce_to_shape(grad, x, bias) is grad
    assert len(graph.get_operations()) == before


@pytest.mark.skipif(not is_defined("Sum") or not is_defined("Shape"), reason="needs reductions and array ops")
@pytest.mark.parametrize("shape", [[3], [1, 3], [2, 1], [], None])
def test_the_result_has_the_shape_of_the_argument(shape: list[int] | None) -> None:
    x, y = tf.placeholder(tf.float32, shape), tf.placeholder(tf.float32, [2, 3])
    result = reduce_to_shape((x + y) if shape is not None else tf.placeholder(tf.float32), x, y)
    assert result.shape == x.shape
