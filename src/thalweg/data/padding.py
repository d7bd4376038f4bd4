"""padded_batch and unbatch: the shapes and padding values of rows, from the structure of the elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.data import structure
from thalweg.data.arguments import int64, sliceable
from thalweg.data.functions import DatasetFunction
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.static_value import constant_value, constant_value_as_shape
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import Dimension, TensorShape, as_shape
from thalweg.graph.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from thalweg.data.dataset import Dataset


def padded_batch(
    dataset: Dataset, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any
) -> Dataset:
    """See `Dataset.padded_batch`."""
    specs = structure.flatten(dataset.element_spec)
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise TypeError("Batching of padded sparse tensors is not currently supported")
    if padded_shapes is None:
        for spec in specs:
            if spec.shape.ndims is None:
                raise ValueError("You must provide `padded_shapes`: the rank of a component is not known.")
        shapes: list[Any] = [spec.shape for spec in specs]
    else:
        shapes = shapes_like(dataset.element_spec, padded_shapes)
    shape_tensors = [_padded_shape(shape, spec) for shape, spec in zip(shapes, specs, strict=True)]
    values = _padding_values(dataset, padding_values, specs)
    size = int64(batch_size, "batch_size")
    drop = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
    known = constant_value(drop)
    rows = constant_value(size) if known is not None and bool(known) else None
    batched = [
        TensorSpec(TensorShape([rows if rows is None else int(rows)]).concatenate(_static_shape(shape)), spec.dtype)
        for shape, spec in zip(shape_tensors, specs, strict=True)
    ]
    packed = structure.pack(dataset.element_spec, batched)
    handle = apply_one(
        "PaddedBatchDatasetV2", dataset._variant_tensor, size, shape_tensors, values, drop,
        output_shapes=structure.flat_shapes(packed),
    )  # fmt: skip
    return dataset._with_variant(handle, packed)


def shapes_like(spec: Any, shapes: Any) -> list[Any]:
    """The shapes of the components; a shape may be a tuple itself, so the elements decide how deep to go."""
    if not structure.is_nested(spec):
        return [shapes]
    if isinstance(shapes, list):
        shapes = tuple(shapes)
    keys = sorted(spec) if isinstance(spec, dict) else range(len(spec))
    try:
        if len(shapes) != len(keys):
            raise ValueError(f"padded_shapes {shapes!r} do not have the structure of the elements, {spec!r}.")
        return [shape for key in keys for shape in shapes_like(spec[key], shapes[key])]
    except (TypeError, KeyError) as e:
        raise TypeError(f"padded_shapes {shapes!r} do not have the structure of the elements, {spec!r}.") from e


def _padded_shape(shape: Any, spec: TensorSpec) -> Tensor:
    if isinstance(shape, Tensor):
        if shape.dtype not in (dtypes.int64, dtypes.int32) or shape.shape.ndims not in (1, None):
            raise TypeError(f"Padded shape {shape} must be a vector of integers.")
        tensor = shape if shape.dtype is dtypes.int64 else apply_one("Cast", shape, DstT=dtypes.int64)
    else:
        if isinstance(shape, np.ndarray):
            shape = [int(size) for size in shape.ravel()]
        if isinstance(shape, (list, tuple)):
            shape = [None if isinstance(size, (int, np.integer)) and size < 0 else size for size in shape]
        dims = as_shape(shape).dims_tuple
        if dims is None:
            raise ValueError(f"The padded shape of {spec} must have a rank.")
        tensor = convert_to_tensor([-1 if d is None else d for d in dims], dtypes.int64)
    static = _static_shape(tensor)
    wanted = spec.shape
    if static.ndims is not None and wanted.ndims is not None:
        if static.ndims != wanted.ndims:
            raise ValueError(
                f"The padded shape {static} is not compatible with the shape {wanted} of the corresponding input "
                "component."
            )
        for target, size in zip(static.as_list(), wanted.as_list(), strict=True):
            if target is not None and size is not None and target < size:
                raise ValueError(
                    f"The padded shape {static} is not compatible with the shape {wanted} of the corresponding input "
                    "component."
                )
    return tensor


def _static_shape(shape: Tensor) -> TensorShape:
    return constant_value_as_shape(shape)


def _padding_values(dataset: Dataset, padding_values: Any, specs: list[Any]) -> list[Tensor]:
    if padding_values is None:
        given: list[Any] = [None] * len(specs)
    elif not structure.is_nested(padding_values) and structure.is_nested(dataset.element_spec):
        given = [padding_values] * len(specs)
    else:
        structure.assert_same(dataset.element_spec, padding_values)
        given = structure.flatten(padding_values)
    return [_padding_value(value, spec) for value, spec in zip(given, specs, strict=True)]


def _padding_value(value: Any, spec: TensorSpec) -> Tensor:
    if value is None:
        if spec.dtype is dtypes.string:
            value = ""
        elif spec.dtype is dtypes.variant:
            raise TypeError("Unable to create padding for field of type 'variant'")
        else:
            value = np.zeros((), spec.dtype.as_numpy_dtype)
    tensor = value if isinstance(value, Tensor) else _converted(value, spec)
    if tensor.shape.ndims not in (0, None):
        raise ValueError(f"Padding value should be a scalar, but is not: {tensor}")
    if tensor.dtype != spec.dtype:
        raise TypeError(
            f"Padding value tensor ({tensor}) does not match output type: {spec.dtype}: the types must be equal."
        )
    return tensor


def _converted(value: Any, spec: TensorSpec) -> Tensor:
    if isinstance(value, float) and not (spec.dtype.is_floating or spec.dtype.is_complex):
        raise TypeError(f"Padding value {value!r} does not match output type: {spec.dtype}.")
    wanted = None if isinstance(value, (np.ndarray, np.generic)) else spec.dtype
    return convert_to_tensor(value, wanted, name="padding_value")


def unbatch(dataset: Dataset) -> Dataset:
    """See `Dataset.unbatch`."""
    specs = structure.flatten(dataset.element_spec)
    rows = Dimension(None)
    for spec in specs:
        if isinstance(spec, structure.NestedSpec):
            raise TypeError(f"Elements that hold datasets or arrays cannot be unbatched: {spec}.")
        if spec.shape.ndims == 0:
            raise ValueError("Cannot unbatch an input with scalar components.")
        if spec.shape.ndims is not None:
            try:
                rows = rows.merge_with(spec.shape[0])
            except ValueError as e:
                raise ValueError(f"Cannot unbatch an input whose components have different batch sizes: {e}") from e
    if any(isinstance(spec, structure.SparseTensorSpec) for spec in specs):
        dataset = _with_sparse_rows(dataset)
    return dataset._derived("UnbatchDataset", spec=structure.pack(dataset.element_spec, [_row_spec(s) for s in specs]))


def _row_spec(spec: Any) -> Any:
    rest = TensorShape(None) if spec.shape.ndims is None else spec.shape[1:]
    return type(spec)(rest, spec.dtype)


def _with_sparse_rows(dataset: Dataset) -> Dataset:
    """The same elements, with sparse tensors as one row of variants for each of their slices."""

    def rows(*values: Any) -> Any:
        return tuple(sliceable(value) for value in structure.flatten(values))

    function = DatasetFunction(rows, dataset.element_spec, name="Dataset_unbatch")
    mapped = dataset._derived("MapDataset", function.captured, spec=function.spec, f=function.attr)
    mapped._element_spec = dataset.element_spec
    return mapped
