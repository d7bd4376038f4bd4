"""Python operators on tensors (`x + y`, `1.0 - x`), and the calls that functions of one and two tensors are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.immediate import immediate
from thalweg.graph.tensor import Tensor


def binary_operator(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Installs `function(x, y)` as `Tensor.__name__` and `Tensor.__rname__`.

    Args:
        name: The operator without underscores: 'add', 'truediv'.
        function: Builds the op, under the node name that TensorFlow gives to the operator.
    """
    reflected = f"__r{name}__"

    def operator(x: Tensor, y: Any) -> Any:
        if isinstance(y, SparseTensor):
            return NotImplemented  # Its own reflected operator knows how.
        try:
            return function(x, y)
        except (TypeError, ValueError):
            # A value of a foreign type may know how to combine with a tensor. Numbers, arrays and tensors do not.
            if type(y).__module__ in ("builtins", "numpy") or isinstance(y, Tensor) or not hasattr(type(y), reflected):
                raise
            return NotImplemented

    def reflected_operator(y: Tensor, x: Any) -> Any:
        return NotImplemented if isinstance(x, SparseTensor) else function(x, y)

    Tensor.override_operator(f"__{name}__", operator)
    Tensor.override_operator(reflected, reflected_operator)


def eager_operator(name: str, op_type: str, only_floating: bool = False) -> None:
    """Gives eager tensors an operator that runs a known op at once, without the code that is for any values.

    Args:
        name: The operator without underscores; it has been installed for all tensors.
        op_type: The op that it applies to two tensors.
        only_floating: Whether it applies another one to integers.
    """
    general: Callable[[Any, Any], Any] = getattr(Tensor, f"__{name}__")

    def operator(x: EagerTensor, y: Any) -> Any:
        if not only_floating or x.dtype.is_floating:
            made = immediate.run(op_type, (x, y), {})
            if made is not NotImplemented:
                return made
        return general(x, y)

    setattr(EagerTensor, f"__{name}__", operator)


def unary(op_type: str, x: Any, name: str | None = None) -> Tensor:
    """Applies an element-wise op; to the values only, if `x` is a SparseTensor (its zeros must then stay zeros)."""
    made = immediate.run(op_type, (x,), {})
    if made is not NotImplemented:
        return made  # type: ignore[no-any-return]
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, apply_one(op_type, x.values, name=name), x.dense_shape)  # type: ignore[return-value]
    return apply_one(op_type, x, name=name)


def binary(op_type: str, x: Any, y: Any, name: str | None = None) -> Tensor:
    """Applies an op of two arguments."""
    return apply_one(op_type, x, y, name=name)
