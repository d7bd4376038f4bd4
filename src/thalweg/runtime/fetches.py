"""Fetches: from any nested structure of graph elements to a flat list of tensors, and back to a structure of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from thalweg.graph import nest
from thalweg.graph.composite import IndexedSlices, IndexedSlicesValue, SparseTensor, SparseTensorValue
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.state.session_handles import TensorHandle

Build = Callable[[Sequence[Any]], Any]


class FetchPlan:
    """What to fetch, and how to put the results together.

    Attributes:
        tensors: The distinct tensors to fetch.
        targets: The operations to run for their effect.
        build: From the values of `tensors` to the structure that the caller asked for.
        single: Whether the caller asked for exactly one tensor, not in a list.
    """

    def __init__(self, graph: Graph, fetches: Any, session: Any = None) -> None:
        """Resolves `fetches` in `graph`; handles of session tensors will belong to `session`."""
        self._graph = graph
        self._session = session
        self._index: dict[Tensor, int] = {}
        self._targets: dict[Operation, None] = {}
        self.build = self._plan(fetches)
        self.tensors = list(self._index)
        self.targets = list(self._targets)
        element = None if isinstance(fetches, (list, tuple, dict)) else fetches
        self.single = len(self.tensors) == 1 and not self.targets and self._is_plain(element)
        self.single = self.single and self.tensors[0].op.type != "GetSessionHandle"

    @staticmethod
    def _is_plain(fetch: Any) -> bool:
        return isinstance(fetch, (Tensor, str)) or hasattr(fetch, "_as_graph_element")

    def _plan(self, fetch: Any) -> Build:
        if fetch is None:
            raise TypeError('Argument `fetch` = None has invalid type "NoneType". Cannot be None')
        if isinstance(fetch, (Tensor, Operation, str, bytes)) or hasattr(fetch, "_as_graph_element"):
            return self._element(fetch)
        if isinstance(fetch, SparseTensor):
            parts = [self._element(t) for t in (fetch.indices, fetch.values, fetch.dense_shape)]
            return lambda values: SparseTensorValue(*(part(values) for part in parts))
        if isinstance(fetch, IndexedSlices):
            given = [t for t in (fetch.values, fetch.indices, fetch.dense_shape) if t is not None]
            parts = [self._element(t) for t in given]
            absent = (None,) * (3 - len(given))
            return lambda values: IndexedSlicesValue(*(part(values) for part in parts), *absent)
        if hasattr(fetch, "_session_parts"):  # RaggedTensors, which are above this package.
            tensors, build = fetch._session_parts()
            parts = [self._element(t) for t in tensors]
            return lambda values: build([part(values) for part in parts])
        if isinstance(fetch, Mapping):
            items = [(key, self._plan(value)) for key, value in fetch.items()]
            kind = type(fetch)
            if kind is dict:
                return lambda values: {key: part(values) for key, part in items}
            return lambda values: kind((key, part(values)) for key, part in items)  # type: ignore[call-arg]
        if isinstance(fetch, (list, tuple)):
            parts = [self._plan(item) for item in fetch]
            if hasattr(fetch, "_fields"):
                make = type(fetch)._make  # type: ignore[union-attr]
                return lambda values: make(part(values) for part in parts)
            if type(fetch) is list:
                return lambda values: [part(values) for part in parts]
            sequence = type(fetch)
            return lambda values: sequence([part(values) for part in parts])
        return self._element(fetch)

    def _element(self, fetch: Any) -> Build:
        try:
            element = self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(
                f'Argument `fetch` = {fetch!r} has invalid type "{type(fetch).__name__}", must be a string or Tensor. '
                f"({e})"
            ) from None
        except ValueError as e:
            raise ValueError(f"Argument `fetch` = {fetch!r} cannot be interpreted as a Tensor. ({e})") from None
        except KeyError as e:
            raise ValueError(f"Argument `fetch` = {fetch!r} cannot be interpreted as a Tensor. ({e})") from None
        if isinstance(element, Operation):
            if not self._graph.is_fetchable(element):
                raise ValueError(f"Operation {element.name!r} has been marked as not fetchable.{_why_not(element)}")
            self._targets[element] = None
            return lambda values: None
        if not self._graph.is_fetchable(element):
            raise ValueError(f"Tensor {element.name!r} has been marked as not fetchable.{_why_not(element.op)}")
        position = self._index.setdefault(element, len(self._index))
        if element.op.type == "GetSessionHandle":
            dtype, session = element.op.inputs[0].dtype.base_dtype, self._session
            return lambda values: TensorHandle(values[position], dtype, session)
        return lambda values: values[position]


def _why_not(op: Operation) -> str:
    """Why an operation inside of a loop or conditional cannot be fetched, and what to do."""
    context = op._control_flow_context
    if context is None:
        return ""
    name = context.name.rpartition("/")[0] or context.name
    if context.enclosing_while() is not None:
        return (
            f" It is inside of the while loop '{name}', which computes it in each iteration: make it a loop "
            "variable to fetch its last value, write it to a TensorArray to fetch all of them, or print it by tf.Print."
        )
    return (
        f" It is inside of a branch of the conditional '{name}', which may not run: return it from both branches "
        "and fetch the conditional's result."
    )


def resolve_feeds(graph: Graph, feed_dict: Mapping[Any, Any]) -> dict[Tensor, Any]:
    """The tensors that a feed dictionary gives values for; sparse values and nested tuples are taken apart."""
    out: dict[Tensor, Any] = {}
    for key, value in _flat_items(feed_dict):
        for tensor, part in _feed_parts(graph, key, value):
            if isinstance(part, Tensor):
                raise TypeError(
                    "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, "
                    f"strings, lists, numpy ndarrays. Was given: {part!r}"
                )
            if not graph.is_feedable(tensor):
                raise ValueError(f"Tensor {tensor.name} may not be fed.")
            out[tensor] = part
    return out


def _flat_items(feed_dict: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Items with keys that are no tuples: the state of a recurrent network, say, can be fed as a whole."""
    if not any(isinstance(key, tuple) for key in feed_dict):
        return feed_dict.items()
    flat: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        keys, values = (nest.flatten(key), nest.flatten(value)) if isinstance(key, tuple) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(
                f"A key of feed_dict nests {len(keys)} tensors, {keys}, and its value {len(values)}: {value}"
            )
        for each, part in zip(keys, values, strict=True):
            if each in flat:
                raise ValueError(f"feed_dict gives two values for {each}: alone and in a tuple, or in two tuples.")
            flat[each] = part
    return flat.items()


def feed_tensors(graph: Graph, key: Any) -> list[Tensor]:
    """The tensors behind one key of a feed dictionary, or one feed of a partial run."""
    if isinstance(key, SparseTensor):
        return [key.indices, key.values, key.dense_shape]
    if isinstance(key, IndexedSlices):
        return [t for t in (key.values, key.indices, key.dense_shape) if t is not None]
    if hasattr(key, "_session_parts"):
        parts: list[Tensor] = key._session_parts()[0]
        return parts
    try:
        element = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except (ValueError, KeyError, TypeError) as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {e}") from None
    return [element]


def _feed_parts(graph: Graph, key: Any, value: Any) -> list[tuple[Tensor, Any]]:
    tensors = feed_tensors(graph, key)
    if hasattr(key, "_session_values"):
        return list(zip(tensors, key._session_values(value), strict=True))
    if len(tensors) == 1:
        return [(tensors[0], value)]
    if not isinstance(value, (tuple, list)) or len(value) < len(tensors):
        raise TypeError(
            f"A {type(key).__name__} must be fed with a {type(key).__name__}Value or a tuple of {len(tensors)} values, "
            f"got {value!r}."
        )
    return list(zip(tensors, value, strict=False))
