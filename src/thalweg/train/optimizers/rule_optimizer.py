"""`by_one_rule`: for optimizers whose step is one op, the same for all elements and for some rows."""

from __future__ import annotations

from typing import Any, TypeVar

from thalweg.graph.tensor import Tensor

T = TypeVar("T", bound=type)


def _apply_dense(self: Any, grad: Tensor, handle: Any) -> Any:
    return self._step(grad, handle, None)


def _apply_sparse(self: Any, grad: Tensor, handle: Any, indices: Tensor) -> Any:
    return self._step(grad, handle, indices)


def by_one_rule(cls: T) -> T:
    """Decorator of a class that defines `_step(grad, var, indices)`: the op that updates some rows, or all (None).

    No base class, since programs look at the base of TensorFlow's optimizers: it is `tf.train.Optimizer`.
    """
    changed: Any = cls
    changed._resource_apply_dense = _apply_dense
    changed._resource_apply_sparse = _apply_sparse
    return cls
