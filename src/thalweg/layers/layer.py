"""Layer: the base class of functions that own variables.

A layer's variables live in a variable scope that is chosen when the layer is first called: the layer's name, made
unique. The nodes of a call are named below the name scope that was opened then. So names, and with them checkpoints,
are those of TensorFlow.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Self

import numpy as np

from thalweg.graph import nest
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, colocate_with, get_default_graph, graph_of, name_scope
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.func_graph import outermost
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.layers.input_spec import assert_input_compatibility
from thalweg.layers.layer_properties import LayerProperties
from thalweg.state.policies import VariableAggregation, VariableSynchronization
from thalweg.state.scope_defaults import VariableScope
from thalweg.state.variable_scope import get_variable, variable_scope
from thalweg.state.variable_store import store_of_default_graph


def snake_case(class_name: str) -> str:
    """The default name of a layer: 'conv2d_transpose' for Conv2DTranspose, 'basic_lstm_cell' for BasicLSTMCell."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z0-9])", "_", class_name)
    name = re.sub("_+", "_", words).lower()
    return f"private{name}" if name.startswith("_") else name


@export("layers.Layer")
class Layer(LayerProperties):
    """A function of tensors that owns variables; subclasses override `build` and `call`.

    Example:
        >>> class Scale(tf.layers.Layer):
        ...     def build(self, input_shape):
        ...         self.factor = self.add_weight("factor", shape=[], initializer=tf.ones_initializer())
        ...         super().build(input_shape)
        ...     def call(self, inputs):
        ...         return inputs * self.factor
        >>> y = Scale()(tf.constant([1.0, 2.0]))
        >>> [v.name for v in tf.global_variables()]
        ['scale/factor:0']
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        """Creates a layer without variables.

        Args:
            trainable: Whether optimizers change its variables by default.
            name: Its name; the class name in snake case if None.
            dtype: The type of its variables; that of the first input if None.
            **kwargs: `activity_regularizer`, a function of the output whose value joins the losses; `_scope` and
                `_reuse`, the variable scope and whether to find variables in it.

        Raises:
            TypeError: For other keywords.
        """
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        kwargs.pop("autocast", None)
        kwargs.pop("dynamic", None)
        for key in ("input_shape", "batch_input_shape", "batch_size", "weights"):
            kwargs.pop(key, None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {', '.join(kwargs)}")
        self._base_name = name or snake_case(type(self).__name__)
        self._name = name or _unique_layer_name(self._base_name)
        self.trainable = trainable
        self.built = False
        self.input_spec: Any = None
        self.supports_masking = False
        self.stateful = False
        self._dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self._graph: Graph | None = None
        self._scope: VariableScope | None = None
        self._current_scope: VariableScope | None = None
        self._call_accepts_scope: bool | None = None
        self._clear()
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured

    def __repr__(self) -> str:
        sizes = [f"{variable.op.name.rpartition('/')[2]} {variable.shape}" for variable in self.weights]
        state = f"variables: {', '.join(sizes) or 'none'}" if self.built else "not built"
        return f"<{type(self).__name__} {self._name!r}, {state}>"

    def _name_scope(self) -> str:
        assert self._current_scope is not None
        return self._current_scope.original_name_scope

    def _set_scope(self, scope: Any = None) -> None:
        if self._scope is not None:
            return
        # With `reuse` the name must be taken as it is; otherwise a layer without a scope of its own gets a unique one.
        opened = (
            variable_scope(self._base_name if scope is None else scope)
            if self._reuse
            else variable_scope(scope, default_name=self._base_name)
        )
        with opened as captured:
            self._scope = captured

    def build(self, input_shape: Any) -> None:
        """Creates the variables. Overridden by subclasses, which call it at the end.

        Args:
            input_shape: The shape of the first argument of the call (or a structure of shapes).
        """
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes the output. Overridden by subclasses; it creates no variables."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The static shape of the output for an input of this shape."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its output shape is.")

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Builds the layer if that has not been done, and applies it.

        Args:
            inputs: A tensor, or a structure of tensors.
            *args: For `call`.
            **kwargs: For `call`; and `scope`, the variable scope to use if the layer has none yet.

        Returns:
            The result of `call`.

        Raises:
            ValueError: If the inputs are of another graph than the layer, or do not fit its `input_spec`.
        """
        graph = graph_of([value for value in nest.flatten(inputs) if isinstance(value, Tensor)])
        if self._graph is not None and graph is not self._graph and not outermost(graph)._executes:
            raise ValueError(f"Input graph and Layer graph are not the same: {graph} is not {self._graph}.")
        self._graph = outermost(graph) if outermost(graph)._executes else graph
        if graph is not get_default_graph():
            with default_graph_scope(graph):
                return self._call_in_scope(inputs, args, kwargs)
        return self._call_in_scope(inputs, args, kwargs)

    def _call_in_scope(self, inputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._call_accepts_scope is None:
            self._call_accepts_scope = "scope" in inspect.signature(self.call).parameters
        scope = kwargs.pop("scope", None)
        self._set_scope(scope)
        reuse = True if self.built else self._reuse
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current:
            self._current_scope = current
            if self._call_accepts_scope:
                kwargs["scope"] = current
            with name_scope(self._name_scope()):
                inputs = nest.map_structure(_as_tensor, inputs)
                self._maybe_build(inputs)
                outputs = self.call(inputs, *args, **kwargs)
                if self._activity_regularizer is not None:
                    self._regularize_activity(inputs, outputs)
        if not self._graph._executes:  # type: ignore[union-attr]
            self._record_call(inputs, outputs)
        return outputs

    def _maybe_build(self, inputs: Any) -> None:
        assert_input_compatibility(self.input_spec, inputs, self._name)
        if self.built:
            return
        tensors = nest.flatten(inputs)
        if self._dtype is None and tensors:
            dtype = getattr(tensors[0], "dtype", None)
            self._dtype = dtype.base_dtype if isinstance(dtype, DType) else None
        if all(hasattr(tensor, "shape") for tensor in tensors):
            self.build(nest.map_structure(lambda tensor: tensor.shape, inputs))
        else:
            self.build(None)
        self.built = True
        # `build` may set the input_spec, so it is checked again.
        assert_input_compatibility(self.input_spec, inputs, self._name)

    def _regularize_activity(self, inputs: Any, outputs: Any) -> None:
        for output in nest.flatten(outputs):
            with name_scope("ActivityRegularizer"):
                loss = self._activity_regularizer(output)
            self.add_loss(loss, inputs=inputs)

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as calling the layer."""
        return self(inputs, *args, **kwargs)

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Finds or creates a variable of the layer, in its variable scope.

        Args:
            name: Its name below the scope.
            shape: Its shape.
            dtype: Its type; the layer's, or float32, if None.
            initializer: As in `tf.get_variable`.
            regularizer: A function of the variable; its value joins the losses of the layer.
            trainable: Whether optimizers change it; True unless `synchronization` is ON_READ.
            constraint: A function that optimizers apply after an update.
            use_resource: Has no effect.
            synchronization: When copies are brought together in distributed training.
            aggregation: How updates of copies are combined.
            partitioner: As in `tf.get_variable`.
            **kwargs: `collections`, as in `tf.get_variable`.

        Returns:
            The variable.
        """
        if synchronization is VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError(
                    "Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable "
                    "variables. You have specified trainable=True and synchronization=VariableSynchronization.ON_READ."
                )
            trainable = False
        elif trainable is None:
            trainable = True
        kind = as_dtype(dtype) if dtype is not None else self._dtype or as_dtype("float32")
        self._set_scope()
        before = len(store_of_default_graph().vars)
        reuse = True if self.built else self._reuse
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with name_scope(self._name_scope()):
                variable = get_variable(
                    name, shape=shape, initializer=initializer, dtype=kind, constraint=constraint,
                    trainable=trainable and self.trainable, partitioner=partitioner, synchronization=synchronization,
                    aggregation=aggregation, collections=kwargs.get("collections"),
                )  # fmt: skip
                if regularizer is not None and len(store_of_default_graph().vars) > before:
                    self._regularize(variable, name, regularizer)
        self._list_variable(variable, trainable)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """The old spelling of `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _regularize(self, variable: Any, name: str, regularizer: Any) -> None:
        with name_scope(name + "/Regularizer"):
            for part in list(variable) if hasattr(variable, "_get_partitions") else [variable]:
                with colocate_with(part.op):
                    self.add_loss(regularizer(part))

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds to the losses of the layer and to GraphKeys.REGULARIZATION_LOSSES.

        Args:
            losses: A loss or a list of them; None is skipped.
            inputs: The inputs that they depend on, for `get_losses_for`; None: they depend on no input.
        """
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            if loss is None:
                continue
            value = loss() if callable(loss) and not isinstance(loss, Tensor) else loss
            tensor = convert_to_tensor(value, preferred_dtype=self._dtype)
            self._losses.append((tensor, inputs is None))
            add_to_collection(GraphKeys.REGULARIZATION_LOSSES, tensor)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds operations that a training step should run, to the layer and to GraphKeys.UPDATE_OPS."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            operation = update() if callable(update) and not isinstance(update, Tensor) else update
            if operation is None:
                continue
            self._updates.append((operation, inputs is None))
            add_to_collection(GraphKeys.UPDATE_OPS, operation)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a layer from a result of `get_config`."""
        return cls(**config)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A layer like this one; values that cannot be copied, such as the graph, are shared."""
        import copy

        shared = {"_graph", "_scope", "_current_scope", "_always_reuse_variable_scope"}
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for key, value in self.__dict__.items():
            if key in shared or key.startswith("_recorded"):
                other.__dict__[key] = value
                continue
            try:
                other.__dict__[key] = copy.deepcopy(value, memo)
            except (TypeError, ValueError, NotImplementedError):
                other.__dict__[key] = value
        return other


def _as_tensor(value: Any) -> Any:
    return convert_to_tensor(value) if isinstance(value, (np.ndarray, np.generic, float, int)) else value


def _unique_layer_name(base: str) -> str:
    graph = get_default_graph()
    with graph._lock:
        counts: dict[str, int] = graph._attachments.setdefault("layer_names", {})
        number = counts.get(base, 0)
        counts[base] = number + 1
    return f"{base}_{number}" if number else base
