"""Iterator: takes elements out of datasets, one for each run of its `get_next`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg import errors
from thalweg.data import structure
from thalweg.data.one_shot import dataset_factory
from thalweg.data.saveable import IteratorSaveable
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list, apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.runtime.eager_queue import synchronously

if TYPE_CHECKING:
    from thalweg.data.dataset import Dataset


@export("data.Iterator")
class Iterator:
    """A position in a dataset.

    Make one with `make_one_shot_iterator`, `make_initializable_iterator`, `Iterator.from_structure` or
    `Iterator.from_string_handle`.

    Example:
        >>> iterator = tf.data.Iterator.from_structure(tf.int64, [])
        >>> start = iterator.make_initializer(tf.data.Dataset.range(3))
        >>> element = iterator.get_next()
        >>> with tf.Session() as session:
        ...     _ = session.run(start)
        ...     print([int(session.run(element)) for _ in range(3)])
        [0, 1, 2]
    """

    def __init__(self, iterator_resource: Tensor, initializer: Operation | None, output_types: Any, output_shapes: Any,
                 output_classes: Any) -> None:  # fmt: skip
        """Wraps the handle of an iterator; programs use the functions named above."""
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._element_spec = structure.specs_from(output_types, output_shapes, output_classes)
        self._string_handle: Tensor | None = None

    @classmethod
    def _of(cls, resource: Tensor, initializer: Operation | None, spec: Any) -> Iterator:
        return cls(
            resource, initializer, structure.types_of(spec), structure.shapes_of(spec), structure.classes_of(spec)
        )

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """An iterator for any number of datasets of one structure, each of which can initialize it.

        Args:
            output_types: The structure of the elements, with types.
            output_shapes: The same with shapes; unknown if None.
            shared_name: Iterators of this name are one within a session.
            output_classes: The same with `tf.Tensor` or `tf.SparseTensor`; dense if None.

        Returns:
            An Iterator without initializer: `make_initializer` makes one for a dataset.
        """
        spec = structure.specs_from(output_types, output_shapes, output_classes)
        return Iterator._of(_resource(spec, shared_name), None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """The iterator that a string names: the choice among iterators can be fed.

        Args:
            string_handle: A string scalar, the value of another iterator's `string_handle()`.
            output_types: The structure of the elements, with types.
            output_shapes: The same with shapes; unknown if None.
            output_classes: The same with `tf.Tensor` or `tf.SparseTensor`; dense if None.

        Returns:
            An Iterator.
        """
        spec = structure.specs_from(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, dtypes.string)
        resource = apply_one(
            "IteratorFromStringHandleV2", handle, output_types=structure.flat_types(spec),
            output_shapes=structure.flat_shapes(spec),
        )  # fmt: skip
        return Iterator._of(resource, None, spec)

    @property
    def initializer(self) -> Operation:
        """The operation that starts the iterator over.

        Raises:
            ValueError: If it has none.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """The operation that starts the iterator over with `dataset`.

        Raises:
            TypeError: If the elements of the dataset do not fit.
        """
        for what, mine, its in (
            ("types", self.output_types, dataset.output_types),
            ("classes", self.output_classes, dataset.output_classes),
        ):
            if mine != its:
                raise TypeError(f"Expected output {what} {mine!r} but got dataset with output {what} {its!r}.")
        if not structure.compatible(self._element_spec, dataset.element_spec):
            raise TypeError(
                f"Expected output shapes compatible with {self.output_shapes!r} but got dataset with output shapes "
                f"{dataset.output_shapes!r}."
            )
        return apply_op(
            "MakeIterator", dataset._variant_tensor, self._iterator_resource, name=name or "make_initializer"
        )

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as a structure of tensors; running them at the end raises OutOfRangeError.

        Call it once and run the tensors many times: each call adds operations to the graph.
        """
        tensors = apply_list(
            "IteratorGetNext", self._iterator_resource, output_types=structure.flat_types(self._element_spec),
            output_shapes=structure.flat_shapes(self._element_spec), name=name,
        )  # fmt: skip
        return structure.from_tensors(self._element_spec, tensors)

    def string_handle(self, name: str | None = None) -> Tensor:
        """A string tensor that stands for the iterator in its session; see `from_string_handle`."""
        if name is None and self._string_handle is not None:
            return self._string_handle
        handle = apply_one("IteratorToStringHandle", self._iterator_resource, name=name)
        if name is None:
            self._string_handle = handle
        return handle

    @property
    def element_spec(self) -> Any:
        """The structure of the elements: a spec for each tensor."""
        return self._element_spec

    @property
    def output_types(self) -> Any:
        """The structure of the elements, with the type of each tensor."""
        return structure.types_of(self._element_spec)

    @property
    def output_shapes(self) -> Any:
        """The structure of the elements, with the static shape of each tensor."""
        return structure.shapes_of(self._element_spec)

    @property
    def output_classes(self) -> Any:
        """The structure of the elements, with the class of each tensor."""
        return structure.classes_of(self._element_spec)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[..., Any]]:
        return {"ITERATOR": lambda name: IteratorSaveable(self, name)}


@export("contrib.eager.Iterator")
class EagerIterator(Iterator):
    """A pass over a dataset where ops run at once: an iterator of Python.

    Example:
        >>> with tf.eager():
        ...     print([int(x) for x in tf.data.Dataset.range(3)])
        [0, 1, 2]
    """

    def __init__(self, dataset: Dataset) -> None:
        """Begins a pass.

        Raises:
            RuntimeError: If ops do not run at once here.
        """
        if not executing_eagerly():
            raise RuntimeError("Iterator objects only make sense when eager execution is enabled.")
        spec = dataset.element_spec
        resource = _resource(spec, None)
        apply_op("MakeIterator", dataset._variant_tensor, resource)
        super().__init__(
            resource, None, structure.types_of(spec), structure.shapes_of(spec), structure.classes_of(spec)
        )
        self._element_spec = spec

    def __iter__(self) -> EagerIterator:
        return self

    def __next__(self) -> Any:
        try:
            with synchronously():  # The end of the data is an error that is expected here.
                return self.get_next()
        except errors.OutOfRangeError:
            raise StopIteration from None

    next = __next__


def _resource(spec: Any, shared_name: str | None) -> Tensor:
    return apply_one(
        "IteratorV2", shared_name=shared_name or "", container="", output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip


@export("data.make_initializable_iterator")
def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """An iterator over a dataset that starts over at each run of its `initializer`.

    Example:
        >>> n = tf.placeholder(tf.int64, [])
        >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(n))
        >>> element = iterator.get_next()
        >>> with tf.Session() as session:
        ...     _ = session.run(iterator.initializer, {n: 7})
        ...     print(session.run(element))
        0
    """
    if executing_eagerly():
        raise RuntimeError("dataset.make_initializable_iterator is not supported when eager execution is enabled.")
    spec = dataset.element_spec
    resource = _resource(spec, shared_name)
    initializer = apply_op("MakeIterator", dataset._variant_tensor, resource)
    return Iterator._of(resource, initializer, spec)


@export("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """An iterator over a dataset that needs no initialization and cannot start over.

    Raises:
        ValueError: If the dataset depends on a placeholder or on state such as a variable or a table.
    """
    if executing_eagerly():
        return EagerIterator(dataset)
    spec = dataset.element_spec
    resource = apply_one(
        "OneShotIterator", dataset_factory=dataset_factory(dataset), output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return Iterator._of(resource, None, spec)


@export("data.get_output_types")
def get_output_types(dataset_or_iterator: Any) -> Any:
    """The types of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_types


@export("data.get_output_shapes")
def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The static shapes of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_shapes


@export("data.get_output_classes")
def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_classes


@export("data.experimental.get_single_element")
def get_single_element(dataset: Dataset) -> Any:
    """The only element of a dataset; running it fails if there is none, or more than one."""
    spec = dataset.element_spec
    tensors = apply_list(
        "DatasetToSingleElement", dataset._variant_tensor, output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return structure.from_tensors(spec, tensors)


@export("data.experimental.cardinality")
def cardinality(dataset: Dataset) -> Tensor:
    """How many elements there are; INFINITE_CARDINALITY or UNKNOWN_CARDINALITY where that is so."""
    return apply_one("DatasetCardinality", dataset._variant_tensor)
