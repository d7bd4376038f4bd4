"""Switches of TensorFlow 2's behaviour: ops run at once, `==` compares elements, sizes in shapes are integers."""

from __future__ import annotations

from typing import Any

from thalweg.graph import tensor_shape
from thalweg.graph.default_graph import enable_eager, executing_eagerly
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.state.variable import Variable
from thalweg.version_two.public_names import otherwise, tf

_COMPARED = (EagerTensor, Variable)


def enable_v2_behavior() -> None:
    """Makes the program behave as in TensorFlow 2, for the rest of it; call it first.

    Ops run at once; `==` and `!=` of tensors that have values, and of variables, compare elements; `x.shape[0]` is an
    int or None. `thalweg.compat.v2` has the names and signatures that go with it.

    Raises:
        ValueError: If the program has begun to build a graph.
    """
    if not executing_eagerly():
        enable_eager()
    enable_tensor_equality()
    enable_v2_tensorshape()


def disable_v2_behavior() -> None:
    """Makes tensors compare by identity, and sizes in shapes be Dimensions, as at the start."""
    disable_tensor_equality()
    disable_v2_tensorshape()


def enable_tensor_equality() -> None:
    """Lets `==` of tensors that have values, and of variables, compare elements, as in TensorFlow 2."""
    for each in _COMPARED:
        # Hashes stay those of the object: they differ between objects, so that no dict compares elements.
        each.__hash__ = object.__hash__  # type: ignore[method-assign]
        each.__eq__ = _equal  # type: ignore[method-assign]
        each.__ne__ = _not_equal  # type: ignore[method-assign]


def disable_tensor_equality() -> None:
    """Lets `==` compare by identity."""
    for each in _COMPARED:
        if vars(each).get("__eq__") is _equal:
            for name in ("__eq__", "__ne__", "__hash__"):
                delattr(each, name)


def _equal(self: Any, other: Any) -> Any:
    return _compared(tf.equal, self, other, False)


def _not_equal(self: Any, other: Any) -> Any:
    return _compared(tf.not_equal, self, other, True)


def _compared(function: Any, left: Any, right: Any, otherwise_: bool) -> Any:
    """Elements compared; what cannot be compared is not equal."""
    if right is None:
        return otherwise_
    try:
        return function(left, right)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return otherwise_


def enable_v2_tensorshape() -> None:
    """Lets the items of shapes be integers, and None where a size is not known."""
    tensor_shape.items_are_integers = True


def disable_v2_tensorshape() -> None:
    """Lets the items of shapes be Dimensions."""
    tensor_shape.items_are_integers = False


otherwise("enable_v2_behavior")(enable_v2_behavior)
