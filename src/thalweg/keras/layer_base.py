"""tf.keras.layers.Layer: a layer of `tf.layers` with Keras's names, masks, learning phase and history of calls.

Variables are named by the name scope of the layer's first call and belong to the layer alone: two layers of one name
do not share them. Losses and updates are the layer's, and join no collection.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.keras import activation_functions
from thalweg.keras.backend_state import floatx, get_session
from thalweg.keras.initializer_classes import initializer_of
from thalweg.keras.public_names import tf
from thalweg.keras.regularizers_and_constraints import constraints, regularizer_of
from thalweg.keras.symbolic_graph import SymbolicGraph, is_symbolic, runs_at_once, symbolic_graph

_context: Final = threading.local()


class Call(NamedTuple):
    """One call of a layer, for models that repeat it on other inputs."""

    layer: Any
    inputs: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any


def _notes(graph: Any, kind: str) -> dict[Any, Any]:
    notes: dict[Any, Any] = vars(graph).setdefault(f"_keras_{kind}", {})
    return notes


def call_of(tensor: Any) -> Call | None:
    """The call of a layer that gave a tensor."""
    if isinstance(tensor, EagerTensor):
        return None  # Nothing repeats what has run.
    found: Call | None = _notes(tensor.graph, "calls").get(tensor)
    return found


def mask_of(tensor: Any) -> Any:
    """The mask of a tensor: which of its steps count. None: all."""
    if not isinstance(tensor, tf.Tensor):
        return None
    if isinstance(tensor, EagerTensor):
        return tensor.__dict__.get("_keras_mask")
    return _notes(tensor.graph, "masks").get(tensor)


@export("keras.layers.Layer")
class Layer(tf.layers.Layer):
    """A function of tensors that owns variables; subclasses override `build` and `call`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes `trainable`, `name`, `dtype`, `input_shape`, and what a subclass takes."""
        batch = kwargs.pop("batch_size", None)
        shape = kwargs.pop("batch_input_shape", None)
        if shape is None and "input_shape" in kwargs:
            shape = (batch, *kwargs.pop("input_shape"))
        if shape is None and kwargs.get("input_dim") is not None and "input_dim" not in self._own_arguments():
            shape = (batch, kwargs.pop("input_dim"))
        self._batch_input_shape = shape
        self._first_weights = kwargs.pop("weights", None)
        super().__init__(*args, **kwargs)
        for name, value in list(self.__dict__.items()):
            if name.endswith("_initializer"):
                self.__dict__[name] = initializer_of(value)
            elif name.endswith("_regularizer"):
                self.__dict__[name] = regularizer_of(value)
            elif name.endswith("_constraint"):
                self.__dict__[name] = constraints.get(value)
            elif name in ("activation", "recurrent_activation"):
                self.__dict__[name] = activation_functions.get(value)

    @classmethod
    def _own_arguments(cls) -> set[str]:
        return {key for each in cls.__mro__ if "__init__" in each.__dict__
                for key in inspect.signature(each.__dict__["__init__"]).parameters}  # fmt: skip

    def add_weight(  # type: ignore[override]
        self, name: str | None = None, shape: Any = None, dtype: Any = None, initializer: Any = None,
        regularizer: Any = None, trainable: bool | None = None, constraint: Any = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Creates a variable of the layer.

        Args:
            name: Its name below the name scope.
            shape: Its shape; a scalar if None.
            dtype: Its type; the layer's, or `floatx`, if None.
            initializer: An object or a name; glorot_uniform for numbers with a fraction if None.
            regularizer: A function of the variable; its value joins the losses of the layer.
            trainable: Whether optimizers change it.
            constraint: A function that optimizers apply after an update.
            **kwargs: `collections`, as in `tf.Variable`; others have no effect.

        Raises:
            ValueError: If a size of the shape is not known.
        """
        kind = tf.as_dtype(dtype or self._dtype or floatx())
        if not kind.is_floating and dtype is None:
            kind = tf.as_dtype(floatx())
        made = initializer_of(initializer)
        if made is None:
            made = tf.glorot_uniform_initializer() if kind.is_floating else tf.zeros_initializer()
        sizes = tf.TensorShape(() if shape is None else shape)
        if not sizes.is_fully_defined():
            raise ValueError(f"The shape of a weight must be known, got {shape}.")
        flag = True if trainable is None else trainable
        variable = tf.Variable(
            lambda: made(tuple(sizes.as_list()), dtype=kind), name=name or "variable", trainable=flag, dtype=kind,
            constraint=constraints.get(constraint), collections=kwargs.get("collections"),
        )  # fmt: skip
        penalty = regularizer_of(regularizer)
        if penalty is not None:
            with tf.name_scope(f"{name}/Regularizer"):
                self.add_loss((lambda: penalty(variable)) if runs_at_once() else penalty(variable))
        self._list_variable(variable, flag)
        return variable

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds to the losses of the layer."""
        at_once = runs_at_once()
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            if at_once and (callable(loss) and not isinstance(loss, tf.Tensor)):
                self._losses.append((loss, True))  # Computed when asked for.
                continue
            if is_symbolic(loss) and getattr(_context, "inside", 0) > 0:
                continue  # The call of a layer adds it again whenever it is repeated.
            value = loss() if callable(loss) and not isinstance(loss, tf.Tensor) else loss
            if value is not None:
                self._losses.append((tf.convert_to_tensor(value), inputs is None))

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds operations that a training step should run."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            operation = update() if callable(update) and not isinstance(update, tf.Tensor) else update
            if operation is not None and not runs_at_once():
                self._updates.append((operation, inputs is None))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the output: that of the input where the layer supports it."""
        if self.supports_masking:
            return mask
        return None

    def _call_in_scope(self, inputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(kwargs)
        at_once = runs_at_once()
        parameters = inspect.signature(self.call).parameters
        outer = getattr(_context, "training", None)
        inside = getattr(_context, "inside", 0)
        mask = tf.nest.map_structure(mask_of, inputs)
        if not any(each is not None for each in tf.nest.flatten(mask)):
            mask = None
        if (
            "mask" in parameters
            and kwargs.get("mask") is None
            and mask is not None
            and len(args) < _place(parameters, "mask")
        ):
            kwargs["mask"] = mask
        mask = kwargs.get("mask", mask)
        if "training" in parameters and kwargs.get("training") is None and len(args) < _place(parameters, "training"):
            kwargs["training"] = outer
        try:
            if at_once and not inside:
                self._forget_losses()
            _context.inside = inside + 1
            _context.training = kwargs.get("training", outer)
            with tf.name_scope(self._name):
                inputs = tf.nest.map_structure(_as_tensor, inputs)
                first = not self.built
                self._scope = self._current_scope = tf.get_variable_scope()
                self._maybe_build(inputs)
                if first and self._first_weights is not None:
                    self.set_weights(self._first_weights)
                outputs = self.call(inputs, *args, **kwargs)
                same = {id(each) for each in tf.nest.flatten(inputs)}
                outputs = tf.nest.map_structure(
                    lambda each: tf.identity(each) if id(each) in same and isinstance(each, tf.Tensor) else each,
                    outputs,
                )
                if self._activity_regularizer is not None:
                    self._regularize_activity(inputs, outputs)
                self._note_masks(outputs, self.compute_mask(inputs, mask))
        finally:
            _context.inside = inside
            _context.training = outer
        if at_once and not isinstance(tf.get_default_graph(), SymbolicGraph):
            if first:
                self._first_output = tf.nest.map_structure(_shape_for_any_batch, outputs)
            return outputs
        self._record_call(inputs, outputs)
        if not inside:
            self._note_call(Call(self, inputs, args, given, outputs))
        return outputs

    def _forget_losses(self) -> None:
        """Drops what the last call added; penalties of weights stay, and what a program added to a described model."""
        self._losses = [each for each in self._losses if not isinstance(each[0], tf.Tensor) or is_symbolic(each[0])]
        for layer in self._sublayers():
            if isinstance(layer, Layer):
                layer._forget_losses()

    def _regularize_activity(self, inputs: Any, outputs: Any) -> None:
        """Adds the penalty of the outputs to the losses: the mean over the examples of a batch."""
        for output in tf.nest.flatten(outputs):
            with tf.name_scope("ActivityRegularizer"):
                loss = self._activity_regularizer(output)
                self.add_loss(loss / tf.cast(tf.shape(output)[0], loss.dtype), inputs=inputs)

    def _note_masks(self, outputs: Any, mask: Any) -> None:
        tensors = tf.nest.flatten(outputs)
        masks = list(mask) if isinstance(mask, (list, tuple)) else [mask] + [None] * (len(tensors) - 1)
        for tensor, each in zip(tensors, masks, strict=False):
            if each is not None:
                if isinstance(tensor, EagerTensor):
                    tensor._keras_mask = each  # type: ignore[attr-defined]
                else:
                    _notes(tensor.graph, "masks")[tensor] = each

    def _note_call(self, call: Call) -> None:
        for tensor in tf.nest.flatten(call.outputs):
            if isinstance(tensor, tf.Tensor) and not isinstance(tensor, EagerTensor):
                _notes(tensor.graph, "calls")[tensor] = call

    def _sublayers(self) -> Iterator[Any]:
        for name, value in self.__dict__.items():
            if not name.startswith("_recorded"):
                yield from _layers_in(value)

    def _gather(self, attribute: str) -> list[Any]:
        found = list(getattr(self, "_own_" + attribute))
        for layer in self._sublayers():
            found.extend(getattr(layer, attribute))
        return list({id(each): each for each in found}.values())

    @property
    def _own_trainable_weights(self) -> list[Any]:
        return list(self._trainable_weights)

    @property
    def _own_non_trainable_weights(self) -> list[Any]:
        return list(self._non_trainable_weights)

    @property
    def _own_losses(self) -> list[Any]:
        return [loss() if callable(loss) else loss for loss, _ in self._losses if not is_symbolic(loss)]

    @property
    def _own_updates(self) -> list[Any]:
        return [update for update, _ in self._updates]

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that optimizers change."""
        return self._gather("trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        frozen = [] if self.trainable else self._gather_all_trainable()
        return frozen + self._gather("non_trainable_weights")

    def _gather_all_trainable(self) -> list[Any]:
        found = list(self._trainable_weights)
        for layer in self._sublayers():
            found.extend(layer.trainable_weights)
        return found

    @property
    def weights(self) -> list[Any]:
        """All variables, those that optimizers change first."""
        return list({id(each): each for each in self.trainable_weights + self.non_trainable_weights}.values())

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    @property
    def losses(self) -> list[Any]:
        """The losses of the layer and of those inside of it."""
        return self._gather("losses")

    @property
    def updates(self) -> list[Any]:
        """The updates of the layer and of those inside of it."""
        return self._gather("updates")

    def get_weights(self) -> list[np.ndarray]:
        """The values of its variables."""
        return list(get_session().run(self.weights))

    def set_weights(self, weights: Any) -> None:
        """Assigns values to its variables.

        Raises:
            ValueError: If their number or shapes differ.
        """
        variables = self.weights
        if len(variables) != len(weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self.name}" with a weight list of length '
                f"{len(weights)}, but the layer was expecting {len(variables)} weights."
            )
        session = get_session()
        for variable, value in zip(variables, weights, strict=True):
            if tuple(np.shape(value)) != tuple(variable.shape.as_list()):
                raise ValueError(
                    f"Layer weight shape {variable.shape} not compatible with provided weight shape {np.shape(value)}"
                )
            variable.load(value, session)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The static shape of the output for an input of this shape, found by building the layer in another graph."""
        try:
            return super().compute_output_shape(input_shape)
        except NotImplementedError:
            copied = type(self).from_config(self.get_config())
            with tf.Graph().as_default():
                probe = tf.nest.map_structure(lambda each: tf.placeholder(floatx(), each), input_shape)
                return tf.nest.map_structure(lambda each: each.shape, copied(probe))

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such a layer."""
        config = {"name": self.name, "trainable": self.trainable}
        for key in self._own_arguments() - {"self", "args", "kwargs", "name", "trainable"}:
            if key in self.__dict__:
                config[key] = self.__dict__[key]
        return config


def _place(parameters: Any, name: str) -> int:
    """Where a parameter stands after the inputs, counted from 1."""
    return list(parameters).index(name) or 1


def _shape_for_any_batch(output: Any) -> Any:
    sizes = tf.TensorShape(getattr(output, "shape", None))
    return None if sizes.ndims is None else (None, *sizes.as_list()[1:]) if sizes.ndims else ()


def _layers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, tf.layers.Layer):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _layers_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _layers_in(each)


def _as_tensor(value: Any) -> Any:
    return tf.convert_to_tensor(value) if isinstance(value, (np.ndarray, np.generic, float, int)) else value


export_value(tf.layers.InputSpec, "keras.layers.InputSpec")


class InputLayer(Layer):
    """A placeholder as a layer."""

    def __init__(
        self, input_shape: Any = None, batch_size: Any = None, dtype: Any = None, input_tensor: Any = None,
        sparse: bool = False, name: str | None = None, batch_input_shape: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the shape of one example, or a tensor."""
        base = name or f"input_{tf.get_default_graph()._attachments.setdefault('keras_inputs', 0) + 1}"
        if name is None:
            tf.get_default_graph()._attachments["keras_inputs"] += 1
        super().__init__(name=base, dtype=dtype or floatx())
        if input_tensor is None:
            shape = batch_input_shape if batch_input_shape is not None else (batch_size, *(input_shape or ()))
            kind = dtype or floatx()
            with symbolic_graph().as_default() if tf.executing_eagerly() else contextlib.nullcontext():
                make = tf.sparse_placeholder if sparse else tf.placeholder
                input_tensor = make(kind, shape, base)
        self._batch_input_shape = tuple(input_tensor.shape.as_list()) if input_tensor.shape.ndims is not None else None
        self.built = True
        self.tensor = input_tensor
        if isinstance(input_tensor, tf.Tensor):
            self._note_call(Call(self, [], (), {}, input_tensor))
            self._record_call(input_tensor, input_tensor)


export("keras.layers.InputLayer")(InputLayer)


@export("keras.layers.Input", "keras.Input")
def Input(
    shape: Any = None, batch_size: Any = None, name: str | None = None, dtype: Any = None, sparse: bool = False,
    tensor: Any = None, batch_shape: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """A placeholder for models.

    Args:
        shape: The shape of one example.
        batch_size: The size of a batch, if it is always the same.
        name: Its name.
        dtype: Its type; `floatx` if None.
        sparse: Whether it is a sparse tensor.
        tensor: A tensor to use in place of a placeholder.
        batch_shape: The shape with that of the batch.
        **kwargs: `batch_input_shape`, the same.
    """
    batch_shape = kwargs.pop("batch_input_shape", batch_shape)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments: {', '.join(kwargs)}")
    if shape is None and batch_shape is None and tensor is None:
        raise ValueError("Please provide to Input either a `shape` or a `tensor` argument.")
    if isinstance(shape, int):
        shape = (shape,)
    return InputLayer(shape, batch_size, dtype, tensor, sparse, name, batch_shape).tensor
