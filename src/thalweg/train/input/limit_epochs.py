"""tf.train.limit_epochs: a tensor that can be evaluated a limited number of times."""

from __future__ import annotations

from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import int64
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import identity
from thalweg.state.variable import Variable


@export("train.limit_epochs")
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """Returns `tensor`, `num_epochs` times; then OutOfRangeError.

    The count is a local variable, `epochs`: run `tf.local_variables_initializer()`.

    Args:
        tensor: Any tensor.
        num_epochs: How often it can be evaluated; None for ever.
        name: The name of the operation.

    Raises:
        ValueError: If `num_epochs` is not positive.

    Example:
        >>> x = tf.train.limit_epochs(tf.constant(7), num_epochs=1)
        >>> with tf.Session() as session:
        ...     session.run(tf.local_variables_initializer())
        ...     print(session.run(x))
        7
    """
    if num_epochs is None:
        return convert_to_tensor(tensor)
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(0, dtype=int64, trainable=False, name="epochs", collections=[GraphKeys.LOCAL_VARIABLES])
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            result: Tensor = identity(tensor, name=scope)
            return result
