"""tf.hessians: second derivatives, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.autodiff.gradients import UnconnectedGradients, _as_list, gradients
from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.state.tensor_array import TensorArray


@export("hessians")
def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Any]:
    """Returns the second derivatives of the sum of `ys` with respect to each of `xs`.

    Args:
        ys: A tensor or a list of tensors.
        xs: A tensor or a list of tensors.
        name: A name scope for the new nodes.
        colocate_gradients_with_ops: See `gradients`.
        gate_gradients: See `gradients`.
        aggregation_method: See `gradients`.

    Returns:
        For each x of shape S a tensor of shape S + S.

    Raises:
        LookupError: If an operation between has no gradient.

    Example:
        >>> x = tf.constant([1.0, 2.0])
        >>> hessian, = tf.hessians(tf.reduce_sum(x * x * x), x)
    """
    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    xs = _as_list(xs)
    with name_scope(name, "hessians"):
        firsts = gradients(ys, xs, **options)
        return [_hessian(x, first, options) for x, first in zip(xs, firsts, strict=True)]


def _hessian(source: Any, first: Any, options: dict[str, Any]) -> Tensor:
    """The second derivatives by `source`, a tensor or a variable: `x` is another read of it than that in `first`."""
    x = convert_to_tensor(source)
    shape = apply_one("Shape", x)
    both = apply_one("ConcatV2", [shape, shape], 0)
    dtype = x.dtype.base_dtype.as_numpy_dtype
    if first is None:
        result = apply_one("Fill", both, np.zeros((), dtype))
    else:
        flat = apply_one("Reshape", convert_to_tensor(first), [-1])
        places = apply_one("Range", 0, apply_one("Size", flat), 1)

        def row(j: Any) -> Tensor:
            # One in place j and zeros elsewhere picks element j without the gradient of a slice.
            seed = apply_one("Cast", apply_one("Equal", places, j), DstT=flat.dtype)
            grad = gradients(flat, source, seed, unconnected_gradients=UnconnectedGradients.ZERO, **options)[0]
            return apply_one("Reshape", convert_to_tensor(grad), [-1])

        count = x.shape.num_elements()
        if count is not None and _uses_arrays(flat.op):
            # Arrays collect gradients per computation, and the iterations of one loop would share them.
            rows = apply_one("Pack", [row(np.int32(j)) for j in range(count)]) if count else flat
        else:
            rows = _rows_by_loop(row, apply_one("Size", flat), x.dtype, count)
        result = apply_one("Reshape", rows, both)
    if x.shape.ndims is not None:
        result.set_shape([*x.shape.as_list(), *x.shape.as_list()])
    return result


def _rows_by_loop(row: Any, size: Tensor, dtype: Any, count: int | None) -> Tensor:
    array = TensorArray(dtype, size=size, element_shape=[count])
    _, array = while_loop(
        lambda j, _: apply_one("Less", j, size),
        lambda j, array: (apply_one("AddV2", j, np.int32(1)), array.write(j, row(j))),
        (convert_to_tensor(0, dtypes.int32), array),
    )
    tensor: Tensor = array.stack()
    return tensor


def _uses_arrays(op: Operation) -> bool:
    seen = {op}
    stack = [op]
    while stack:
        current = stack.pop()
        if current.type.startswith("TensorArray"):
            return True
        for tensor in current.inputs:
            if tensor.op not in seen:
                seen.add(tensor.op)
                stack.append(tensor.op)
    return False
