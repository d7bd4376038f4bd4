"""Folding a dataset: `Dataset.reduce`, `scan`, `group_by_reducer`, and how they find a state's structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg.data import structure
from thalweg.data.functions import DatasetFunction
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from thalweg.data.dataset import Dataset

_MAX_ROUNDS = 32  # A shape can lose each of its dimensions once.


def _trace_to_fixed_point(trace: Callable[[Any], Any], state: Any, what: str) -> tuple[Any, Any]:
    """Traces a function with ever vaguer shapes of the state, until it returns a state that fits.

    Args:
        trace: Traces with a structure of the state; returns the function and the structure of the new state.
        state: The structure of the initial state.
        what: The name of the function, for messages.

    Returns:
        The function, and the structure of the state.
    """
    for _ in range(_MAX_ROUNDS):
        function, new = trace(state)
        try:
            structure.assert_same(state, new)
        except ValueError as e:
            raise TypeError(f"`{what}` must return a state of the structure {state}, got {new}.") from e
        vaguer = structure.map_structure(lambda old, got: _common_state_spec(old, got, what), state, new)
        if vaguer == state:
            return function, state
        state = vaguer
    raise ValueError(f"The shape of the state of `{what}` does not settle.")


def _common_state_spec(old: Any, new: Any, what: str) -> Any:
    if type(old) is not type(new):
        raise TypeError(f"The element classes for the new state must match the initial state: {old} and {new}.")
    if isinstance(old, structure.NestedSpec):
        return old
    if old.dtype != new.dtype:
        raise TypeError(
            "The element types for the new state must match the initial state. "
            f"Expected {old.dtype!r}; got {new.dtype!r} from `{what}`."
        )
    return type(old)(old.shape.most_specific_compatible_shape(new.shape), old.dtype)


def reduce_dataset(dataset: Dataset, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
    """See `Dataset.reduce`."""
    state = structure.to_values(initial_state, "initial_state")

    def trace(spec: Any) -> tuple[DatasetFunction, Any]:
        function = DatasetFunction(reduce_func, spec, dataset.element_spec, name="Dataset_reduce")
        return function, function.spec

    function, spec = _trace_to_fixed_point(trace, structure.specs_of(state), "reduce_func")
    tensors = apply_list(
        "ReduceDataset", dataset._variant_tensor, structure.to_tensors(state), function.captured, f=function.attr,
        output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return structure.from_tensors(spec, tensors)


@export("data.experimental.scan")
def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Callable[[Dataset], Dataset]:
    """A transformation that calls `state, output = scan_func(state, element)` and gives the outputs.

    Example:
        >>> sums = tf.data.Dataset.range(5).apply(
        ...     tf.data.experimental.scan(np.int64(0), lambda total, x: (total + x, total + x)))
        >>> element = tf.data.make_one_shot_iterator(sums).get_next()
        >>> with tf.Session() as session:
        ...     print([int(session.run(element)) for _ in range(5)])
        [0, 1, 3, 6, 10]
    """

    def transformed(dataset: Dataset) -> Dataset:
        state = structure.to_values(initial_state, "initial_state")

        def trace(spec: Any) -> tuple[DatasetFunction, Any]:
            function = DatasetFunction(scan_func, spec, dataset.element_spec, name="Dataset_scan")
            if not isinstance(function.spec, tuple) or len(function.spec) != 2:
                raise TypeError("`scan_func` must return a pair comprising the new state and the output value.")
            return function, function.spec[0]

        function, _ = _trace_to_fixed_point(trace, structure.specs_of(state), "scan_func")
        return dataset._derived(
            "ScanDataset", structure.to_tensors(state), function.captured, spec=function.spec[1], f=function.attr
        )

    return transformed


@export("data.experimental.Reducer")
class Reducer:
    """Three functions that fold a group: `init_func(key)`, `reduce_func(state, element)`, `finalize_func(state)`."""

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ) -> None:
        """Keeps the three functions."""
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


@export("data.experimental.group_by_reducer")
def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Callable[[Dataset], Dataset]:
    """A transformation that folds the elements of each key, an int64 scalar; one element a key, at the end."""

    def transformed(dataset: Dataset) -> Dataset:
        key = DatasetFunction(key_func, dataset.element_spec, name="Dataset_group_by_reducer_key")
        check_key(key.spec, "key_func")
        init = DatasetFunction(reducer.init_func, TensorSpec([], dtypes.int64), name="Dataset_group_by_reducer_init")

        def trace(spec: Any) -> tuple[DatasetFunction, Any]:
            function = DatasetFunction(
                reducer.reduce_func, spec, dataset.element_spec, name="Dataset_group_by_reducer_reduce"
            )
            return function, function.spec

        reduce, state = _trace_to_fixed_point(trace, init.spec, "reducer.reduce_func")
        finalize = DatasetFunction(
            reducer.finalize_func, state, name="Dataset_group_by_reducer_finalize", spread=isinstance(state, tuple)
        )
        return dataset._derived(
            "GroupByReducerDataset", key.captured, init.captured, reduce.captured, finalize.captured,
            spec=finalize.spec, key_func=key.attr, init_func=init.attr, reduce_func=reduce.attr,
            finalize_func=finalize.attr,
        )  # fmt: skip

    return transformed


def check_key(spec: Any, name: str) -> None:
    """Raises unless a function returns one int64.

    Raises:
        ValueError: If it does not.
    """
    if structure.is_nested(spec) or spec.dtype is not dtypes.int64 or not spec.shape.is_compatible_with([]):
        raise ValueError(f"`{name}` must return a single tf.int64 tensor, got {spec}.")
