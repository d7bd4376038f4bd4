"""Functions over the first dimension of tensors: map_fn, scan, foldl, foldr. All of them are one while_loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.tensor_array import TensorArray


class _Elements:
    """The elements of nested tensors along their first dimension."""

    def __init__(self, fn: Any, elems: Any) -> None:
        if not callable(fn):
            raise TypeError("fn must be callable.")
        self.structure = elems
        flat = nest.flatten(elems)
        if not flat:
            raise ValueError("elems must contain at least one tensor.")
        for elem in flat:
            if isinstance(elem, SparseTensor):
                raise TypeError(
                    "A SparseTensor has no elements along its first dimension: map over its values, as in "
                    "tf.SparseTensor(x.indices, fn(x.values), x.dense_shape), or make it dense first."
                )
        self.tensors = [convert_to_tensor(elem, name="elem") for elem in flat]
        self.count, self.static_count = _length(self.tensors)
        self.arrays = [
            TensorArray(t.dtype, size=self.count, element_shape=t.shape[1:], infer_shape=True).unstack(t)
            for t in self.tensors
        ]

    def read(self, index: Any) -> Any:
        return nest.pack_sequence_as(self.structure, [array.read(index) for array in self.arrays])

    def end(self, last: bool) -> list[Tensor]:
        begin, end = (-1, 0) if last else (0, 1)
        mask = 1 if last else 0
        return [
            apply_one("StridedSlice", t, [begin], [end], [1], shrink_axis_mask=1, end_mask=mask) for t in self.tensors
        ]


def _length(tensors: Sequence[Tensor]) -> tuple[Any, int | None]:
    """The common first dimension: as a number or tensor, and as far as it is known statically."""
    known: int | None = None
    for tensor in tensors:
        dims = tensor.shape.dims_tuple
        if dims is not None and not dims:
            raise ValueError(f"elements in elems must be 1+ dimensional Tensors, not scalars: {tensor.name}")
        if dims is not None and dims[0] is not None:
            if known is not None and known != dims[0]:
                raise ValueError(f"The tensors in elems have different first dimensions: {known} and {dims[0]}.")
            known = dims[0]
    if known is not None:
        return convert_to_tensor(known, dtypes.int32, name="n"), known
    return apply_one("StridedSlice", apply_one("Shape", tensors[0]), [0], [1], [1], shrink_axis_mask=1), None


def _iterations(parallel_iterations: int | None) -> int:
    return 10 if parallel_iterations is None else parallel_iterations


def _stacked(arrays: Sequence[TensorArray], static_count: int | None, structure: Any) -> Any:
    results = []
    for array in arrays:
        stacked = array.stack()
        stacked.set_shape(TensorShape([static_count]).concatenate(stacked.shape[1:]))
        results.append(stacked)
    return nest.pack_sequence_as(structure, results)


def _values(result: Any, like: Any, types: Sequence[Any], what: str) -> list[Tensor]:
    """The tensors of a function's result, checked against the structure that it should have."""
    try:
        nest.assert_same_structure(like, result)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{what} {e}") from None
    return [
        value if isinstance(value, Tensor) else convert_to_tensor(value, dtype=dtype)
        for value, dtype in zip(nest.flatten(result), types, strict=True)
    ]


@export("map_fn")
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """Applies `fn` to each element along the first dimension, and stacks the results.

    Args:
        fn: Takes one element (in the structure of `elems`), returns tensors in the structure of `dtype`.
        elems: A tensor, or a nested structure of tensors with one first dimension.
        dtype: The types of the results, in their structure; that of `elems` if None.
        parallel_iterations: How many elements may be under way at the same time; 10 if None.
        back_prop: Whether gradients may be taken.
        swap_memory: Accepted for compatibility.
        infer_shape: Whether all results have the same shape.
        name: Name scope of the new nodes.

    Returns:
        The results, with the first dimension of `elems`.

    Raises:
        TypeError: If `fn` is not callable, or its result has another structure than `dtype`.
        ValueError: If an element is a scalar, or the first dimensions differ.

    Example:
        >>> squares = tf.map_fn(lambda x: x * x, tf.constant([1.0, 2.0, 3.0]))
    """
    with name_scope(name, "map", nest.flatten(elems)):
        elements = _Elements(fn, elems)
        structure = elems if dtype is None else dtype
        types = (
            [t.dtype for t in elements.tensors] if dtype is None else [dtypes.as_dtype(d) for d in nest.flatten(dtype)]
        )
        outputs = [TensorArray(t, size=elements.count, infer_shape=infer_shape) for t in types]

        def body(i: Tensor, arrays: Any) -> Any:
            values = _values(
                fn(elements.read(i)), structure, types, "The result of fn must have the structure of dtype."
            )
            return apply_one("AddV2", i, 1), [array.write(i, v) for array, v in zip(arrays, values, strict=True)]

        _, outputs = while_loop(
            lambda i, _: apply_one("Less", i, elements.count),
            body,
            (convert_to_tensor(0), outputs),
            parallel_iterations=_iterations(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        return _stacked(outputs, elements.static_count, structure)


@export("vectorized_map")
def vectorized_map(
    fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True, name: str | None = None
) -> Any:
    """Applies `fn` to each element along the first dimension, and stacks the results, of whatever types they have.

    Args:
        fn: Takes one element (in the structure of `elems`), returns tensors in any structure.
        elems: A tensor, or a nested structure of tensors with one first dimension.
        fallback_to_while_loop: Accepted for compatibility: elements are under way at the same time in a loop.
        warn: Accepted for compatibility.
        name: Name scope of the new nodes.

    Returns:
        The results, with the first dimension of `elems`.

    Example:
        >>> sums = tf.vectorized_map(tf.reduce_sum, tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    """
    with name_scope(name, "vectorized_map", nest.flatten(elems)):
        # No step runs these nodes: they say which types the results have.
        first = fn(_Elements(fn, elems).read(convert_to_tensor(0)))
        types = nest.map_structure(lambda value: convert_to_tensor(value).dtype, first)
        return map_fn(fn, elems, types, parallel_iterations=32)


@export("scan")
def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Folds `fn` over the elements along the first dimension, and stacks all intermediate results.

    Args:
        fn: Takes the result so far and an element, returns the next result.
        elems: A tensor, or a nested structure of tensors with one first dimension.
        initializer: The first result so far; the first element if None.
        parallel_iterations: How many steps may be under way at the same time.
        back_prop: Whether gradients may be taken.
        swap_memory: Accepted for compatibility.
        infer_shape: Whether all results have the same shape.
        reverse: Whether to go from the last element to the first.
        name: Name scope of the new nodes.

    Returns:
        The results, in the structure of `initializer` (or `elems`), with the first dimension of `elems`.

    Raises:
        TypeError: If `fn` is not callable, or its result has another structure than `initializer`.
        ValueError: If an element is a scalar, or the first dimensions differ.

    Example:
        >>> sums = tf.scan(lambda total, x: total + x, tf.constant([1.0, 2.0, 3.0]))
    """
    with name_scope(name, "scan", nest.flatten(elems)):
        elements = _Elements(fn, elems)
        structure, start, state = _initial(elements, initializer, reverse)
        types = [value.dtype for value in state]
        outputs = [
            TensorArray(v.dtype, size=elements.count, element_shape=v.shape if infer_shape else None,
                        infer_shape=infer_shape)
            for v in state
        ]  # fmt: skip
        last = apply_one("Sub", elements.count, 1)
        if initializer is None:
            where: Any = last if reverse else 0
            outputs = [array.write(where, v) for array, v in zip(outputs, state, strict=True)]

        def body(step: Tensor, state: Any, arrays: Any) -> Any:
            i = apply_one("Sub", last, step) if reverse else step
            result = fn(nest.pack_sequence_as(structure, state), elements.read(i))
            values = _values(result, structure, types, "The result of fn must have the structure of initializer.")
            return apply_one("AddV2", step, 1), values, [a.write(i, v) for a, v in zip(arrays, values, strict=True)]

        _, _, outputs = while_loop(
            lambda step, *_: apply_one("Less", step, elements.count),
            body,
            (convert_to_tensor(start), state, outputs),
            parallel_iterations=_iterations(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        return _stacked(outputs, elements.static_count, structure)


def _initial(elements: _Elements, initializer: Any, backwards: bool) -> tuple[Any, int, list[Tensor]]:
    """The structure of the state, the number of elements that it already holds, and its tensors."""
    if initializer is not None:
        return initializer, 0, [convert_to_tensor(value) for value in nest.flatten(initializer)]
    return elements.structure, 1, elements.end(last=backwards)


def _fold(
    fn: Any, elems: Any, initializer: Any, parallel_iterations: int, back_prop: bool, swap_memory: bool, name: Any,
    backwards: bool,
) -> Any:  # fmt: skip
    with name_scope(name, "foldr" if backwards else "foldl", nest.flatten(elems)):
        elements = _Elements(fn, elems)
        structure, start, state = _initial(elements, initializer, backwards)
        types = [value.dtype for value in state]
        last = apply_one("Sub", elements.count, 1)

        def body(step: Tensor, state: Any) -> Any:
            i = apply_one("Sub", last, step) if backwards else step
            result = fn(nest.pack_sequence_as(structure, state), elements.read(i))
            values = _values(result, structure, types, "The result of fn must have the structure of initializer.")
            return apply_one("AddV2", step, 1), values

        _, state = while_loop(
            lambda step, _: apply_one("Less", step, elements.count),
            body,
            (convert_to_tensor(start), state),
            parallel_iterations=_iterations(parallel_iterations),
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        return nest.pack_sequence_as(structure, state)


@export("foldl")
def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Folds `fn(result, element)` over the elements along the first dimension, from the first to the last.

    Args:
        fn: Takes the result so far and an element, returns the next result.
        elems: A tensor, or a nested structure of tensors with one first dimension.
        initializer: The first result so far; the first element if None.
        parallel_iterations: How many steps may be under way at the same time.
        back_prop: Whether gradients may be taken.
        swap_memory: Accepted for compatibility.
        name: Name scope of the new nodes.

    Returns:
        The last result.

    Example:
        >>> total = tf.foldl(lambda total, x: total + x, tf.constant([1.0, 2.0, 3.0]))
    """
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, backwards=False)


@export("foldr")
def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Folds like `foldl`, from the last element to the first."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, backwards=True)
