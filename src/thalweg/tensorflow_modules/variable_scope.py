"""Names of `tensorflow.python.ops.variable_scope` that are not public."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from thalweg.contrib.public_names import tf


def variable(initial_value: Any = None, **kwargs: Any) -> Any:
    """Creates a variable: the constructor, with its arguments by name."""
    return tf.Variable(initial_value, **kwargs)


@contextlib.contextmanager
def _pure_variable_scope(name_or_scope: Any, reuse: Any = None, **kwargs: Any) -> Iterator[Any]:
    """A variable scope that opens no name scope."""
    with tf.variable_scope(name_or_scope, reuse=reuse, auxiliary_name_scope=False, **kwargs) as scope:
        yield scope
