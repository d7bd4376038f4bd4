"""tf.cond: one of two functions, decided by a tensor while the step runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow import structures
from thalweg.control_flow.cond_context import CondContext, Conditional
from thalweg.graph import nest
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import with_dependencies

Branch = Callable[[], Any]


@export("cond")
def cond(
    pred: Any,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """Returns `true_fn()` if `pred` is true, else `false_fn()`: only the ops of the branch taken are run.

    Tensors that were created outside of the two functions are computed in either case.

    Args:
        pred: A scalar bool tensor.
        true_fn: Returns tensors, sparse tensors, IndexedSlices, TensorArrays or operations, alone or nested.
        false_fn: Returns values of the same structure and types.
        strict: Whether a list or tuple of one element is returned as it is.
        name: Name scope of the new nodes.
        fn1: Old name of `true_fn`.
        fn2: Old name of `false_fn`.

    Returns:
        The values that both functions return, merged. A single element is taken out of its list unless `strict`; an
        operation becomes a tensor that is ready when the operation has run.

    Raises:
        TypeError: If the functions are not callable, `pred` is a Python bool, or the structures differ.
        ValueError: If the types of the values differ, or a function returns nothing.

    Example:
        >>> x = tf.placeholder(tf.float32, [])
        >>> y = tf.cond(x > 0.0, lambda: 2.0 * x, lambda: -x)
    """
    true_fn = _renamed(true_fn, fn1, "true_fn", "fn1")
    false_fn = _renamed(false_fn, fn2, "false_fn", "fn2")
    if executing_eagerly():
        return _taken(pred, true_fn, false_fn, strict, name)
    with name_scope(name, "cond", [pred]) as scope:
        if isinstance(pred, bool):
            raise TypeError("pred must not be a Python bool")
        pred = convert_to_tensor(pred, name="pred")
        if pred.dtype.name != "bool":
            raise TypeError(f"pred must be of type bool, got {pred.dtype.name} ({pred.name}).")
        if_true, if_false, conditional = open_conditional(pred, scope)
        true_result, true_flat = _build_branch(if_true, true_fn, "true_fn", strict)
        false_result, false_flat = _build_branch(if_false, false_fn, "false_fn", strict)
        _check_alike(true_result, true_flat, false_result, false_flat)
        merged = [conditional.add_output(f, t) for f, t in zip(false_flat, true_flat, strict=True)]
        result = structures.pack_as(true_result, merged)
        return result if strict else _unpacked(result)


def open_conditional(pred: Tensor, scope: str) -> tuple[CondContext, CondContext, Conditional]:
    """The two branches of a new conditional, to be built, and the conditional that joins their values.

    Args:
        pred: The condition: a bool.
        scope: The full name of the scope, which the names of the contexts begin with.
    """
    at_false, at_true = apply("Switch", pred, pred, name="Switch")
    pivots = [apply_one("Identity", at_true, name="switch_t"), apply_one("Identity", at_false, name="switch_f")]
    pred = apply_one("Identity", pred, name="pred_id")
    for tensor in (at_true, *pivots, pred):
        tensor.graph.prevent_fetching(tensor.op)
    if_true = CondContext(pred, pivots[0], 1, f"{scope}cond_text")
    if_false = CondContext(pred, pivots[1], 0, f"{scope}cond_text_1")
    return if_true, if_false, Conditional(if_false, if_true)


def _taken(pred: Any, true_fn: Branch, false_fn: Branch, strict: bool, name: str | None) -> Any:
    """The result of one of the functions, where ops run at once."""
    with name_scope(name, "cond"):
        result = true_fn() if pred else false_fn()
    return result if strict else _unpacked(result)


def _renamed(new: Branch | None, old: Branch | None, new_name: str, old_name: str) -> Branch:
    if old is not None:
        if new is not None:
            raise TypeError(f"cond(): {new_name} and {old_name} may not be set simultaneously.")
        new = old
    elif new is None:
        raise TypeError(f"cond(): {new_name} argument required")
    if not callable(new):
        raise TypeError(f"{new_name} must be callable.")
    return new


def _build_branch(context: CondContext, function: Branch, name: str, strict: bool) -> tuple[Any, list[Tensor]]:
    """Calls a branch function in its context; returns its result and the tensors of it, inside the branch."""
    with context:
        result = function()
        if result is None:
            raise ValueError(f"cond(): {name} must have a return value.")
        result = nest.map_structure(lambda atom: _as_value(context, atom, name), result)
        flat = [context.capture(tensor) for tensor in structures.flatten(result)]
    return (result if strict else _unpacked(result)), flat


def _unpacked(result: Any) -> Any:
    # A namedtuple of one field, too: that is how TensorFlow returns it.
    return result[0] if isinstance(result, tuple) and len(result) == 1 else structures.singleton(result)


def _as_value(context: CondContext, value: Any, name: str) -> Any:
    if isinstance(value, Operation):
        # The operation itself has no value: its pivot, after it, stands for it.
        return with_dependencies([value], context.pivot)
    if isinstance(value, (Tensor, SparseTensor, IndexedSlices)) or structures.is_tensor_array(value):
        return value
    if value is None:
        raise ValueError(f"cond(): {name} returned None among its values; return tensors or operations.")
    return convert_to_tensor(value)


def _check_alike(true_result: Any, true_flat: list[Tensor], false_result: Any, false_flat: list[Tensor]) -> None:
    try:
        nest.assert_same_structure(true_result, false_result)
    except TypeError as e:
        raise TypeError(f"Incompatible return types of true_fn and false_fn: {e}") from None
    except ValueError as e:
        raise ValueError(f"Incompatible return values of true_fn and false_fn: {e}") from None
    for t, f in zip(nest.flatten(true_result), nest.flatten(false_result), strict=True):
        if _kind(t) is not _kind(f):
            raise TypeError(
                f"Incompatible return types of true_fn and false_fn: {type(t).__name__} and {type(f).__name__}."
            )
    for t, f in zip(true_flat, false_flat, strict=True):
        if t.dtype.base_dtype is not f.dtype.base_dtype:
            raise ValueError(
                f"Outputs of true_fn and false_fn must have the same type: {t.dtype.name}, {f.dtype.name} "
                f"('{t.name}' and '{f.name}')."
            )


def _kind(value: Any) -> type:
    for kind in (SparseTensor, IndexedSlices):
        if isinstance(value, kind):
            return kind
    return type(value) if structures.is_tensor_array(value) else Tensor
