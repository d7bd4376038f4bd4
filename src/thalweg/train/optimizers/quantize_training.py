"""train.do_quantize_training_on_graphdef: a GraphDef whose products are trained as if with few bits."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export

# Ops whose first two inputs become quantized.
_PRODUCTS = frozenset({"MatMul", "Conv2D", "DepthwiseConv2dNative"})


@export("train.do_quantize_training_on_graphdef")
def do_quantize_training_on_graphdef(input_graph: Any, num_bits: int) -> Any:
    """Returns a copy of a GraphDef in which the operands of float products pass through quantization.

    Each operand of a matrix product or convolution is rounded to `num_bits` bits over its present range and turned back
    into floats (QuantizeAndDequantizeV2), so that training finds weights that tolerate it. Gradients pass unchanged.

    Args:
        input_graph: The GraphDef.
        num_bits: How many bits values get, at least 2.

    Raises:
        ValueError: If `num_bits` is too small or too large.
    """
    if not 2 <= num_bits <= 63:
        raise ValueError(f"num_bits must be at least 2 and at most 63, got {num_bits}")
    result = type(input_graph)()
    result.CopyFrom(input_graph)
    quantized: dict[str, str] = {}
    for node in list(result.node):
        dtype = node.attr["T"].type
        if node.op not in _PRODUCTS or dtype != 1:  # DT_FLOAT
            continue
        for i in range(2):
            source = node.input[i]
            if source not in quantized:
                quantized[source] = _add_quantization(result, source, num_bits)
            node.input[i] = quantized[source]
    return result


def _add_quantization(graph: Any, source: str, num_bits: int) -> str:
    stem = source.replace(":", "_") + "/quantized"
    for end in ("min", "max"):
        bound = graph.node.add(name=f"{stem}/{end}", op="Const")
        bound.attr["dtype"].type = 1
        bound.attr["value"].tensor.dtype = 1
        bound.attr["value"].tensor.tensor_shape.SetInParent()
        bound.attr["value"].tensor.float_val.append(0.0)
    node = graph.node.add(name=stem, op="QuantizeAndDequantizeV2", input=[source, f"{stem}/min", f"{stem}/max"])
    node.attr["T"].type = 1
    node.attr["num_bits"].i = num_bits
    node.attr["signed_input"].b = True
    node.attr["range_given"].b = False
    return stem
