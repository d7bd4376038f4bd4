"""Printing and asserting inside of a step: Assert, Print, tf.print, CheckNumerics, Timestamp."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert, is_tensor_like
from thalweg.graph.default_graph import colocate_with, control_dependencies, get_default_graph, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import group
from thalweg.platform import logging
from thalweg.platform.deprecation import deprecated_argument_lookup

define(
    "Assert", "condition: bool, data: T ->", "T: list(type) >= 1, summarize: int = 3",
    shape=shapes.no_outputs, effect=Effect.EXTERNAL,
)  # fmt: skip
not_differentiable("Assert")


@export("Assert", "debugging.Assert")
def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Operation:
    """Fails the step, with `data` in the message, unless `condition` holds.

    Args:
        condition: A scalar bool.
        data: Tensors and values to print if it does not hold.
        summarize: How many elements of each to print; 3 if None, all if -1.
        name: The scope's name.

    Returns:
        The operation: run it, or make others depend on it.
    """
    with name_scope(name, "Assert", [condition, data]):
        return apply_op("Assert", condition, [convert(d) for d in data], summarize=summarize, name="Assert")


define(
    "Print", "input: T, data: U -> output: T",
    "T: type, U: list(type) >= 0, message: string = '', first_n: int = -1, summarize: int = 3",
    shape=shapes.unchanged, effect=Effect.EXTERNAL,
)  # fmt: skip


@export("Print")
def Print(
    input_: Any, data: Any, message: str | None = None, first_n: int | None = None, summarize: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Passes `input_` on and, as a side effect, prints `data` to standard error.

    Args:
        input_: Any tensor.
        data: Tensors to print.
        message: What to print before them.
        first_n: How many times to print; always if None.
        summarize: How many elements of each to print; 3 if None, all if -1.
        name: The node's name.

    Returns:
        A tensor with the value of `input_`.
    """
    return apply_one("Print", input_, list(data), message=message, first_n=first_n, summarize=summarize, name=name)


@gradient("Print")
def _print_grad(op: Operation, grad: Tensor) -> Any:
    return [grad, *[None] * (len(op.inputs) - 1)]


define(
    "PrintV2", "input: string ->", "output_stream: string = 'stderr', end: string = '\n'",
    shape=shapes.no_outputs, effect=Effect.EXTERNAL,
)  # fmt: skip
not_differentiable("PrintV2")

_LOGGERS = {"log(info)": logging.info, "log(warning)": logging.warning, "log(error)": logging.error}
_FILE = "file://"


@python_kernel("PrintV2")
def _print_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    if np.ndim(inputs[0]) != 0:
        raise errors.InvalidArgumentError(None, None, f"The text must be a scalar, got shape {np.shape(inputs[0])}.")
    text = bytes(inputs[0][()]).decode("utf-8", "replace")
    stream, end = attrs["output_stream"].decode(), attrs["end"].decode("utf-8", "replace")
    if stream in _LOGGERS:
        _LOGGERS[stream]("%s", text)
    elif stream.startswith(_FILE):
        with open(stream[len(_FILE) :], "a", encoding="utf-8") as file:
            file.write(text + end)
    else:
        # One call: lines of concurrent steps do not mix.
        out = sys.stdout if stream == "stdout" else sys.stderr
        out.write(text + end)
        out.flush()
    return []


def _stream_name(stream: Any) -> str:
    if stream is None or stream is sys.stderr or stream is sys.__stderr__:
        return "stderr"
    if stream is sys.stdout or stream is sys.__stdout__:
        return "stdout"
    for name, function in _LOGGERS.items():
        if stream is function or stream == name:
            return name
    if stream == logging.INFO or stream is logging.get_logger().info:
        return "log(info)"
    if stream in (logging.WARN, logging.warn):
        return "log(warning)"
    if stream == logging.ERROR:
        return "log(error)"
    if isinstance(stream, str) and stream.startswith(_FILE):
        return stream
    raise ValueError(
        f"Unsupported output stream, logging level, or file: {stream}. Supported streams are sys.stdout, sys.stderr, "
        "tf.logging.info, tf.logging.warning, tf.logging.error. A file has the form 'file://<filepath>'."
    )


def _pieces(value: Any, nested: bool) -> list[Any]:
    """A value as a list of texts and tensors."""
    if isinstance(value, SparseTensor):
        return ["SparseTensor(indices=", value.indices, ", values=", value.values, ", shape=", value.dense_shape, ")"]
    if isinstance(value, IndexedSlices):
        return ["IndexedSlices(indices=", value.indices, ", values=", value.values, ")"]
    if isinstance(value, Tensor) or (not isinstance(value, (dict, list, tuple)) and is_tensor_like(value)):
        return [convert(value)]
    if isinstance(value, dict):
        parts = [[f"{key!r}: ", *_pieces(item, True)] for key, item in value.items()]
        return ["{", *_joined(parts, ", "), "}"]
    if isinstance(value, (list, tuple)):
        parts = [_pieces(item, True) for item in value]
        if isinstance(value, list):
            return ["[", *_joined(parts, ", "), "]"]
        return ["(", *_joined(parts, ", "), ",)" if len(value) == 1 else ")"]
    return [value if isinstance(value, str) and not nested else repr(value)]


def _joined(parts: list[list[Any]], separator: str) -> list[Any]:
    out: list[Any] = []
    for i, part in enumerate(parts):
        out += [separator, *part] if i else part
    return out


@export("print")
def print(*inputs: Any, **kwargs: Any) -> Operation:
    """Prints tensors and other values when it is run.

    Args:
        *inputs: Tensors, and any structures of tensors and Python values.
        **kwargs: `output_stream` (sys.stderr, sys.stdout, tf.logging.info, tf.logging.warning, tf.logging.error or
            'file://path'), `summarize` (elements at each end of a dimension, -1 for all; 3), `sep` (' '),
            `end` (a line break), `name`.

    Returns:
        The operation: run it, or make others depend on it.

    Raises:
        ValueError: For another keyword or stream.
    """
    stream = _stream_name(kwargs.pop("output_stream", sys.stderr))
    name = kwargs.pop("name", None)
    summarize = kwargs.pop("summarize", 3)
    separator = kwargs.pop("sep", " ")
    end = kwargs.pop("end", "\n")
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    pieces = _joined([_pieces(value, False) for value in inputs], separator)
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    placeholder = "{}"
    while placeholder in text:
        placeholder = "{" + placeholder + "}"
    tensors = [piece for piece in pieces if not isinstance(piece, str)]
    template = "".join(piece if isinstance(piece, str) else placeholder for piece in pieces)
    if len(inputs) == 1 and len(tensors) == 1 and len(pieces) == 1 and _is_text(tensors[0]):
        formatted = tensors[0]
    else:
        formatted = apply_one("StringFormat", tensors, template=template, placeholder=placeholder, summarize=summarize)
    return apply_op("PrintV2", formatted, output_stream=stream, end=end, name=name)


def _is_text(tensor: Tensor) -> bool:
    """A lone scalar string is printed as it is, without quotes."""
    return tensor.dtype is dtypes.string and tensor.shape.rank == 0


define(
    "CheckNumerics", "tensor: T -> output: T", "T: {bfloat16, half, float, double}, message: string",
    shape=shapes.unchanged, effect=Effect.EXTERNAL,
)  # fmt: skip


@export("check_numerics", "debugging.check_numerics")
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Passes a tensor on; fails the step, with `message`, if any element is infinite or not a number."""
    return apply_one("CheckNumerics", tensor, message=message, name=name)


@gradient("CheckNumerics")
def _check_numerics_grad(op: Operation, grad: Tensor) -> Any:
    message = op.get_attr("message").decode(errors="replace")
    return check_numerics(grad, f"Not a number (NaN) or infinity (Inf) values detected in gradient. {message}")


@export("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """Passes a tensor on if all its elements are finite; see `check_numerics`.

    Args:
        t: The tensor.
        msg: What to say if it is not finite.
        name: The scope's name.
        x: Another name of `t`.
        message: Another name of `msg`.
    """
    x = deprecated_argument_lookup("x", x, "t", t)
    message = deprecated_argument_lookup("message", message, "msg", msg)
    with name_scope(name, "VerifyFinite", [x]):
        x = convert(x, None, "t")
        with colocate_with(x):
            check = check_numerics(x, message or "")
            with control_dependencies([check]):
                return apply_one("Identity", x, name="control_dependency")


@export("add_check_numerics_ops")
def add_check_numerics_ops() -> Operation:
    """Adds a `check_numerics` to every floating-point tensor of the default graph; returns one op that runs them all.

    Raises:
        ValueError: If a tensor lies inside of a `cond` or `while_loop`.
    """
    checks: list[Tensor] = []
    for op in get_default_graph().get_operations():
        for i, output in enumerate(op.outputs):
            if output.dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
                continue
            if op._get_control_flow_context() is not None:
                raise ValueError(
                    "tf.add_check_numerics_ops() is not compatible with control flow operations such as tf.cond() or "
                    f"tf.while_loop(): '{op.name}' lies in one."
                )
            # Chained, so that the first bad tensor in the order of construction is the one reported.
            with control_dependencies(checks[-1:]):
                checks.append(check_numerics(output, f"{op.name}:{i}"))
    return group(*checks)


define("Timestamp", "-> ts: double", shape=shapes.scalar, effect=Effect.EXTERNAL)
not_differentiable("Timestamp")


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """Returns the seconds since 1970, as float64, at the time the op runs."""
    return apply_one("Timestamp", name=name)
