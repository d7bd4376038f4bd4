"""Methods that datasets have in TensorFlow 2, of what are transformations in TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from thalweg.data import experimental, grouping, reducing
from thalweg.data.dataset import Dataset
from thalweg.data.iterator import get_single_element
from thalweg.graph import nest
from thalweg.graph.default_graph import executing_eagerly


def _numpy_elements(self: Dataset) -> Iterator[Any]:
    """The elements as arrays, where ops run at once."""
    if not executing_eagerly():
        raise RuntimeError("as_numpy_iterator() is only supported when eager execution is enabled: use an iterator.")
    return (nest.map_structure(lambda each: each.numpy() if hasattr(each, "numpy") else each, element)
            for element in self)  # fmt: skip


def _method(transformation: Callable[..., Any]) -> Callable[..., Dataset]:
    """The transformation that a function of tf.data.experimental makes, as a method."""

    def method(self: Dataset, *args: Any, **kwargs: Any) -> Dataset:
        kwargs.pop("name", None)
        return self.apply(transformation(*args, **kwargs))

    method.__name__ = transformation.__name__
    method.__doc__ = transformation.__doc__
    return method


def _choose_from_datasets(datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = True) -> Dataset:
    """Elements of datasets, each of that whose number the choice says."""
    return experimental.choose_from_datasets(datasets, choice_dataset)


def _sample_from_datasets(
    datasets: Any, weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Elements of datasets, each of one drawn at random."""
    return experimental.sample_from_datasets(datasets, weights, seed)


def _random(seed: Any = None, **_: Any) -> Dataset:
    """Endless random integers."""
    return experimental.RandomDataset(seed)


def _single_element(self: Dataset, name: str | None = None) -> Any:
    """The only element."""
    return get_single_element(self)


METHODS: dict[str, Any] = {
    "as_numpy_iterator": _numpy_elements,
    "bucket_by_sequence_length": _method(grouping.bucket_by_sequence_length),
    "choose_from_datasets": staticmethod(_choose_from_datasets),
    "get_single_element": _single_element,
    "group_by_window": _method(grouping.group_by_window),
    "ignore_errors": _method(experimental.ignore_errors),
    "random": staticmethod(_random),
    "rejection_resample": _method(grouping.rejection_resample),
    "sample_from_datasets": staticmethod(_sample_from_datasets),
    "scan": _method(reducing.scan),
    "take_while": _method(experimental.take_while),
    "unique": _method(experimental.unique),
}
for _name, _value in METHODS.items():
    setattr(Dataset, _name, _value)
