"""Loops of AutoGraph over datasets: an iterator of the loop's own; the next element is taken at the end of a turn."""

from __future__ import annotations

from typing import Any

from thalweg.autograph.iteration import Source, State, register_source
from thalweg.data.dataset import Dataset
from thalweg.data.iterator import Iterator, make_initializable_iterator
from thalweg.data.optional import Optional, get_next_as_optional
from thalweg.graph import marks
from thalweg.graph.default_graph import control_dependencies, executing_eagerly
from thalweg.graph.tensor import Tensor


class DatasetElements(Source):
    """The elements of a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        """Takes the dataset."""
        self._dataset = dataset
        self._iterator: Iterator | None = None

    def start(self) -> State:
        """See `Source.start`."""
        self._iterator = make_initializable_iterator(self._dataset)
        own = (self._iterator._iterator_resource.op, self._iterator.initializer)
        with control_dependencies([self._iterator.initializer]):
            first = get_next_as_optional(self._iterator)._variant_tensor
        for op in (*own, first.op):
            op._set_attr(marks.OWN_STATE, True)
        return [first]

    def more(self, state: State) -> Tensor:
        """See `Source.more`."""
        return Optional(state[0], self._dataset.element_spec).has_value()

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        return Optional(state[0], self._dataset.element_spec).get_value()

    def next(self, state: State) -> State:
        """See `Source.next`."""
        assert self._iterator is not None
        with control_dependencies([state[0]]):  # One element after the other.
            return [get_next_as_optional(self._iterator)._variant_tensor]


def _elements(dataset: Dataset) -> Source | None:
    return None if executing_eagerly() else DatasetElements(dataset)


register_source(Dataset, _elements)
