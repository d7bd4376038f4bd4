"""tf.contrib.slim.model_analyzer: prints the sizes of variables and operations."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph.definitions.op_registry import export


def tensor_description(var: Any) -> str:
    """Type and shape of a variable or tensor: 'float32_ref 3x3x1x8'."""
    sizes = "x".join(str(size) for size in var.shape.as_list()) if var.shape.ndims else ""
    return f"({var.dtype.base_dtype.name} {sizes})"


@export("contrib.slim.model_analyzer.analyze_vars")
def analyze_vars(variables: Any, print_info: bool = False) -> tuple[int, int]:
    """The number of elements of variables, and of their bytes; prints one line of each if asked to."""
    total, size = 0, 0
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    for var in variables:
        count = math.prod(var.shape.as_list())
        data = count * var.dtype.size
        total, size = total + count, size + data
        if print_info:
            print(var.name, tensor_description(var), f"[{count}, bytes: {data}]")
    if print_info:
        print(f"Total size of variables: {total}\nTotal bytes of variables: {size}")
    return total, size


@export("contrib.slim.model_analyzer.analyze_ops")
def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """The number of elements of all outputs of a graph that are known; prints one line of each if asked to."""
    total = 0
    if print_info:
        print("---------\nOperations: name -> (type shapes) [size]\n---------")
    for op in graph.get_operations():
        known = [output for output in op.outputs if output.shape.is_fully_defined()]
        count = sum(math.prod(output.shape.as_list()) for output in known)
        total += count
        if print_info:
            print(op.name, "\t->", ", ".join(map(tensor_description, known)), f"[{count}]")
    if print_info:
        print(f"Total size: {total}")
    return total
