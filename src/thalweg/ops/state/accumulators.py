"""Conditional accumulators: sum the gradients of many steps until there are enough; stale ones are dropped."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.dtypes import DType, as_dtype, int64
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor, name_of_op
from thalweg.graph.tensor_shape import TensorShape, as_shape

_MAKE = (
    "dtype: numbertype, shape: shape, container: string = '', shared_name: string = '', "
    "reduction_type: {'MEAN', 'SUM'} = 'MEAN'"
)
_SPARSE_GRADIENT = "local_step: int64, gradient_indices: int64, gradient_values: dtype, gradient_shape: int64 ->"
_SPARSE_RESULT = "num_required: int32 -> indices: int64, values: dtype, shape: int64"

# On references, as graphs of TensorFlow have them, and on handles, which is the form that runs.
for _prefix, _sparse_prefix, _handle in (("", "", "Ref(string)"), ("Resource", "_Resource", "resource")):
    for _name, _signature, _attrs, _shape, _effect in (
        (f"{_prefix}ConditionalAccumulator", f"-> handle: {_handle}", _MAKE, shapes.scalar, Effect.CREATES),
        (
            f"{_prefix}AccumulatorApplyGradient", f"handle: {_handle}, local_step: int64, gradient: dtype ->",
            "dtype: numbertype", shapes.no_outputs, Effect.WRITES,
        ),
        (
            f"{_prefix}AccumulatorTakeGradient", f"handle: {_handle}, num_required: int32 -> average: dtype",
            "dtype: numbertype", shapes.unknown, Effect.WRITES,
        ),
        (
            f"{_prefix}AccumulatorNumAccumulated", f"handle: {_handle} -> num_accumulated: int32", "", shapes.scalar,
            Effect.READS,
        ),
        (
            f"{_prefix}AccumulatorSetGlobalStep", f"handle: {_handle}, new_global_step: int64 ->", "",
            shapes.no_outputs, Effect.WRITES,
        ),
        (
            f"{_sparse_prefix}SparseConditionalAccumulator", f"-> handle: {_handle}", _MAKE, shapes.scalar,
            Effect.CREATES,
        ),
        (
            f"{_sparse_prefix}SparseAccumulatorApplyGradient", f"handle: {_handle}, {_SPARSE_GRADIENT}",
            "dtype: numbertype, has_known_shape: bool", shapes.no_outputs, Effect.WRITES,
        ),
        (
            f"{_sparse_prefix}SparseAccumulatorTakeGradient", f"handle: {_handle}, {_SPARSE_RESULT}",
            "dtype: numbertype", shapes.unknown, Effect.WRITES,
        ),
    ):  # fmt: skip
        define(_name, _signature, _attrs, shape=_shape, effect=_effect)
        not_differentiable(_name)


def _as_int64(value: Any) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype == int64 else apply_one("Cast", tensor, DstT=int64)


@export("ConditionalAccumulatorBase")
class ConditionalAccumulatorBase:
    """The base class of accumulators."""

    # Sparse accumulators live behind references in TensorFlow's graphs, dense ones behind handles.
    _prefix = "Resource"

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        """Wraps a handle; programs use the subclasses."""
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(None) if shape is None else as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = name_of_op(accumulator_ref, type(self).__name__).split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The name of the accumulator's op, without scopes."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The type of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """The number of gradients since the last `take_grad`."""
        name = f"{self._name}_NumAccumulated" if name is None else name
        return apply_one(f"{self._prefix}AccumulatorNumAccumulated", self._accumulator_ref, name=name)

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Sets the accumulator's step: gradients for earlier ones are dropped from now on.

        Args:
            new_global_step: The step. A vector of one, an addition to TensorFlow, also ends the takers that wait, with
                AbortedError.
            name: A name for the operation.
        """
        return apply_op(
            f"{self._prefix}AccumulatorSetGlobalStep", self._accumulator_ref, _as_int64(new_global_step), name=name
        )


@export("ConditionalAccumulator")
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums gradients, tensors of one shape, until enough have come; then it gives their mean, and starts anew.

    A gradient for a step before the accumulator's own is dropped. Taking moves that step on by one.

    Example:
        >>> accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
        >>> add, mean = accumulator.apply_grad([1.0, 3.0]), accumulator.take_grad(2)
        >>> with tf.Session() as session:
        ...     session.run(add)
        ...     session.run(add)
        ...     print(session.run(mean), session.run(accumulator.num_accumulated()))
        [1. 3.] 0
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Creates an accumulator.

        Args:
            dtype: The type of the gradients.
            shape: Their shape, as far as it is known.
            shared_name: A name under which sessions of the same container find the same accumulator.
            name: A name for the operation.
            reduction_type: "MEAN" or "SUM".
        """
        handle = apply_one(
            "ResourceConditionalAccumulator",
            dtype=dtype,
            shape=TensorShape(None) if shape is None else as_shape(shape),
            shared_name=shared_name or "",
            reduction_type=reduction_type,
            name=name,
        )
        super().__init__(dtype, shape, handle)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Adds a gradient, unless it is stale.

        Args:
            grad: The gradient.
            local_step: The step for which it was computed. Or a vector of the step and the number of whoever
                contributes it, an addition to TensorFlow: of several gradients of one contributor the first counts,
                they are summed in the order of these numbers, and `set_global_step` drops those for earlier steps.
            name: A name for the operation.

        Raises:
            ValueError: If its shape is not that of the accumulator.
        """
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        return apply_op(
            "ResourceAccumulatorApplyGradient", self._accumulator_ref, _as_int64(local_step), gradient, name=name
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of all gradients since the last were taken, waiting until there are `num_required`."""
        result = apply_one(
            "ResourceAccumulatorTakeGradient", self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )
        result.set_shape(self._shape)
        return result


@export("SparseConditionalAccumulator", "sparse.SparseConditionalAccumulator")
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """The same for sparse gradients: rows of a large tensor, by index. A row's mean is over the gradients with it."""

    _prefix = ""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Creates an accumulator; the arguments are those of ConditionalAccumulator, the shape that of the tensor."""
        handle = apply_one(
            "SparseConditionalAccumulator",
            dtype=dtype,
            shape=TensorShape(None) if shape is None else as_shape(shape),
            shared_name=shared_name or "",
            reduction_type=reduction_type,
            name=name,
        )
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None) -> Operation:
        """Adds a gradient that is an IndexedSlices."""
        return self.apply_grad(
            grad_indices=grad.indices,
            grad_values=grad.values,
            grad_shape=grad.dense_shape,
            local_step=local_step,
            name=name,
        )

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Adds a gradient, unless it is stale.

        Args:
            grad_indices: The indices of the rows.
            grad_values: The rows.
            grad_shape: The shape of the whole tensor, if it is known.
            local_step: The step for which it was computed, or the step and the contributor, as for dense gradients.
            name: A name for the operation.
        """
        return apply_op(
            "SparseAccumulatorApplyGradient",
            self._accumulator_ref,
            _as_int64(local_step),
            _as_int64(grad_indices),
            convert_to_tensor(grad_values, self._dtype),
            convert_to_tensor([], int64) if grad_shape is None else _as_int64(grad_shape),
            has_known_shape=grad_shape is not None,
            name=name,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """The accumulated gradient: a tuple (indices, values, shape); the shape has -1 for unknown sizes."""
        return apply("SparseAccumulatorTakeGradient", self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """The same as an IndexedSlices."""
        indices, values, dense_shape = self.take_grad(num_required, name)
        return IndexedSlices(values=values, indices=indices, dense_shape=dense_shape)
