"""Signatures: which tensors of a graph a model's inputs and outputs are."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.formats.name_scoping import prepend_name_scope
from thalweg.graph.operation import Operation
from thalweg.saved_model.constants import CLASSIFY_METHOD_NAME, PREDICT_METHOD_NAME, REGRESS_METHOD_NAME


@export("saved_model.build_tensor_info", "saved_model.utils.build_tensor_info")
def build_tensor_info(tensor: Any) -> Any:
    """Describes a tensor: its name, element type and shape.

    Args:
        tensor: A tensor, a SparseTensor, or a variable.

    Returns:
        A TensorInfo.
    """
    from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo  # Start-up time: protobuf is slow to import.

    if isinstance(tensor, Operation):
        return TensorInfo(name=tensor.name, dtype=0)
    if isinstance(tensor, SparseTensor):
        info = TensorInfo(
            dtype=tensor.dtype.as_datatype_enum,
            coo_sparse=TensorInfo.CooSparse(
                values_tensor_name=tensor.values.name,
                indices_tensor_name=tensor.indices.name,
                dense_shape_tensor_name=tensor.dense_shape.name,
            ),
        )
    else:
        tensor = convert_to_tensor(tensor)
        info = TensorInfo(name=tensor.name, dtype=tensor.dtype.base_dtype.as_datatype_enum)
    info.tensor_shape.CopyFrom(tensor.get_shape().as_proto())
    return info


@export("saved_model.get_tensor_from_tensor_info", "saved_model.utils.get_tensor_from_tensor_info")
def get_tensor_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """Finds the tensor (or SparseTensor) that a TensorInfo describes.

    Args:
        tensor_info: The TensorInfo.
        graph: Where to look; the default graph if None.
        import_scope: A name scope that the graph was imported under.

    Raises:
        KeyError: If there is no such tensor.
        ValueError: If the TensorInfo is not valid.
    """
    graph = graph or get_default_graph()

    def find(name: str) -> Any:
        return graph.get_tensor_by_name(prepend_name_scope(name, import_scope))

    kind = tensor_info.WhichOneof("encoding")
    if kind == "name":
        return find(tensor_info.name)
    if kind == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(
            find(parts.indices_tensor_name), find(parts.values_tensor_name), find(parts.dense_shape_tensor_name)
        )
    raise ValueError(f"Invalid TensorInfo.encoding: {kind}")


@export("saved_model.build_signature_def", "saved_model.signature_def_utils.build_signature_def")
def build_signature_def(
    inputs: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None, method_name: str | None = None
) -> Any:
    """Makes a SignatureDef.

    Args:
        inputs: TensorInfos by name.
        outputs: TensorInfos by name.
        method_name: The method of the server.
    """
    from tensorboard.compat.proto.meta_graph_pb2 import SignatureDef  # Start-up time: protobuf is slow to import.

    signature = SignatureDef()
    for source, target in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for name, info in (source or {}).items():
            target[name].CopyFrom(info)
    if method_name is not None:
        signature.method_name = method_name
    return signature


def _required(what: str, value: Any) -> Any:
    if value is None or (isinstance(value, dict) and not value):
        raise ValueError(f"{what} cannot be None or empty for a signature.")
    return value


def _string_examples(examples: Any, method: str) -> Any:
    tensor = convert_to_tensor(_required(f"{method} inputs", examples))
    info = build_tensor_info(tensor)
    if tensor.dtype.base_dtype != dtypes.string:
        raise ValueError(f"{method} inputs must be serialized tf.Examples of type string, got {tensor.dtype.name}.")
    return info


@export("saved_model.predict_signature_def", "saved_model.signature_def_utils.predict_signature_def")
def predict_signature_def(inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """The signature of a prediction: any tensors in and out, by name."""
    return build_signature_def(
        {name: build_tensor_info(tensor) for name, tensor in _required("Prediction inputs", inputs).items()},
        {name: build_tensor_info(tensor) for name, tensor in _required("Prediction outputs", outputs).items()},
        PREDICT_METHOD_NAME,
    )


@export("saved_model.regression_signature_def", "saved_model.signature_def_utils.regression_signature_def")
def regression_signature_def(examples: Any, predictions: Any) -> Any:
    """The signature of a regression: serialized examples (strings) in, float32 out."""
    _required("Regression examples", examples)
    output = build_tensor_info(_required("Regression predictions", predictions))
    if output.dtype != dtypes.float32.as_datatype_enum:
        raise ValueError("Regression outputs must be of type float32.")
    return build_signature_def(
        {"inputs": _string_examples(examples, "Regression")}, {"outputs": output}, REGRESS_METHOD_NAME
    )


@export("saved_model.classification_signature_def", "saved_model.signature_def_utils.classification_signature_def")
def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Any:
    """The signature of a classification: serialized examples in; classes (strings), scores (float32) or both out."""
    inputs = _string_examples(examples, "Classification")
    outputs: dict[str, Any] = {}
    for name, tensor, wanted in (("classes", classes, dtypes.string), ("scores", scores, dtypes.float32)):
        if tensor is None:
            continue
        outputs[name] = build_tensor_info(tensor)
        if outputs[name].dtype != wanted.as_datatype_enum:
            raise ValueError(f"Classification {name} must be of type {wanted.name}.")
    if not outputs:
        raise ValueError("Classification classes and scores cannot both be None.")
    return build_signature_def({"inputs": inputs}, outputs, CLASSIFY_METHOD_NAME)


@export("saved_model.is_valid_signature", "saved_model.signature_def_utils.is_valid_signature")
def is_valid_signature(signature_def: Any) -> bool:
    """Whether a server can use a SignatureDef."""
    if signature_def is None:
        return False
    inputs, outputs = signature_def.inputs, signature_def.outputs
    method = signature_def.method_name
    if method == PREDICT_METHOD_NAME:
        return bool(inputs) and bool(outputs)
    if set(inputs) != {"inputs"} or as_dtype(inputs["inputs"].dtype) != dtypes.string:
        return False
    wanted = {
        REGRESS_METHOD_NAME: {"outputs": dtypes.float32},
        CLASSIFY_METHOD_NAME: {"classes": dtypes.string, "scores": dtypes.float32},
    }.get(method)
    if wanted is None or not outputs or not set(outputs) <= set(wanted):
        return False
    return all(as_dtype(outputs[name].dtype) == wanted[name] for name in outputs)
