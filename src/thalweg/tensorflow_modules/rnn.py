"""Names of `tensorflow.python.ops.rnn` and `rnn_cell_impl` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.linear import Linear as _Linear
from thalweg.contrib.rnn.linear import linear as _linear
from thalweg.rnn.cell_base import assert_like_rnn_cell, sizes_with_batch

__all__ = [
    "_Linear", "_concat", "_like_rnncell", "_linear", "_transpose_batch_time", "assert_like_rnncell",
    "_WEIGHTS_VARIABLE_NAME", "_BIAS_VARIABLE_NAME",
]  # fmt: skip

_WEIGHTS_VARIABLE_NAME = "kernel"
_BIAS_VARIABLE_NAME = "bias"
assert_like_rnncell = assert_like_rnn_cell


def _like_rnncell(cell: Any) -> bool:
    try:
        assert_like_rnn_cell("cell", cell)
    except TypeError:
        return False
    return True


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    return sizes_with_batch(prefix, suffix)


def _transpose_batch_time(x: Any) -> Any:
    """Exchanges the first two axes."""
    x = tf.convert_to_tensor(x)
    if x.shape.ndims is not None:
        return x if x.shape.ndims < 2 else tf.transpose(x, [1, 0, *range(2, x.shape.ndims)])
    return tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], axis=0))
