"""InputSpec: the required type, rank and sizes of a layer's inputs, and the check."""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@export("layers.InputSpec")
class InputSpec:
    """The type, rank and sizes that an input of a layer must have. Fields that are None are not checked."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int | None] | None = None,
    ) -> None:
        """Keeps the requirements.

        Args:
            dtype: The type.
            shape: The whole shape, with None for any size.
            ndim: The rank; follows from `shape`.
            max_ndim: The largest rank.
            min_ndim: The smallest rank.
            axes: The size of single axes; negative axes count from the end.
        """
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape = None if shape is None else tuple(TensorShape(shape).as_list())
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        fields = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in fields if getattr(self, name))
        return f"InputSpec({shown})"


def assert_input_compatibility(input_spec: Any, inputs: Any, layer_name: str) -> None:
    """Checks the inputs of a layer against its InputSpec, or a structure of them.

    Raises:
        ValueError: If the number of inputs, a type, a rank or a size does not fit.
    """
    if input_spec is None:
        return
    specs = nest.flatten(input_spec)
    tensors = nest.flatten(inputs)
    if len(tensors) != len(specs):
        raise ValueError(f"Layer {layer_name} expects {len(specs)} inputs, but it received {len(tensors)}: {inputs}")
    for i, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        if spec is not None and isinstance(tensor, Tensor):
            problem = _problem(spec, tensor)
            if problem:
                raise ValueError(f"Input {i} of layer {layer_name} is incompatible with the layer: {problem}")


def _problem(spec: InputSpec, tensor: Tensor) -> str:
    if spec.dtype is not None and tensor.dtype.base_dtype.name != spec.dtype:
        return f"expected dtype={spec.dtype}, found dtype={tensor.dtype.name}"
    rank = tensor.shape.ndims
    if rank is None:
        if spec.ndim is not None or spec.min_ndim is not None or spec.max_ndim is not None:
            wanted = spec.ndim if spec.ndim is not None else spec.min_ndim
            return f"its rank is undefined, but the layer requires a defined rank (of {wanted})."
        return ""
    found = f"found ndim={rank}. Full shape received: {tensor.shape}"
    if spec.ndim is not None and rank != spec.ndim:
        return f"expected ndim={spec.ndim}, {found}"
    if spec.max_ndim is not None and rank > spec.max_ndim:
        return f"expected max_ndim={spec.max_ndim}, {found}"
    if spec.min_ndim is not None and rank < spec.min_ndim:
        return f"expected min_ndim={spec.min_ndim}, {found}"
    sizes = tensor.shape.as_list()
    for axis, size in spec.axes.items():
        if not -rank <= axis < rank:
            return f"it has no axis {axis}, {found}"
        if size is not None and sizes[axis] not in (size, None):
            return f"expected axis {axis} of input shape to have value {size} but received input with shape {sizes}"
    for wanted_size, size in zip(spec.shape or (), sizes, strict=False):
        if wanted_size is not None and size is not None and size != wanted_size:
            return f"expected shape={spec.shape}, found shape={sizes}"
    return ""
