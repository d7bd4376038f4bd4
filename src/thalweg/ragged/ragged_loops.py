"""Loops of converted code over the rows of a RaggedTensor."""

from __future__ import annotations

from typing import Any

import thalweg as tf
from thalweg.autograph.iteration import Source, register_source
from thalweg.ragged.ragged_tensor import RaggedTensor


class RaggedRows(Source):
    """The rows, which have different lengths."""

    def __init__(self, rows: Any) -> None:
        """Takes the RaggedTensor."""
        self._rows = rows
        self._count = rows.nrows(out_type=tf.int32)

    def start(self) -> list[Any]:
        """The number of the first row."""
        return [tf.constant(0)]

    def more(self, state: list[Any]) -> Any:
        """Whether there is such a row."""
        return state[0] < self._count

    def item(self, state: list[Any]) -> Any:
        """The row: a tensor, or a RaggedTensor if it has rows itself."""
        return self._rows[state[0]]

    def next(self, state: list[Any]) -> list[Any]:
        """The number of the next row."""
        return [state[0] + 1]

    def known_count(self) -> int | None:
        """How many there are, if the graph knows."""
        value = tf.get_static_value(self._count)
        return None if value is None else int(value)


# Where ops run at once, Python goes over the rows.
register_source(RaggedTensor, lambda value: None if tf.executing_eagerly() else RaggedRows(value))
