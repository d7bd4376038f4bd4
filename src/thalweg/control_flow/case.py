"""tf.case and tf.switch_case: one of several functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thalweg import errors
from thalweg.control_flow.cond import cond
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, executing_eagerly, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import group, no_op


@export("case")
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Calls the function of the first predicate that is true.

    Args:
        pred_fn_pairs: Pairs of a scalar bool tensor and a function; or a dictionary of them, whose order counts only
            if it is the one of insertion. All functions return the same structure and types.
        default: Called if no predicate is true; without it, that is an error of the step.
        exclusive: Whether more than one true predicate is an error of the step.
        strict: Whether a list or tuple of one element is returned as it is.
        name: Name scope of the new nodes.

    Returns:
        The values that the function returns; see `tf.cond`.

    Raises:
        TypeError: If `pred_fn_pairs` is not a list, tuple or dictionary of such pairs.
        ValueError: If there are no pairs.

    Example:
        >>> x = tf.placeholder(tf.float32, [])
        >>> y = tf.case([(x < 0.0, lambda: -x), (x < 1.0, lambda: x)], default=lambda: 1.0)
    """
    pairs = _checked_pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    preds = [pred for pred, _ in pairs]
    if executing_eagerly():
        return _taken(pairs, default, exclusive, strict)
    with name_scope(name, "case", preds):
        checks = []
        if exclusive and len(preds) > 1:
            checks.append(_check_exclusive(preds))
        functions = [fn for _, fn in pairs]
        if default is None:
            last = functions.pop()
            checks.append(_check_any(preds))
            default, preds = last, preds[:-1]
        with control_dependencies(checks):
            if not preds:
                return cond(convert_to_tensor(True), default, default, strict)
            return _chain(preds, functions, default, strict)


def _taken(pairs: list[tuple[Any, Any]], default: Any, exclusive: bool, strict: bool) -> Any:
    """The result of the first function whose predicate is true, where ops run at once."""
    functions = [fn for pred, fn in pairs if pred]
    values = [bool(pred) for pred, _ in pairs]
    if exclusive and len(functions) > 1:
        raise errors.InvalidArgumentError(
            None, None, f"More than one condition evaluated as True but exclusive=True. Values: {values}"
        )
    if not functions and default is None:
        raise errors.InvalidArgumentError(None, None, f"None of the conditions evaluated as True. Values: {values}")
    chosen = functions[0] if functions else default
    return cond(True, chosen, chosen, strict)


def _chain(preds: list[Tensor], functions: list[Any], default: Any, strict: bool) -> Any:
    """Conditionals nested in one another's false branches."""
    rest = default if len(preds) == 1 else lambda: _chain(preds[1:], functions[1:], default, strict)
    return cond(preds[0], functions[0], rest, strict)


def _checked_pairs(pred_fn_pairs: Any) -> list[tuple[Any, Any]]:
    if isinstance(pred_fn_pairs, Mapping):
        pairs = list(pred_fn_pairs.items())
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError(f"pred_fn_pairs must be a list, tuple, or dict, got {type(pred_fn_pairs).__name__}.")
    if not pairs:
        raise ValueError("pred_fn_pairs must not be empty.")
    result = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in pred_fn_pairs must be a 2-tuple, got {pair!r}.")
        pred, fn = pair
        if not isinstance(pred, Tensor):
            pred = convert_to_tensor(pred)
        if pred.dtype.name != "bool":
            raise TypeError(f"pred must be of type bool: {getattr(pred, 'name', pred)}")
        if not callable(fn):
            raise TypeError(f"fn for pred {getattr(pred, 'name', pred)} must be callable.")
        result.append((pred, fn))
    return result


def _check_exclusive(preds: list[Tensor]) -> Any:
    """An operation that fails if more than one predicate is true."""
    packed = apply_one("Pack", preds, axis=0, name="preds_c")
    count = apply_one("Sum", apply_one("Cast", packed, DstT="int32"), [0], name="num_true_conds")
    names = ", ".join(pred.name for pred in preds)
    message = f"More than one condition evaluated as True but exclusive=True. Conditions: ({names}), Values:"
    return _guard(apply_one("LessEqual", count, 1), message, packed, len(preds))


def _check_any(preds: list[Tensor]) -> Any:
    """An operation that fails if no predicate is true."""
    packed = apply_one("Pack", preds, axis=0, name="preds_c")
    names = ", ".join(pred.name for pred in preds)
    message = f"None of the conditions evaluated as True. Conditions: ({names}), Values:"
    return _guard(apply_one("Any", packed, [0]), message, packed, len(preds))


def _guard(condition: Tensor, message: str, values: Tensor, summarize: int) -> Any:
    with name_scope("Assert"):
        ok = cond(
            condition,
            no_op,
            lambda: apply_op("Assert", condition, [message, values], summarize=summarize),
            name="AssertGuard",
        )
        return group(ok) if not isinstance(ok, Tensor) else ok.op


@export("switch_case")
def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None, name: str = "switch_case"
) -> Any:
    """Calls the function with number `branch_index`.

    Args:
        branch_index: A scalar int tensor.
        branch_fns: A list of functions, or pairs of number and function, or a dictionary of them.
        default: Called for any other number; the function with the largest number if None.
        name: Name scope of the new nodes.

    Returns:
        The values that the function returns; see `tf.cond`.
    """
    if isinstance(branch_fns, Mapping):
        numbered = sorted(branch_fns.items())
    elif all(callable(fn) for fn in branch_fns):
        numbered = list(enumerate(branch_fns))
    else:
        numbered = sorted(branch_fns)
    if not numbered:
        raise ValueError("Must provide at least one item in branch_fns")
    for number, fn in numbered:
        if not isinstance(number, int) or not callable(fn):
            raise TypeError(f"branch_fns must pair numbers with functions, got {(number, fn)!r}.")
    with name_scope(name, "switch_case", [branch_index]):
        branch_index = convert_to_tensor(branch_index, name="branch_index")
        if not branch_index.dtype.is_integer:
            raise TypeError(f"branch_index must be an integer, got {branch_index.dtype.name}.")
        fallback = numbered.pop()[1] if default is None else default
        if not numbered:
            return fallback()
        preds = [apply_one("Equal", branch_index, number) for number, _ in numbered]
        return _chain(preds, [fn for _, fn in numbered], fallback, False)
