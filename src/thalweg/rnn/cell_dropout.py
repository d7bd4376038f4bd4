"""DropoutWrapper: dropout on the inputs, the outputs and the state of a recurrent cell."""

from __future__ import annotations

import hashlib
from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.nn.dropout import dropout
from thalweg.ops.random.generators import random_uniform
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.cell_wrappers import CellWrapper
from thalweg.rnn.lstm_cells import LSTMStateTuple


def _all_but_memory(substate: Any) -> Any:
    """Which parts of a state get dropout: all but the memory cells of an LSTM (Semeniuta et al., 2016) and arrays."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, TensorArray)


@export("nn.rnn_cell.DropoutWrapper", "contrib.rnn.DropoutWrapper")
class DropoutWrapper(CellWrapper):
    """Applies dropout to inputs, outputs and state of a cell."""

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Any = None,
    ) -> None:
        """Describes the cell.

        Args:
            cell: The cell inside.
            input_keep_prob: The probability that an element of the inputs is kept: a number or a tensor.
            output_keep_prob: The same for the outputs.
            state_keep_prob: The same for the state that goes to the next step; the output is not affected.
            variational_recurrent: Whether one choice of elements is used in all steps (Gal and Ghahramani, 2015).
            input_size: Sizes of the inputs; needed if `variational_recurrent` and `input_keep_prob` < 1.
            dtype: The type of inputs, state and outputs; needed if `variational_recurrent`.
            seed: The seed from which those of the ops are made.
            dropout_state_filter_visitor: A function of a part of the state: True or False, whether it gets dropout, or
                a structure of them for its own parts. By default all but the `c` of an LSTMStateTuple.

        Raises:
            TypeError: If the visitor is not a function.
            ValueError: If a probability is out of range, or an argument that the variational mode needs is missing.
        """
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._filter = dropout_state_filter_visitor or _all_but_memory
        self._input_keep_prob = _checked_probability("input_keep_prob", input_keep_prob)
        self._output_keep_prob = _checked_probability("output_keep_prob", output_keep_prob)
        self._state_keep_prob = _checked_probability("state_keep_prob", state_keep_prob)
        self._variational = variational_recurrent
        self._seed = seed
        self._noise: dict[str, Any] = {}
        if variational_recurrent:
            self._make_noise(input_size, dtype)

    def _make_noise(self, input_size: Any, dtype: Any) -> None:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        if _drops(self._input_keep_prob):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                    "provided"
                )
            self._noise["input"] = self._noise_for("input", input_size, dtype)
        self._noise["state"] = self._noise_for("state", self.cell.state_size, dtype)
        self._noise["output"] = self._noise_for("output", self.cell.output_size, dtype)

    def _noise_for(self, salt: str, sizes: Any, dtype: Any) -> Any:
        def one(index: int, size: Any) -> Tensor:
            dims = TensorShape(size).as_list() if isinstance(size, (TensorShape, list, tuple)) else [int(size)]
            return random_uniform([1, *dims], dtype=dtype, seed=self._seed_for(salt, index))

        flat = [one(i, size) for i, size in enumerate(nest.flatten(sizes))]
        return nest.pack_sequence_as(sizes, flat)

    def _seed_for(self, salt: str, index: int) -> int | None:
        if self._seed is None:
            return None
        text = f"{self._seed}{salt}_{index}".encode()
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropped(self, values: Any, salt: str, keep_prob: Any, shallow: Any = None) -> Any:
        """Applies dropout to all parts of a structure, or to those for which `shallow` says True."""
        if shallow is None:
            shallow = nest.map_structure(lambda _: True, values)
        chosen = nest.flatten(shallow)
        parts = nest.flatten_up_to(shallow, values)
        noise = [None] * len(parts)
        if self._variational:
            noise = nest.flatten_up_to(shallow, self._noise[salt])

        def one(index: int, drop: Any, value: Any, value_noise: Any) -> Any:
            if not isinstance(drop, bool) or not drop:
                return value
            if value_noise is not None:
                return _dropout_with_noise(value, value_noise, keep_prob)
            return dropout(value, keep_prob=keep_prob, seed=self._seed_for(salt, index))

        results = [one(i, *three) for i, three in enumerate(zip(chosen, parts, noise, strict=True))]
        flat = [atom for result in results for atom in nest.flatten(result)]
        return nest.pack_sequence_as(values, flat)

    def _step(self, inputs: Any, state: Any, options: dict[str, Any]) -> Any:
        if _drops(self._input_keep_prob):
            inputs = self._dropped(inputs, "input", self._input_keep_prob)
        output, new_state = self.cell(inputs, state, **options)
        if _drops(self._state_keep_prob):
            shallow = _dropout_filter(self._filter, new_state)
            new_state = self._dropped(new_state, "state", self._state_keep_prob, shallow)
        if _drops(self._output_keep_prob):
            output = self._dropped(output, "output", self._output_keep_prob)
        return output, new_state


def _checked_probability(name: str, value: Any) -> Any:
    tensor = value if isinstance(value, (int, float)) else convert_to_tensor(value)
    known = constant_value(tensor) if isinstance(tensor, Tensor) else value
    if known is None:
        return tensor
    if not 0 < float(known) <= 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1, got {float(known)}")
    return float(known)


def _drops(keep_prob: Any) -> bool:
    return not isinstance(keep_prob, float) or keep_prob < 1


def _dropout_filter(visitor: Any, structure: Any) -> Any:
    """The visitor's answer for each part of a structure, from the top: False stops the descent, True goes deeper."""
    answer = visitor(structure)
    if not nest.is_nested(structure):
        if not isinstance(answer, bool):
            raise TypeError(f"The visitor must return a bool for {structure}, got {answer!r}")
        return answer
    if isinstance(answer, bool):
        if not answer:
            return False
        children = [_dropout_filter(visitor, child) for child in nest.flatten_up_to(_one_level(structure), structure)]
    else:
        answers = nest.flatten_up_to(_one_level(structure), answer)
        inner = nest.flatten_up_to(_one_level(structure), structure)
        children = [
            _dropout_filter(visitor, child) if said else False for said, child in zip(answers, inner, strict=True)
        ]
    return _packed_one_level(structure, children)


def _one_level(structure: Any) -> Any:
    return _packed_one_level(structure, [0] * len(structure))


def _packed_one_level(structure: Any, children: list[Any]) -> Any:
    if isinstance(structure, dict):
        return type(structure)(zip(sorted(structure), children, strict=True))
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)


def _dropout_with_noise(value: Any, noise: Tensor, keep_prob: Any) -> Tensor:
    """Dropout with the given noise, which selects the elements."""
    kept = apply_one("Floor", apply_one("AddV2", noise, keep_prob, name="add"))
    result = apply_one("Mul", apply_one("RealDiv", value, keep_prob, name="div"), kept, name="mul")
    result.set_shape(value.shape)
    return result
