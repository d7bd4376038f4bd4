"""`tf.estimator.inputs`: input functions from NumPy arrays and pandas frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("estimator.inputs.numpy_input_fn")
def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An input function that feeds arrays, in batches of rows.

    Args:
        x: An array, or a dictionary of arrays, all with as many rows.
        y: The labels: the same, or None.
        batch_size: Rows in a batch; the last one of all epochs may be smaller.
        num_epochs: How often the rows are used; None for ever.
        shuffle: Whether to bring them into another order in each epoch; must be given.
        queue_capacity: From how many rows the next one is drawn at least.
        num_threads: The number of threads that read; with more than one and without shuffling, the order may differ.

    Returns:
        A function without arguments: it returns features, and labels if there are any.

    Raises:
        ValueError: If the arguments do not fit each other.
        TypeError: If `x` is not of arrays.

    Example:
        >>> ages = {"age": np.arange(4.0), "height": np.arange(32.0, 36.0)}
        >>> input_fn = tf.estimator.inputs.numpy_input_fn(ages, np.arange(-32, -28), batch_size=2, shuffle=False)
        >>> features, target = input_fn()
        >>> with tf.train.MonitoredSession() as session:
        ...     print(session.run([features["age"], target]))
        [array([0., 1.]), array([-32, -31])]
    """
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be provided and explicitly set as boolean, got {shuffle!r}.")
    features = _as_arrays(x, "x")
    labels = None if y is None else _as_arrays(y, "y")
    if isinstance(labels, dict) and not labels:
        raise ValueError("y cannot be empty dict, use None instead.")
    parts = [*_parts(features), *(() if labels is None else _parts(labels))]
    sizes = {name: len(array) for name, array in parts}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"Length of tensors in x and y is mismatched: {sizes}.")
    rows = next(iter(sizes.values()))

    def input_fn() -> Any:
        arrays = [array for _, array in parts]
        tensors = _rows_of(arrays, rows, batch_size, num_epochs, shuffle, max(queue_capacity, rows))
        count = len(_parts(features))
        found = _like(features, tensors[:count])
        return found if labels is None else (found, _like(labels, tensors[count:]))

    return input_fn


def _as_arrays(given: Any, name: str) -> Any:
    if isinstance(given, Mapping):
        if not given and name == "x":
            raise ValueError("x cannot be an empty dict.")
        return {key: np.asarray(value) for key, value in given.items()}
    if not isinstance(given, np.ndarray):
        raise TypeError(f"{name} must be a dict or array; got {type(given).__name__}.")
    return given


def _parts(given: Any) -> list[tuple[str, Any]]:
    return [(key, given[key]) for key in sorted(given)] if isinstance(given, dict) else [("array", given)]


def _like(given: Any, tensors: list[Any]) -> Any:
    return dict(zip(sorted(given), tensors, strict=True)) if isinstance(given, dict) else tensors[0]


def _rows_of(
    arrays: list[Any], rows: int, batch_size: int, num_epochs: int | None, shuffle: bool, capacity: int
) -> list[Any]:
    """The next batch of rows of some arrays, which stay outside of the graph."""
    numbers = tf.data.Dataset.range(rows)
    if shuffle:
        numbers = numbers.shuffle(max(min(capacity, rows), 1), seed=None, reshuffle_each_iteration=True)
    numbers = numbers.repeat(-1 if num_epochs is None else num_epochs).batch(batch_size)

    def pick(at: Any) -> list[Any]:
        return [np.asarray(array[at]) for array in arrays]

    types = [tf.as_dtype(array.dtype) if array.dtype.kind not in "SUO" else tf.string for array in arrays]
    batches = numbers.map(lambda at: tuple(tf.py_func(pick, [at], types, stateful=False)))
    iterator = tf.data.make_initializable_iterator(batches.prefetch(1))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    tensors = list(tf.nest.flatten(iterator.get_next()))
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor.set_shape([None, *array.shape[1:]])
    return tensors


@export("estimator.inputs.pandas_input_fn")
def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """An input function that feeds a pandas DataFrame: a feature for each column.

    Args:
        x: A DataFrame.
        y: A Series or DataFrame of labels with the same index, or None.
        batch_size: Rows in a batch.
        num_epochs: How often the rows are used; None for ever.
        shuffle: Whether to bring them into another order in each epoch; must be given.
        queue_capacity: From how many rows the next one is drawn at least.
        num_threads: The number of threads that read.
        target_column: The name that the labels must not share with a column of `x`.

    Raises:
        ValueError: If the index of `y` is not that of `x`, or `target_column` is a column of `x`.
    """
    if not hasattr(x, "columns"):
        raise TypeError(f"x must be a pandas DataFrame; got {type(x).__name__}.")
    features = {str(name): x[name].to_numpy() for name in x.columns}
    labels = None
    if y is not None:
        if target_column in x.columns and not hasattr(y, "columns"):
            raise ValueError(
                f"Cannot use name {target_column} for target column: DataFrame already has a column with that name."
            )
        if not x.index.equals(y.index):
            raise ValueError(f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}")
        labels = {str(c): y[c].to_numpy() for c in y.columns} if hasattr(y, "columns") else y.to_numpy()
    return numpy_input_fn(features, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)
