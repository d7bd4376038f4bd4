"""Cells around cells: several in a stack, on a device, with a residual connection."""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.default_graph import device, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array.joining import concat
from thalweg.platform import logging
from thalweg.rnn.cell_base import RNNCell, assert_like_rnn_cell
from thalweg.state.variable_scope import variable_scope


class CellWrapper(RNNCell):
    """A cell around another cell. It has no variables and no scope of its own."""

    def __init__(self, cell: Any) -> None:
        """Keeps the cell."""
        super().__init__()
        assert_like_rnn_cell("cell", cell)
        self.cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self.cell

    @property
    def state_size(self) -> Any:
        """The state size of the cell inside."""
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        """The output size of the cell inside."""
        return self.cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The zero state of the cell inside."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Does one step."""
        return self._step(inputs, state, {} if scope is None else {"scope": scope})

    def _step(self, inputs: Any, state: Any, options: dict[str, Any]) -> Any:
        return self.cell(inputs, state, **options)


@export("nn.rnn_cell.ResidualWrapper", "contrib.rnn.ResidualWrapper")
class ResidualWrapper(CellWrapper):
    """Adds the inputs of a cell to its outputs."""

    def __init__(self, cell: Any, residual_fn: Any = None) -> None:
        """Takes the cell, and a function of (inputs, outputs) that combines them; their sum if None."""
        super().__init__(cell)
        self._residual_fn = residual_fn

    def _step(self, inputs: Any, state: Any, options: dict[str, Any]) -> Any:
        outputs, new_state = self.cell(inputs, state, **options)
        return (self._residual_fn or _checked_sum)(inputs, outputs), new_state


def _checked_sum(inputs: Any, outputs: Any) -> Any:
    nest.assert_same_structure(inputs, outputs)
    for i, o in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
        i.shape.assert_is_compatible_with(o.shape)
    return nest.map_structure(lambda i, o: i + o, inputs, outputs)


@export("nn.rnn_cell.DeviceWrapper", "contrib.rnn.DeviceWrapper")
class DeviceWrapper(CellWrapper):
    """Puts a cell on a device."""

    def __init__(self, cell: Any, device: Any) -> None:
        """Takes the cell and the device, as in `tf.device`."""
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The zero state of the cell inside, on the device."""
        with device(self._device):
            return super().zero_state(batch_size, dtype)

    def _step(self, inputs: Any, state: Any, options: dict[str, Any]) -> Any:
        with device(self._device):
            return self.cell(inputs, state, **options)


@export("nn.rnn_cell.MultiRNNCell", "contrib.rnn.MultiRNNCell")
class MultiRNNCell(RNNCell):
    """Several cells in a stack: each gets the output of the one below."""

    def __init__(self, cells: Any, state_is_tuple: bool = True) -> None:
        """Describes the stack.

        Args:
            cells: The cells, the first at the bottom.
            state_is_tuple: Whether the state is a tuple of the cells' states, or one tensor.

        Raises:
            ValueError: If there are no cells, or their states are tuples and `state_is_tuple` is False.
            TypeError: If `cells` is not a list.
        """
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        if len({id(cell) for cell in cells}) < len(cells):
            logging.warning(
                "At least two cells provided to MultiRNNCell are the same object and will share weights: %s", cells
            )
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in self._cells):
            raise ValueError(
                f"Some cells return tuples of states, but the flag state_is_tuple is not set.  State sizes are: "
                f"{[cell.state_size for cell in self._cells]}"
            )

    @property
    def state_size(self) -> Any:
        """The sizes of the cells' states."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The output size of the cell at the top."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The zero states of all cells."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step of all cells."""
        if self._state_is_tuple and (not nest.is_nested(state) or len(state) != len(self._cells)):
            raise ValueError(f"Expected state to be a tuple of length {len(self._cells)}, but received: {state}")
        states = []
        position = 0
        for i, cell in enumerate(self._cells):
            with variable_scope(f"cell_{i}"):
                if self._state_is_tuple:
                    part = state[i]
                else:
                    part = state[:, position : position + cell.state_size]
                    position += cell.state_size
                inputs, new_state = cell(inputs, part)
                states.append(new_state)
        return inputs, tuple(states) if self._state_is_tuple else concat(states, 1)
