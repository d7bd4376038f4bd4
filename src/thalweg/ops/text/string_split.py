"""Splitting strings, joining them along dimensions, and regular expressions.

Patterns are those of Python's `re`, of which RE2's syntax is nearly a subset; a rewrite refers to groups by
a backslash and their number, 0 being the whole match.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform.deprecation import deprecated_argument_lookup


def _split_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 1)
    shapes.with_rank(c.input(1), 0)
    return [TensorShape._of((None, 2)), shapes.ANY_VECTOR, TensorShape._of((2,))]


_SPARSE = "-> indices: int64, values: string, shape: int64"
define("StringSplit", f"input: string, delimiter: string {_SPARSE}", "skip_empty: bool = true", shape=_split_shape)
define("StringSplitV2", f"input: string, sep: string {_SPARSE}", "maxsplit: int = -1", shape=_split_shape)
not_differentiable("StringSplit", "StringSplitV2")


def _check_result_type(result_type: str) -> None:
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    if result_type == "RaggedTensor":
        raise errors.UnimplementedError(None, None, "Ragged tensors do not exist here: use result_type='SparseTensor'.")


def _sparse(parts: Any) -> SparseTensor:
    return SparseTensor(parts.indices, parts.values, parts.shape)


@export("string_split")
def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None, result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """Splits each string at any of the characters of `sep`.

    Args:
        source: A vector of strings.
        sep: Characters that separate; a space if None. If empty, every byte is a token.
        skip_empty: Whether to leave out empty tokens.
        delimiter: The old name of `sep`.
        result_type: 'SparseTensor'.
        name: The node's name.

    Returns:
        A SparseTensor of strings, with one row per element of `source`.
    """
    _check_result_type(result_type)
    sep = deprecated_argument_lookup("sep", sep, "delimiter", delimiter)
    with name_scope(None, "StringSplit", [source]):
        source = convert(source, dtypes.string)
        sep = convert(" " if sep is None else sep, dtypes.string)
    return _sparse(apply("StringSplit", source, sep, skip_empty=skip_empty, name=name))


@export("strings.split")
def strings_split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None,
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """Splits each string as Python's `str.split` does: at `sep`, or at runs of white space.

    Args:
        input: A vector of strings, or one string.
        sep: The separator; white space if None or empty.
        maxsplit: The largest number of cuts; -1 for any.
        result_type: 'SparseTensor'.
        source: The old name of `input`.
        name: The scope's name.

    Returns:
        A SparseTensor of strings, with one row per string.
    """
    _check_result_type(result_type)
    input = deprecated_argument_lookup("input", input, "source", source)
    with name_scope(name, "StringSplit", [input]):
        input = convert(input, dtypes.string, "input")
        if input.shape.rank == 0:
            input = apply_one("ExpandDims", input, 0)
        return _sparse(apply("StringSplitV2", input, "" if sep is None else sep, maxsplit=maxsplit))


def _reduce_join_shape(c: ShapeContext) -> TensorShape:
    axes = c.constant(1)
    if axes is not None and len({int(a) for a in axes.ravel()}) != axes.size:
        raise ValueError(f"Duplicate reduction dimension in {axes.tolist()}")
    return shapes.reduction(c)


define(
    "ReduceJoin",
    "inputs: string, reduction_indices: int32 -> output: string",
    "keep_dims: bool = false, separator: string = ''",
    shape=_reduce_join_shape,
)
not_differentiable("ReduceJoin")


@export("reduce_join", "strings.reduce_join")
def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: bool | None = None, separator: str = "", name: str | None = None,
    reduction_indices: Any = None, keepdims: bool | None = None,
) -> Tensor:  # fmt: skip
    """Joins strings along dimensions.

    Args:
        inputs: Strings.
        axis: The dimensions, joined in this order; all, the last one first, if None.
        keep_dims: The old name of `keepdims`.
        separator: What to put between.
        name: The node's name.
        reduction_indices: The old name of `axis`.
        keepdims: Whether joined dimensions stay, with size 1.

    Returns:
        A Tensor of strings.

    Example:
        >>> tf.Session().run(tf.reduce_join([["a", "b"], ["c", "d"]], 0)).tolist()
        [b'ac', b'bd']
    """
    keep = deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    axis = deprecated_argument_lookup("axis", axis, "reduction_indices", reduction_indices)
    with name_scope(name, "ReduceJoin", [inputs, axis]):
        inputs = convert(inputs, dtypes.string, "inputs")
        if axis is None:
            rank = inputs.shape.rank
            if rank is None:
                count = apply_one("Rank", inputs)
                axis = apply_one("Range", apply_one("Sub", count, 1), -1, -1)
            else:
                axis = convert(np.arange(rank - 1, -1, -1, dtype=np.int32), dtypes.int32)
        return apply_one("ReduceJoin", inputs, axis, keep_dims=bool(keep), separator=separator)


def _regex_shape(c: ShapeContext) -> TensorShape:
    for i in range(1, c.num_inputs):
        shapes.with_rank(c.input(i), 0)
    return c.input(0)


_REPLACE_GLOBAL = "replace_global: bool = true"
define(
    "RegexReplace", "input: string, pattern: string, rewrite: string -> output: string", _REPLACE_GLOBAL,
    shape=_regex_shape,
)  # fmt: skip
define("RegexFullMatch", "input: string, pattern: string -> output: bool", shape=_regex_shape)
define(
    "StaticRegexReplace", "input: string -> output: string",
    f"pattern: string, rewrite: string, {_REPLACE_GLOBAL}", shape=shapes.unchanged,
)  # fmt: skip
define("StaticRegexFullMatch", "input: string -> output: bool", "pattern: string", shape=shapes.unchanged)
not_differentiable("RegexReplace", "RegexFullMatch", "StaticRegexReplace", "StaticRegexFullMatch")


@export("regex_replace", "strings.regex_replace")
@elementwise
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    """Replaces what matches a regular expression.

    Args:
        input: Strings.
        pattern: The expression: a string, or a scalar tensor.
        rewrite: What to put in its place; a backslash and a digit stand for a group of the match.
        replace_global: Whether to replace every match of a string, not only the first.
        name: The node's name.

    Returns:
        A Tensor of strings.
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return apply_one(
            "StaticRegexReplace", input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
        )
    return apply_one("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)


@export("strings.regex_full_match")
@elementwise
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether the whole of each string matches a regular expression."""
    if isinstance(pattern, (str, bytes)):
        return apply_one("StaticRegexFullMatch", input, pattern=pattern, name=name)
    return apply_one("RegexFullMatch", input, pattern, name=name)
