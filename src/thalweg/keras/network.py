"""tf.keras.Model and Sequential: layers as a graph of calls that can be repeated on other inputs."""

from __future__ import annotations

import os
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.backend_state import floatx, get_session
from thalweg.keras.layer_base import Input, InputLayer, Layer, call_of, mask_of
from thalweg.keras.model_training import Training
from thalweg.keras.public_names import tf
from thalweg.keras.symbolic_graph import SymbolicGraph, is_symbolic, runs_at_once


@export("keras.Model", "keras.models.Model")
class Model(Training, Layer):
    """A layer made of layers: of the calls between inputs and outputs, or of what a subclass's `call` does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes `inputs`, `outputs` and `name`, or nothing in a subclass that overrides `call`."""
        inputs = kwargs.pop("inputs", args[0] if len(args) > 1 else None)
        outputs = kwargs.pop("outputs", args[1] if len(args) > 1 else None)
        super().__init__(name=kwargs.pop("name", args[2] if len(args) > 2 else None), **kwargs)
        self._inputs: Any = None
        self._outputs: Any = None
        self._layers: list[Any] = []
        self._start_training_state()
        if outputs is not None:
            self._set_graph(inputs, outputs)

    def _set_graph(self, inputs: Any, outputs: Any) -> None:
        self._inputs, self._outputs = inputs, outputs
        self._layers = _layers_between(tf.nest.flatten(inputs), tf.nest.flatten(outputs))
        self._graph = tf.nest.flatten(outputs)[0].graph
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Repeats the calls between the model's inputs and outputs on these inputs."""
        if self._outputs is None:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a `call` method.")
        known = dict(zip(tf.nest.flatten(self._inputs), tf.nest.flatten(inputs), strict=True))
        result = tf.nest.map_structure(lambda tensor: _repeat(tensor, known), self._outputs)
        if not isinstance(tf.get_default_graph(), SymbolicGraph):
            added = [loss for loss, _ in self._losses if is_symbolic(loss)]
            self._losses += [(_repeat(loss, known), False) for loss in added]
        return result

    def _maybe_build(self, inputs: Any) -> None:
        if runs_at_once() and self._outputs is None and type(self).build in (Model.build, Sequential.build):
            self.built = True  # Its layers are built when they are called.
            return
        super()._maybe_build(inputs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Those of the outputs."""
        return None

    @property
    def inputs(self) -> list[Any]:
        """The input tensors."""
        return tf.nest.flatten(self._inputs) if self._inputs is not None else []

    @property
    def outputs(self) -> list[Any]:
        """The output tensors."""
        return tf.nest.flatten(self._outputs) if self._outputs is not None else []

    @property
    def input(self) -> Any:
        """The input tensor, or the structure of them."""
        return self._inputs

    @property
    def output(self) -> Any:
        """The output tensor, or the structure of them."""
        return self._outputs

    @property
    def input_shape(self) -> Any:
        """The shape of the input, as a tuple."""
        return tf.nest.map_structure(lambda x: tuple(x.shape.as_list()), self._inputs)

    @property
    def output_shape(self) -> Any:
        """The shape of the output, as a tuple."""
        return tf.nest.map_structure(lambda x: tuple(x.shape.as_list()), self._outputs)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [tensor.op.name for tensor in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the layers that give the outputs."""
        calls = [call_of(tensor) for tensor in self.outputs]
        return [tensor.op.name if call is None else call.layer.name
                for call, tensor in zip(calls, self.outputs, strict=True)]  # fmt: skip

    @property
    def layers(self) -> list[Any]:
        """The layers, each after those that it needs."""
        if self._layers:
            return list(self._layers)
        return list(dict.fromkeys(layer for layer in self._sublayers()))

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """The layer of a name or a place.

        Raises:
            ValueError: If there is none.
        """
        if index is not None:
            if index >= len(self.layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model has {len(self.layers)} layers."
                )
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}")

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that optimizers change, in the order of the layers."""
        if not self.trainable:
            return []
        found = [*self._trainable_weights, *(each for layer in self.layers for each in layer.trainable_weights)]
        return list({id(each): each for each in found}.values())

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables, in the order of the layers."""
        kind = "non_trainable_weights" if self.trainable else "weights"
        own = self._non_trainable_weights if self.trainable else self._trainable_weights + self._non_trainable_weights
        found = [*own, *(each for layer in self.layers for each in getattr(layer, kind))]
        return list({id(each): each for each in found}.values())

    @property
    def weights(self) -> list[Any]:
        """All variables, layer by layer."""
        own = self._trainable_weights + self._non_trainable_weights
        found = [*own, *(each for layer in self.layers for each in layer.weights)]
        return list({id(each): each for each in found}.values())

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    def save_weights(self, filepath: str, overwrite: bool = True, save_format: Any = None) -> None:
        """Writes the variables as a checkpoint of TensorFlow's format.

        Raises:
            NotImplementedError: For HDF5.
        """
        _refuse_hdf5(filepath, save_format)
        if tf.executing_eagerly():
            path = tf.train.Checkpoint(root=self).write(filepath)
            tf.train.update_checkpoint_state(os.path.dirname(path), path, [path])
            return
        self._saver().save(get_session(), filepath, write_meta_graph=False)

    def load_weights(self, filepath: str, by_name: bool = False) -> Any:
        """Reads the variables of a checkpoint that `save_weights` or a `tf.train.Saver` wrote.

        Where ops run at once, variables that are made later get their values then; the result has `assert_consumed`.
        """
        _refuse_hdf5(filepath, None)
        if tf.executing_eagerly():
            return tf.train.Checkpoint(root=self).restore(filepath)
        self._saver().restore(get_session(), filepath)
        return None

    def _checkpoint_children(self) -> dict[str, Any]:
        """The layers by TensorFlow's names, for checkpoints of objects; those of subclasses are attributes."""
        if self._outputs is None and not isinstance(self, Sequential):
            return {}
        named = {f"layer-{i}": layer for i, layer in enumerate(self.layers)}
        with_weights = [layer for layer in self.layers if layer.weights]
        return named | {f"layer_with_weights-{i}": layer for i, layer in enumerate(with_weights)}

    def _saver(self) -> Any:
        if not self.weights:
            raise ValueError("The model has no variables yet: call it, or give its first layer an input_shape.")
        return tf.train.Saver(self.weights, save_relative_paths=True)

    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None) -> None:
        """Prints the layers, the shapes of their outputs, and the numbers of their parameters."""
        put = print_fn or print
        put(f'Model: "{self.name}"')
        put(f"{'Layer (type)':<36}{'Output Shape':<26}Param #")
        for layer in self.layers:
            shape = str(layer.output_shape if layer._recorded_calls else getattr(layer, "_first_output", "?"))
            put(f"{layer.name + ' (' + type(layer).__name__ + ')':<36}{shape:<26}{_size(layer.weights)}")
        trainable = _size(self.trainable_weights)
        put(f"Total params: {_size(self.weights):,}")
        put(f"Trainable params: {trainable:,}")
        put(f"Non-trainable params: {_size(self.weights) - trainable:,}")


def _size(variables: Any) -> int:
    return sum(int(each.shape.num_elements()) for each in variables)


def _refuse_hdf5(path: str, save_format: Any) -> None:
    if save_format == "h5" or (save_format is None and str(path).endswith((".h5", ".keras", ".hdf5"))):
        raise NotImplementedError(f"HDF5 is not written or read here: use a path without .h5 instead of {path}.")


def _layers_between(inputs: list[Any], outputs: list[Any]) -> list[Any]:
    order: dict[Any, None] = {}
    seen: set[Any] = set()

    def visit(tensor: Any) -> None:
        stack = [(tensor, False)]
        while stack:
            current, done = stack.pop()
            call = call_of(current)
            if done:
                if call is not None:
                    order.setdefault(call.layer)
                continue
            if current in seen:
                continue
            seen.add(current)
            stack.append((current, True))
            if current in ends:
                continue
            before = tf.nest.flatten(call.inputs) if call is not None else list(current.op.inputs)
            stack.extend((each, False) for each in reversed(before) if isinstance(each, tf.Tensor))

    ends = set(inputs)
    for tensor in [*inputs, *outputs]:
        visit(tensor)
    missing = [tensor for tensor in inputs if tensor not in seen]
    if missing:
        raise ValueError(f"Graph disconnected: {missing[0]} is no input of an output.")
    return list(order)


def _repeat(tensor: Any, known: dict[Any, Any]) -> Any:
    """The tensor of a model's graph for other inputs: calls of layers are repeated, other operations copied."""
    if tensor in known:
        return known[tensor]
    call = call_of(tensor)
    if call is not None and not isinstance(call.layer, InputLayer):
        given = tf.nest.map_structure(lambda x: _repeat(x, known) if isinstance(x, tf.Tensor) else x, call.inputs)
        result = call.layer(given, *call.args, **call.kwargs)
        known.update(zip(tf.nest.flatten(call.outputs), tf.nest.flatten(result), strict=True))
        return known[tensor]
    symbolic = is_symbolic(tensor)
    if symbolic and not tensor.op.inputs and tensor in (values := tensor.graph.captured_values()):
        known[tensor] = values[tensor]
        return known[tensor]
    inputs = [tf.convert_to_tensor(_repeat(each, known)) for each in tensor.op.inputs]
    if not symbolic and all(new is old for new, old in zip(inputs, tensor.op.inputs, strict=True)):
        known[tensor] = tensor
        return tensor
    attributes = dict(tensor.op.node_def.attr)
    copied = (tf.get_default_graph() if symbolic else tensor.graph).create_op(
        tensor.op.type, inputs, [each.dtype for each in tensor.op.outputs], name=tensor.op.name, attrs=attributes
    )
    known.update(zip(tensor.op.outputs, copied.outputs, strict=True))
    return known[tensor]


@export("keras.Sequential", "keras.models.Sequential")
class Sequential(Model):
    """Layers one after the other."""

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        """Takes the layers."""
        super().__init__(name=name)
        for layer in layers or ():
            self.add(layer)

    @property
    def layers(self) -> list[Any]:
        """The layers, without that of the input."""
        return [layer for layer in self._layers if not isinstance(layer, InputLayer)]

    def add(self, layer: Any) -> None:
        """Adds a layer behind the others.

        Raises:
            TypeError: If it is none.
        """
        if not isinstance(layer, tf.layers.Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Found: {layer}")
        self._layers.append(layer)
        if self._outputs is not None:
            self._outputs = layer(self._outputs)
        elif isinstance(layer, InputLayer):
            self._inputs = self._outputs = layer.tensor
        elif len(self._layers) == 1 and _known_shape(layer) is not None:
            kind = "int32" if type(layer).__name__ == "Embedding" else getattr(layer, "_dtype", None) or floatx()
            self._inputs = Input(batch_shape=_known_shape(layer), dtype=kind, name=f"{layer.name}_input")
            self._outputs = layer(self._inputs)
        self.built = self._outputs is not None
        if self.built:
            self._graph = tf.nest.flatten(self._outputs)[0].graph

    def pop(self) -> None:
        """Takes the last layer away.

        Raises:
            TypeError: If there is none.
        """
        if not self._layers:
            raise TypeError("There are no layers in the model.")
        self._layers.pop()
        if self._outputs is not None:
            self._outputs = self._inputs if not self.layers else self.layers[-1]._recorded_calls[-1][1]

    def build(self, input_shape: Any) -> None:
        """Makes the input, and calls the layers."""
        if self._outputs is None and self._layers:
            self._inputs = Input(batch_shape=tf.TensorShape(input_shape).as_list(), dtype=self._dtype)
            self._outputs = self.call(self._inputs)
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Calls the layers one after the other."""
        for layer in self._layers:
            if not isinstance(layer, InputLayer):
                inputs = layer(inputs)
        return inputs

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """That of the last layer."""
        last = self.layers[-1]._recorded_calls[-1][1] if self.layers and self.layers[-1]._recorded_calls else None
        return None if last is None else mask_of(tf.nest.flatten(last)[0])

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """The class of each example."""
        shares = self.predict(x, batch_size)
        return shares.argmax(axis=-1) if shares.shape[-1] > 1 else (shares > 0.5).astype("int32")

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """The same as `predict`."""
        return self.predict(x, batch_size)


def _known_shape(layer: Any) -> Any:
    if isinstance(layer, Model):
        return layer.input_shape if layer.inputs else None
    return getattr(layer, "_batch_input_shape", None)
