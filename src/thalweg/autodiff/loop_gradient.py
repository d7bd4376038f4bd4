"""The gradient of a loop: a loop that runs the gradient of the body, once per forward iteration, in reverse order.

Its variables are the gradients of the forward loop's variables, and sums for the tensors that the forward loop uses
from outside. A loop that ran zero times gives the gradients of its results to its initial values, as it should.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.autodiff.accumulators import new_array
from thalweg.autodiff.aggregate import sum_of_two
from thalweg.autodiff.backward_contexts import BackwardLoop
from thalweg.autodiff.cond_gradient import shape_of
from thalweg.autodiff.nodes import Level, backpropagates
from thalweg.autodiff.walk import Options, Pairs, construct_gradient, walk
from thalweg.autodiff.zeros import dense, value_spec, zeros_for
from thalweg.control_flow.scoping import without_controllers
from thalweg.control_flow.while_context import LoopVariable, WhileContext
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@construct_gradient(WhileContext)
def loop_gradient(
    forward: WhileContext, grads: dict[Tensor, Any], needed: Callable[[Tensor], bool], options: Options
) -> Pairs:
    """The gradients of a loop's inputs, given those of its results."""
    if not forward.back_prop:
        return []
    variables, captures = _differentiated(forward, grads, needed)
    if not variables:
        return []
    graph = forward.graph
    count = forward.counter().exit
    initial = [apply_one("Sub", count, np.int32(1), name="last")]
    for variable in variables:
        grad = grads.get(variable.exit)
        initial.append(zeros_for(variable.exit) if grad is None else dense(grad))
    backward = BackwardLoop(graph, graph.unique_name("while_context"), forward)
    if backward.outer_context is not None:
        initial = [backward.outer_context.capture(value) for value in initial]
    backward.add_initial(initial, [None, *(_shape(variable) for variable in variables)])
    with without_controllers(graph), backward:
        backward.set_condition(apply_one("GreaterEqual", backward.variables[0].merge, np.int32(0)))
        backward.position = backward.variables[0].body
        seeds = [variable.body for variable in backward.variables[1:]]
        xs = [variable.body for variable in variables] + list(captures.values())
        # No gates in a loop: updates come after it, and gates would hide products from joining and fusion.
        inside = options._replace(gate=False)
        found = walk(forward, [variable.next for variable in variables], seeds, xs, inside)
        values = [apply_one("Sub", backward.position, np.int32(1))]
        for variable in variables:
            grad = found.get(variable.body)
            value = zeros_for(variable.body) if grad is None else dense(grad)
            values.append(backward.capture(value))
        backward.close(values)
    pairs: Pairs = [
        (variable.initial, grad.exit) for variable, grad in zip(variables, backward.variables[1:], strict=True)
    ]
    for outer, inner in captures.items():
        grad = found.get(inner)
        if isinstance(grad, IndexedSlices):
            pairs.append((outer, _collected_slices(backward, outer, grad, count)))
        elif grad is not None and _is_sum_of_products(backward, grad):
            pairs.append((outer, _one_product(backward, grad, count)))
        elif grad is not None:
            pairs.append((outer, _summed(backward, outer, grad)))
    return pairs


def _shape(variable: LoopVariable) -> TensorShape:
    return value_spec(variable.exit)[1]


def _differentiated(
    forward: WhileContext, grads: dict[Tensor, Any], needed: Callable[[Tensor], bool]
) -> tuple[list[LoopVariable], dict[Tensor, Tensor]]:
    """The variables and captures through which gradients pass.

    A variable counts if, after any number of iterations, it may depend on something whose gradient is needed, and a
    result whose gradient is given may depend on it.
    """
    level = Level(forward)
    captures = {outer: inner for outer, inner in forward.captures.items() if needed(outer)}
    candidates = [v for v in forward.variables if backpropagates(v.body)]
    active = [v for v in candidates if needed(v.initial)]
    while True:
        starts = [v.body for v in active] + list(captures.values())
        reached = level.reached_from(starts)
        more = [v for v in candidates if v not in active and (v.next in starts or level.node(v.next.op) in reached)]
        if not more:
            break
        active += more
    live = [v for v in active if v.exit in grads]
    while True:
        leading = level.leading_to([v.next for v in live], reached)
        more = [v for v in active if v not in live and v.body in leading]
        if not more:
            break
        live += more
    return live, {outer: inner for outer, inner in captures.items() if inner in leading}


def _summed(backward: BackwardLoop, outer: Tensor, grad: Tensor) -> Tensor:
    """The sum over all iterations of the gradient of a captured tensor."""
    zeros = zeros_for(outer)
    shape = value_spec(outer)[1]
    return backward.add_variable(zeros, lambda total: sum_of_two(total, grad), shape).exit


# How many rows a factor has, if the graph does not say.
_USUAL_ROWS = 64


def _is_sum_of_products(backward: BackwardLoop, grad: Tensor) -> bool:
    """Whether the sum of a gradient over all iterations is better computed as one product after the loop.

    The gradient of a matrix that the loop multiplies rows with is `rows^T @ grads`. The factors of all iterations, one
    below the other, have the sum as their product: one large product instead of many small ones, and no large sum to
    read and write in each iteration. It pays if the factors are smaller than their product.
    """
    op = grad.op
    if op.type != "MatMul" or not op.attrs["transpose_a"] or op.attrs["transpose_b"]:
        return False
    if not all(backward.contains(tensor) for tensor in op.inputs):
        return False
    rows, columns = (tensor.shape.as_list() if tensor.shape.ndims == 2 else [None, None] for tensor in op.inputs)
    if rows[1] is None or columns[1] is None:
        return False
    count = rows[0] or columns[0] or _USUAL_ROWS
    return count * (rows[1] + columns[1]) <= rows[1] * columns[1]


def _one_product(backward: BackwardLoop, grad: Tensor, count: Tensor) -> Tensor:
    """The sum over all iterations of a product, from the factors of all iterations."""
    rows, columns = (
        _joined(backward, tensor, tensor.shape.dims_tuple[1:], count)  # type: ignore[index]
        for tensor in grad.op.inputs
    )
    return apply_one("MatMul", rows, columns, transpose_a=True)


def _joined(backward: BackwardLoop, tensor: Tensor, row: tuple[int | None, ...], count: Tensor) -> Tensor:
    """The values of a tensor in all iterations, joined along the first axis."""
    handle, flow = new_array(tensor.dtype.base_dtype, count, TensorShape([None, *row]))

    def write(before: Tensor) -> Tensor:
        return apply_one("TensorArrayWriteV3", handle, backward.position, tensor, before)

    last = backward.add_variable(flow, write).exit
    whole: Tensor = apply(
        "TensorArrayConcatV3", handle, last, dtype=tensor.dtype.base_dtype, element_shape_except0=TensorShape(row)
    )[0]
    return whole


def _collected_slices(backward: BackwardLoop, outer: Tensor, grad: IndexedSlices, count: Tensor) -> Any:
    """The rows of all iterations together."""
    rest = grad.values.shape.dims_tuple
    if rest is None or None in rest[1:]:
        with backward:
            total = dense(grad)
        return _summed(backward, outer, total)
    values = _joined(backward, grad.values, rest[1:], count)
    indices = _joined(backward, grad.indices, (), count)
    return IndexedSlices(values, indices, shape_of(outer))
