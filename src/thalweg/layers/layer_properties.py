"""The properties of a layer: its variables, losses, updates, inputs and outputs."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph import nest
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape
from thalweg.state.scope_defaults import VariableScope


class LayerProperties:
    """The read-only side of a Layer."""

    trainable: bool
    built: bool
    _name: str
    _dtype: DType | None
    _scope: VariableScope | None
    _graph: Any
    _activity_regularizer: Any

    def _clear(self) -> None:
        """Starts without variables, losses, updates and calls."""
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self._losses: list[tuple[Any, bool]] = []  # With whether they depend on no input.
        self._updates: list[tuple[Any, bool]] = []
        self._recorded_calls: list[tuple[Any, Any]] = []

    def _list_variable(self, variable: Any, trainable: bool) -> None:
        """Adds a variable to the layer's list, unless it is there already."""
        kept = self._trainable_weights if trainable else self._non_trainable_weights
        if not any(known is variable for known in kept):
            kept.append(variable)

    def _record_call(self, inputs: Any, outputs: Any) -> None:
        self._recorded_calls.append((inputs, outputs))

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def scope_name(self) -> str:
        """The name of its variable scope.

        Raises:
            ValueError: Before it was called.
        """
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been used yet. The scope '
                "name is determined the first time the layer instance is called. You must therefore call the layer "
                "before querying `scope_name`."
            )
        return self._scope.name

    @property
    def graph(self) -> Any:
        """The graph it was called in; None before."""
        return self._graph

    @property
    def dtype(self) -> Any:
        """The type of its variables; None if it follows from inputs that have not come yet."""
        return None if self._dtype is None else self._dtype.name

    @property
    def activity_regularizer(self) -> Any:
        """The function of the output whose value joins the losses."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer: Any) -> None:
        self._activity_regularizer = regularizer

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that optimizers change; none if the layer is not trainable."""
        return [*self._trainable_weights, *self._from_sublayers("trainable_weights")] if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        own = self._non_trainable_weights if self.trainable else self._trainable_weights + self._non_trainable_weights
        return [*own, *self._from_sublayers("non_trainable_weights" if self.trainable else "weights")]

    def _from_sublayers(self, attribute: str) -> list[Any]:
        """The values of an attribute (weights) of the layers inside of this one."""
        found: list[Any] = []
        for value in self.__dict__.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(part, LayerProperties):
                    found.extend(item for item in getattr(part, attribute) if not any(item is known for known in found))
        own = self._trainable_weights + self._non_trainable_weights
        return [item for item in found if not any(item is known for known in own)]

    @property
    def weights(self) -> list[Any]:
        """All variables, the trainable ones first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    @property
    def losses(self) -> list[Any]:
        """The losses that were added."""
        return [loss for loss, _ in self._losses]

    @property
    def updates(self) -> list[Any]:
        """The updates that were added; none if the layer is not trainable."""
        return [update for update, _ in self._updates] if self.trainable or self.stateful else []

    stateful: bool

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """The losses that depend on the inputs; with None, those that depend on none."""
        return [loss for loss, unconditional in self._losses if unconditional is (inputs is None)]

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """The updates that depend on the inputs; with None, those that depend on none."""
        if not (self.trainable or self.stateful):
            return []
        return [update for update, unconditional in self._updates if unconditional is (inputs is None)]

    def _only_call(self, what: str, index: int) -> Any:
        if not self._recorded_calls:
            raise AttributeError(f"Layer {self._name} has never been called and thus has no defined {what}.")
        if len(self._recorded_calls) > 1:
            raise AttributeError(f"The layer {self._name} was called more than once: `{what}` is ill-defined.")
        return self._recorded_calls[0][index]

    @property
    def input(self) -> Any:
        """The input of its only call."""
        return self._only_call("input", 0)

    @property
    def output(self) -> Any:
        """The output of its only call."""
        return self._only_call("output", 1)

    @property
    def input_shape(self) -> Any:
        """The static shape of the input of its only call, as a tuple."""
        return _shape_tuples(self._only_call("input shape", 0))

    @property
    def output_shape(self) -> Any:
        """The static shape of the output of its only call, as a tuple."""
        return _shape_tuples(self._only_call("output shape", 1))

    def count_params(self) -> int:
        """The number of elements of all variables.

        Raises:
            ValueError: If the layer has not been built.
        """
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self._name}, but the layer isn't built.")
        return sum(math.prod(int(size or 0) for size in variable.shape.as_list()) for variable in self.weights)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor that all layers have."""
        return {"name": self._name, "trainable": self.trainable, "dtype": self.dtype}


def _shape_tuples(values: Any) -> Any:
    def one(tensor: Any) -> Any:
        shape = TensorShape(tensor.shape)
        return None if shape.ndims is None else tuple(shape.as_list())

    return nest.map_structure(one, values)
