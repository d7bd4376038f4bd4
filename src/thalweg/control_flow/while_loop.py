"""tf.while_loop: repeats a body as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow import structures
from thalweg.control_flow.scoping import without_controllers
from thalweg.control_flow.while_context import WhileContext
from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@export("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeats `body` while `cond` is true.

    Args:
        cond: Takes the loop variables, returns a scalar bool tensor.
        body: Takes the loop variables, returns their new values in the same structure.
        loop_vars: The initial values: a list or tuple, possibly nested, of tensors, sparse tensors and TensorArrays.
        shape_invariants: Shapes that the variables keep in all iterations, in the structure of `loop_vars`; the shapes
            of the initial values if None.
        parallel_iterations: How many iterations may be under way at the same time.
        back_prop: Whether gradients may be taken through the loop.
        swap_memory: Accepted for compatibility.
        name: Name scope of the new nodes.
        maximum_iterations: Ends the loop after so many iterations even if `cond` still holds.
        return_same_structure: Whether a single loop variable comes back in its list.

    Returns:
        The values of the variables after the loop.

    Raises:
        TypeError: If `cond` or `body` is not callable, or `cond` does not return a bool.
        ValueError: If there are no loop variables, or a variable changes its shape or type.

    Example:
        >>> i = tf.constant(0)
        >>> r = tf.while_loop(lambda i: tf.less(i, 10), lambda i: tf.add(i, 1), [i])
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    with name_scope(name, "while", nest.flatten(loop_vars)):
        if not nest.flatten(loop_vars):
            raise ValueError("No loop variables provided")
        if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
            raise TypeError("parallel_iterations must be a positive integer.")
        unpack = not return_same_structure
        if executing_eagerly():
            result = _run(cond, body, loop_vars, maximum_iterations)
            return structures.singleton(result) if unpack else result
        if maximum_iterations is not None:
            loop_vars, cond, body, shape_invariants, maximum_iterations = _limited(
                loop_vars, cond, body, shape_invariants, maximum_iterations
            )
        graph = get_default_graph()
        context = WhileContext(
            graph, graph.unique_name("while_context"), parallel_iterations, back_prop, swap_memory, maximum_iterations
        )
        result = _build(context, cond, body, loop_vars, shape_invariants)
        if maximum_iterations is not None:
            result = result[1]
        return structures.singleton(result) if unpack else result


def _run(cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any) -> Any:
    """The loop in Python, where ops run at once."""
    most = None if maximum_iterations is None else int(maximum_iterations)
    rounds = 0
    loop_vars = structures.convert_atoms(loop_vars, convert_to_tensor)
    while (most is None or rounds < most) and cond(*loop_vars):
        loop_vars = _as_variables(body(*loop_vars), loop_vars)
        rounds += 1
    return loop_vars


def _limited(loop_vars: Any, cond: Any, body: Any, shape_invariants: Any, maximum: Any) -> Any:
    """Adds a counter that ends the loop."""
    maximum = convert_to_tensor(maximum, name="maximum_iterations")
    if maximum.shape.ndims not in (None, 0):
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {maximum.shape}")
    counter = convert_to_tensor(0, dtype=maximum.dtype, name="iteration_counter")

    def limited_cond(i: Any, variables: Any) -> Any:
        return apply_one("LogicalAnd", apply_one("Less", i, maximum), convert_to_tensor(cond(*variables)))

    def limited_body(i: Any, variables: Any) -> Any:
        return apply_one("AddV2", i, 1, name="add"), _as_body_result(body(*variables))

    if shape_invariants is not None:
        shape_invariants = [TensorShape([]), shape_invariants]
    return [counter, loop_vars], limited_cond, limited_body, shape_invariants, maximum


def _as_body_result(result: Any) -> Any:
    return result if nest.is_nested(result) else [result]


def _build(context: WhileContext, cond: Any, body: Any, loop_vars: Any, shape_invariants: Any) -> Any:
    loop_vars = structures.convert_atoms(loop_vars, convert_to_tensor)
    flat = structures.flatten(loop_vars)
    flat = [value if isinstance(value, Tensor) else convert_to_tensor(value) for value in flat]
    if context.outer_context is not None:
        flat = [context.outer_context.capture(value) for value in flat]
    invariants = _invariants(loop_vars, shape_invariants, flat)
    context.add_initial(flat, invariants)
    with without_controllers(context.graph), context:
        condition = cond(*structures.pack_as(loop_vars, [v.merge for v in context.variables]))
        context.set_condition(_as_condition(condition))
        result = body(*structures.pack_as(loop_vars, [v.body for v in context.variables]))
        result = _as_variables(result, loop_vars)
        values = [context.capture(tensor) for tensor in structures.flatten(result)]
        _check_variables(context, values, shape_invariants is not None)
        exits = context.close(values)
    return structures.pack_as(loop_vars, exits)


def _as_condition(value: Any) -> Tensor:
    condition = convert_to_tensor(value)
    if condition.dtype.base_dtype.name != "bool":
        raise TypeError(
            f"The condition of a while loop must return a bool, got {condition.dtype.name} ('{condition.name}')."
        )
    return condition


def _as_variables(result: Any, loop_vars: Any) -> Any:
    """The body's result in the structure of the loop variables."""
    if not nest.is_nested(result):
        result = [result]
    if isinstance(loop_vars, (list, tuple)) and isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        result = getattr(loop_vars, "_make", type(loop_vars))(result)
    result = structures.convert_atoms(result, lambda atom: _converted(atom))
    expected, got = len(nest.flatten(loop_vars)), len(nest.flatten(result))
    try:
        nest.assert_same_structure(loop_vars, result)
    except (TypeError, ValueError) as e:
        count = ""
        if expected != got:
            count = f"Number of inputs and outputs of body must match loop_vars: {expected}, {got}. "
        raise type(e)(f"{count}The body of the loop must return the structure of loop_vars. {e}") from None
    return result


def _converted(value: Any) -> Tensor:
    if value is None:
        raise ValueError("The body of a while loop returned None for one of its variables.")
    return convert_to_tensor(value)


def _invariants(loop_vars: Any, shape_invariants: Any, flat: list[Tensor]) -> list[TensorShape | None]:
    """The shape that each variable keeps; None for its initial shape."""
    if shape_invariants is None:
        return _sparse_defaults(loop_vars, flat)
    atoms = nest.flatten(loop_vars)
    try:
        given = nest.flatten_up_to(loop_vars, shape_invariants, check_types=False)
    except (TypeError, ValueError) as e:
        raise ValueError(f"shape_invariants must have the structure of loop_vars. {e}") from None
    shapes: list[TensorShape] = []
    for atom, shape in zip(atoms, given, strict=True):
        if not isinstance(shape, TensorShape):
            shape = TensorShape(shape)
        shapes.extend(_component_shapes(atom, shape))
    for value, shape in zip(flat, shapes, strict=True):
        if not _at_least_as_specific(value.shape, shape):
            raise ValueError(
                f"The shape invariant specified for {value.name} is not compatible with the initial shape of the loop "
                f"variable. It enters the loop with shape {value.shape}, but the specified shape invariant is {shape}."
            )
    return list(shapes)


def _sparse_defaults(loop_vars: Any, flat: list[Tensor]) -> list[TensorShape | None]:
    """A sparse variable may have another number of elements in every iteration; all else keeps its shape."""
    result: list[TensorShape | None] = []
    for atom in nest.flatten(loop_vars):
        if isinstance(atom, SparseTensor):
            rank = atom.dense_shape.shape[0].value
            result.extend(_component_shapes(atom, TensorShape([None] * rank if rank is not None else None)))
        else:
            result.extend([None] * len(structures.flatten(atom)))
    return result


def _component_shapes(atom: Any, shape: TensorShape) -> list[TensorShape]:
    if isinstance(atom, SparseTensor):
        rank = shape.ndims
        if rank == 1 and atom.dense_shape.shape.as_list() != [1]:
            rank = shape[0].value  # TensorFlow's form: the shape of the dense shape.
        return [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])]
    if isinstance(atom, IndexedSlices):
        return [shape, TensorShape([shape[0]]), TensorShape([shape.ndims])][: len(structures.flatten(atom))]
    return [TensorShape([])] if structures.is_tensor_array(atom) else [shape]


def _at_least_as_specific(shape: TensorShape, invariant: TensorShape) -> bool:
    wanted, dims = invariant.dims_tuple, shape.dims_tuple
    if wanted is None:
        return True
    if dims is None or len(dims) != len(wanted):
        return False
    return all(w is None or w == d for w, d in zip(wanted, dims, strict=True))


def _check_variables(context: WhileContext, values: list[Tensor], invariants_given: bool) -> None:
    for variable, value in zip(context.variables, values, strict=True):
        merge, initial = variable.merge, variable.initial
        if value.dtype.base_dtype is not merge.dtype.base_dtype:
            raise TypeError(
                f"Loop variable '{initial.name}' enters the loop with type {merge.dtype.name}, but has type "
                f"{value.dtype.name} after one iteration ('{value.name}')."
            )
        if _at_least_as_specific(value.shape, merge.shape):
            continue
        if invariants_given:
            raise ValueError(
                f"Input tensor '{initial.name}' enters the loop with shape {initial.shape}, its shape invariant is "
                f"{merge.shape}, but it has shape {value.shape} after one iteration: not compatible with the invariant."
            )
        raise ValueError(
            f"Input tensor '{initial.name}' enters the loop with shape {merge.shape}, but has shape {value.shape} "
            "after one iteration. To allow the shape to vary across iterations, use the `shape_invariants` argument of "
            "tf.while_loop to specify a less-specific shape."
        )
