"""tf.gradients: symbolic derivatives, as new nodes of the graph."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.autodiff import cond_gradient, loop_gradient  # noqa: F401 (register themselves with the walk)
from thalweg.autodiff.across_functions import walk_outwards
from thalweg.autodiff.nodes import Level
from thalweg.autodiff.walk import Options, walk
from thalweg.autodiff.zeros import zeros_for
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.gradient_source import gradient_computation
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import exchanged
from thalweg.ops.plain_gradients import set_gradients


@export("UnconnectedGradients")
class UnconnectedGradients(enum.Enum):
    """What gradients() returns for an x on which no y depends: None, or zeros."""

    NONE = "none"
    ZERO = "zero"


@export("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Returns the derivatives of the sum of `ys` with respect to each of `xs`.

    Works through conditionals and loops, and for derivatives of any order.

    Args:
        ys: A tensor or a list of tensors to be differentiated.
        xs: A tensor or variable, or a list of them.
        grad_ys: Gradients of `ys` to start from, None for ones.
        name: A name scope for the new nodes.
        colocate_gradients_with_ops: Whether the gradient of an op is placed beside it.
        gate_gradients: Whether the gradients of one op become available together.
        aggregation_method: How gradients of one tensor are added: a constant of `tf.AggregationMethod`.
        stop_gradients: Tensors to be treated as constants.
        unconnected_gradients: What to return where no y depends on an x: a `tf.UnconnectedGradients`.

    Returns:
        One entry for each of `xs`: a Tensor, an IndexedSlices, or None.

    Raises:
        LookupError: If an operation between has no gradient.
        ValueError: If the arguments do not fit together.
        TypeError: If a `y` or its gradient is of a type that cannot be differentiated.

    Example:
        >>> x = tf.constant(3.0)
        >>> dy_dx, = tf.gradients(x * x, x)
    """
    if executing_eagerly():
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead."
        )
    ys, xs, stops = _as_list(ys), _as_list(xs), _as_list(stop_gradients)
    grads: Sequence[Any] = [None] * len(ys) if grad_ys is None else _as_list(grad_ys)
    if len(grads) != len(ys):
        raise ValueError(f"Passed {len(grads)} grad_ys for {len(ys)} ys")
    try:
        unconnected = UnconnectedGradients(unconnected_gradients)
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {unconnected_gradients!r}") from None
    elements = [_element(e) for e in (*ys, *xs, *stops)]
    with name_scope(name, "gradients", [*elements, *(g for g in grads if g is not None)]) as scope:
        graph = get_default_graph()
        tensors = [convert_to_tensor(y, name="y") for y in ys]
        if isinstance(graph, FuncGraph):
            tensors = [graph.capture(tensor) for tensor in tensors]
        sources = [_source(x) for x in xs]
        level = Level(graph._get_control_flow_context())
        for tensor in (*tensors, *sources):
            if tensor.op.graph is graph and not level.sees(tensor):
                raise ValueError(
                    f"Cannot take gradients of or with respect to '{tensor.name}' here: it is inside a branch or loop. "
                    "Call tf.gradients inside, or make it a result."
                )
        seeds = [_seed(y, grad, i) for i, (y, grad) in enumerate(zip(tensors, grads, strict=True))]
        options = Options(colocate_gradients_with_ops, aggregation_method, gate_gradients)
        with gradient_computation(scope, level.context):
            stop = frozenset(_source(s) for s in stops)
            if isinstance(graph, FuncGraph):
                stop |= {graph.captures[tensor] for tensor in stop if tensor in graph.captures}
            if isinstance(graph, FuncGraph):
                found = walk_outwards(graph, tensors, seeds, sources, options, stop)
            else:
                found = walk(level.context, tensors, seeds, sources, options, stop)
        results = [found.get(x) for x in sources]
        if unconnected is UnconnectedGradients.ZERO:
            results = [zeros_for(x) if grad is None else grad for x, grad in zip(sources, results, strict=True)]
        return results


set_gradients(gradients)


def _as_list(x: Any) -> list[Any]:
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _element(x: Any) -> Any:
    """An object with a `graph`, for a value that may be a variable or a composite."""
    return x if isinstance(x, Tensor) else getattr(x, "handle", x)


def _source(x: Any) -> Tensor:
    """The tensor whose gradient stands for that of `x`: of a variable, its handle (or reference, in an old graph)."""
    handle = getattr(x, "_source", getattr(x, "handle", None))
    if isinstance(x, IndexedSlices):
        tensor = x.values
    elif isinstance(handle, Tensor):
        tensor = handle
    else:
        tensor = exchanged(convert_to_tensor(x, name="x"), wants_handle=True)
    return tensor


def _seed(y: Tensor, grad: Any, index: int) -> Any:
    dtype = y.dtype.base_dtype
    if grad is None:
        if dtype.is_complex:
            raise TypeError(f"Gradients of complex tensors ({y.name}) must set grad_ys (y.dtype = {dtype.name})")
        if not dtype.is_floating:
            if dtype.is_integer or dtype.is_bool or dtype.name in ("string", "resource"):
                return None
            raise TypeError(f"Gradients of tensors must be floating, {y.name} is {dtype.name}.")
        one = np.ones((), dtype.as_numpy_dtype)
        sizes = y.shape.as_list() if y.shape.is_fully_defined() else None
        with name_scope(f"grad_ys_{index}"):
            if sizes is not None:
                return apply_one("Fill", np.array(sizes, np.int32), one)
            return apply_one("Fill", apply_one("Shape", y), one)
    if isinstance(grad, IndexedSlices):
        return grad
    tensor = (
        convert_to_tensor(grad, name=f"grad_ys_{index}")
        if isinstance(grad, Tensor)
        else convert_to_tensor(grad, dtype=dtype, name=f"grad_ys_{index}")
    )
    given = tensor.dtype.base_dtype
    if (dtype.is_floating or dtype.is_integer) and not (given.is_floating or given.is_integer):
        raise TypeError(
            f"Gradient type {given.name} generated for real or integer-valued tensor {y} must be real or integer"
        )
    if dtype.is_complex and not given.is_complex:
        raise TypeError(f"Gradient type {given.name} generated for complex-valued tensor {y} must be complex")
    return tensor
