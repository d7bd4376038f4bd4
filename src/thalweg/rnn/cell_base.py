"""RNNCell: the protocol of one step of a recurrent network, and the base class of cells that are layers."""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.layer import Layer
from thalweg.ops.array.filling import zeros
from thalweg.state.variable import Variable
from thalweg.state.variable_scope import get_variable_scope, variable_scope


def assert_like_rnn_cell(cell_name: str, cell: Any) -> None:
    """Checks that an object can be used as a cell.

    Raises:
        TypeError: If one of the methods and properties is missing.
    """
    problems = [f"'{name}' property is missing" for name in ("output_size", "state_size") if not hasattr(cell, name)]
    if not hasattr(cell, "zero_state") and not hasattr(cell, "get_initial_state"):
        problems.append("either 'zero_state' or 'get_initial_state' method is required")
    if not callable(cell):
        problems.append("is not callable")
    if problems:
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: {', '.join(problems)}.")


def sizes_with_batch(batch_size: Any, size: Any) -> Any:
    """The shape of a state or output: a list where it is known, else a tensor.

    Args:
        batch_size: A number or a scalar tensor.
        size: A number, a shape, or a vector tensor.
    """
    batch = _number(batch_size)
    inner: Any = size if isinstance(size, Tensor) else _sizes(size)
    if batch is not None and not isinstance(inner, Tensor):
        return [batch, *inner]
    first = [batch] if batch is not None else apply_one("ExpandDims", batch_size, 0)
    return apply_one("ConcatV2", [first, convert_to_tensor(inner, "int32")], 0, name="concat")


def static_sizes_with_batch(batch_size: Any, size: Any) -> TensorShape:
    """The static part of the same shape."""
    if isinstance(size, Tensor):
        return TensorShape(None)
    return TensorShape([_number(batch_size), *_sizes(size)])


def _sizes(size: Any) -> list[int | None]:
    return list(TensorShape(size).as_list()) if isinstance(size, (TensorShape, list, tuple)) else [int(size)]


def _number(value: Any) -> int | None:
    if value is None:
        return None
    known = constant_value(value) if isinstance(value, Tensor) else getattr(value, "value", value)
    return None if known is None else int(known)


def zero_state_tensors(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros for every part of a state."""

    def zero(size: Any) -> Tensor:
        sizes = sizes_with_batch(batch_size, size)
        # TensorFlow joins the sizes in the graph, and once more for the static shape.
        get_default_graph()._shift_seeds(7 if isinstance(sizes, list) else 3)
        state = zeros(sizes, dtype=dtype)
        state.set_shape(static_sizes_with_batch(batch_size, size))
        return state

    return nest.map_structure(zero, state_size)


def weight(variable: Any) -> Any:
    """The value of a cell's variable. Inside of a loop: the value before the loop, so that it is read once."""
    context = get_default_graph()._get_control_flow_context()
    if context is None or context.enclosing_while() is None or not isinstance(variable, Variable):
        return variable
    return variable._graph_element if variable._cached_value is None else variable._cached_value


@export("nn.rnn_cell.RNNCell", "contrib.rnn.RNNCell")
class RNNCell(Layer):
    """One step of a recurrent network: `output, next_state = cell(input, state)`.

    Subclasses say what `state_size` and `output_size` are, and override `call(inputs, state)` (and `build`), or all of
    `__call__(inputs, state, scope=None)`. Variables that they make with `tf.get_variable` become the cell's.
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Does one step.

        Args:
            inputs: A tensor [batch, size].
            state: The state before the step, in the structure of `state_size`.
            scope: A variable scope for the variables; the class name in snake case if None.

        Returns:
            The output and the next state.
        """
        if scope is not None:
            with variable_scope(scope, custom_getter=self._rnn_get_variable) as opened:
                return super().__call__(inputs, state, scope=opened)
        # One object for all calls: the getter must not be nested deeper with each.
        entered = self.__dict__.get("_rnncell_scope")
        if entered is None:
            entered = variable_scope(get_variable_scope(), custom_getter=self._rnn_get_variable)
            self.__dict__["_rnncell_scope"] = entered
        with entered:
            return super().__call__(inputs, state)

    def _rnn_get_variable(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        trainable = getattr(variable, "trainable", False)
        if hasattr(variable, "_get_partitions"):
            trainable = all(part.trainable for part in variable)
        self._list_variable(variable, trainable)
        return variable

    @property
    def state_size(self) -> Any:
        """The sizes of the state: a number, a shape, or a structure of them."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The size of the output: a number, a shape, or a structure of them."""
        raise NotImplementedError("Abstract method")

    def build(self, _: Any) -> None:
        """Creates nothing: a cell may make its variables while it is called."""

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """The zero state for a batch like `inputs`, or of `batch_size` and `dtype`."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs, name="inputs")
            known = inputs.shape.as_list()[0] if inputs.shape.ndims else None
            batch_size = known
            if known is None:
                sizes = apply_one("Shape", inputs)
                batch_size = apply_one("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1, name="strided_slice")
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "batch_size and dtype cannot be None while constructing initial state: "
                f"batch_size={batch_size}, dtype={dtype}"
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros.

        Args:
            batch_size: A number or a scalar tensor.
            dtype: The type of the state.
        """
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return zero_state_tensors(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in `build`, as layers do."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Does one step; see RNNCell."""
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    # Whether `call` takes a WholeSequence and ProjectedInputs, too. Not inherited: a subclass may override `call`.
    _projects_inputs = False

    def _input_depth(self, inputs_shape: Any) -> int:
        shape = TensorShape(inputs_shape)
        size = shape.as_list()[-1] if shape.ndims else None
        if size is None:
            raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
        return int(size)


def joined(first: Any, second: Any) -> Tensor:
    """Two matrices side by side."""
    return apply_one("ConcatV2", [first, second], 1, name="concat")


class WholeSequence:
    """The inputs of all steps, [time, batch, size], for a cell to multiply by its kernels at once."""

    def __init__(self, tensor: Tensor) -> None:
        """Takes the inputs; dtype and shape are those of one step."""
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.shape = tensor.shape[1:]


class ProjectedInputs:
    """The inputs of one step after their product with the kernels: one part per kernel of the cell."""

    def __init__(self, parts: list[Any], recurrent_kernels: list[Any]) -> None:
        """Takes the products, with the biases, and the rows of the kernels that multiply the state."""
        self.parts = parts
        self.recurrent_kernels = recurrent_kernels


def linear(inputs: Any, state: Any, kernel: Any, bias: Any, number: int = 0) -> Tensor:
    """`[inputs, state] @ kernel + bias`, for the cell's kernel of that number."""
    if isinstance(inputs, ProjectedInputs):
        product, part = apply_one("MatMul", state, inputs.recurrent_kernels[number]), inputs.parts[number]
        if product.shape.as_list()[0] == 1 and part.shape.as_list()[0] is None:
            # A sum would broadcast the state of one sequence to a batch of others.
            part = apply_one("EnsureShape", part, shape=product.shape)
        return apply_one("AddV2", product, part, name="add")
    product = apply_one("MatMul", joined(inputs, state), weight(kernel))
    return apply_one("BiasAdd", product, weight(bias))


def project(sequence: WholeSequence, kernels: list[Any], biases: list[Any]) -> ProjectedInputs:
    """Multiplies the inputs of all steps with their rows of the kernels: one product instead of one per step.

    The parts are [time, batch, columns]; the result is not yet the input of a step.
    """
    x = sequence.tensor
    depth = x.shape.as_list()[-1]
    sizes: Any = x.shape.as_list()[:2]
    if None in sizes:
        dynamic = apply_list("Unpack", apply_one("Shape", x), num=3, axis=0)
        sizes = [dynamic[i] if size is None else size for i, size in enumerate(sizes)]
    flat = apply_one("Reshape", x, [-1, depth])
    parts, recurrent = [], []
    for kernel, bias in zip(kernels, biases, strict=True):
        rows, columns = kernel.shape.as_list()
        for_inputs, for_state = apply_list("SplitV", kernel, [depth, rows - depth], 0, num_split=2, name="split")
        product = apply_one("BiasAdd", apply_one("MatMul", flat, for_inputs), bias)
        shape = [*sizes, columns]
        part = apply_one(
            "Reshape", product, shape if None not in x.shape.as_list()[:2] else apply_one("Pack", shape, axis=0)
        )
        part.set_shape([*x.shape.as_list()[:2], columns])
        parts.append(part)
        recurrent.append(for_state)
    return ProjectedInputs(parts, recurrent)


def projected_sequence(cell: Any, flat_inputs: list[Tensor], state: Any) -> ProjectedInputs | None:
    """The projected inputs of all steps, for cells that accept ProjectedInputs; else None."""
    if not type(cell).__dict__.get("_projects_inputs", False):
        return None
    if len(flat_inputs) != 1 or flat_inputs[0].shape.ndims != 3 or flat_inputs[0].shape.as_list()[2] is None:
        return None
    projected: ProjectedInputs = cell(WholeSequence(flat_inputs[0]), state)
    return projected
