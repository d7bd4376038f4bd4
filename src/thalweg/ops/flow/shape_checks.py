"""tf.debugging.assert_shapes: sizes of several tensors that must agree, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import group, no_op
from thalweg.ops.flow.checks import assert_rank, assert_rank_at_least
from thalweg.ops.flow.printing import Assert
from thalweg.ops.flow.tensor_names import named


@export("debugging.assert_shapes")
def assert_shapes(
    shapes: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> Operation:
    """Fails unless tensors have the shapes given.

    Args:
        shapes: Pairs (or a dict) of a tensor and its shape. An element of a shape is a size, a name (equal names mean
            equal sizes), or None or '.' for any size; a first or last element that is `...` or '*' stands for any
            number of dimensions. A string is a list of its characters.
        data: What the message of a failure at run time shows.
        summarize: How many elements of it to print.
        message: What to say first.
        name: The scope's name.

    Returns:
        The operation that checks the sizes that are not static.

    Raises:
        ValueError: If a shape that is known does not fit.
    """
    pairs = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    with name_scope(name, "assert_shapes", [pairs, data]):
        checker = _Checker(data, summarize, message)
        for tensor, symbols in pairs:
            tensor = tensor.deref() if hasattr(tensor, "deref") else tensor
            checker.add(convert(tensor), _symbols(symbols))
        return group(*checker.checks) if checker.checks else no_op(name="static_checks_determined_all_ok")


def _symbols(symbols: Any) -> list[Any]:
    if isinstance(symbols, (str, list, tuple)):
        found = list(symbols)
    else:
        found = list(symbols.as_list()) if hasattr(symbols, "as_list") else [symbols]
    found = [... if s == "*" else None if s == "." else s for s in found]
    if ... in found[1:-1]:
        raise ValueError(f"Only the first or last element of a shape can be '...' or '*': {found}")
    return [int(s) if isinstance(s, (np.integer, str)) and str(s).isdigit() else s for s in found]


class _Checker:
    """Collects sizes by name, and the checks that must wait for the step."""

    def __init__(self, data: Any, summarize: int | None, message: str | None) -> None:
        self.data = data
        self.summarize = summarize
        self.message = message
        self.checks: list[Operation] = []
        self.sizes: dict[Any, tuple[Any, str]] = {}

    def add(self, tensor: Tensor, symbols: list[Any]) -> None:
        """Checks one tensor."""
        open_end = bool(symbols) and symbols[-1] is ...
        open_start = not open_end and bool(symbols) and symbols[0] is ...
        sizes = [s for s in symbols if s is not ...]
        check = assert_rank_at_least if open_start or open_end else assert_rank
        rank_check = check(tensor, len(sizes), message=self.message)
        if tensor.shape.rank is None:
            self.checks.append(rank_check)
        for i, symbol in enumerate(sizes):
            if symbol is not None:
                self._check_size(tensor, i - len(sizes) if open_start else i, symbol, rank_check)

    def _check_size(self, tensor: Tensor, position: int, symbol: Any, rank_check: Operation) -> None:
        dims = tensor.shape.dims_tuple
        actual: Any = None if dims is None else dims[position]
        if actual is None:
            with control_dependencies([rank_check]):
                shape = apply_one("Shape", tensor)
            at = position if position >= 0 else apply_one("AddV2", apply_one("Size", shape), position)
            actual = apply_one("GatherV2", shape, at, 0)
        if isinstance(symbol, int):
            wanted, source = symbol, "Specified explicitly"
        elif symbol in self.sizes:
            wanted, source = self.sizes[symbol]
        else:
            self.sizes[symbol] = actual, f"Specified by tensor {named(tensor)} dimension {position}"
            return
        self._check_equal(tensor, position, actual, wanted, source)

    def _check_equal(self, tensor: Tensor, position: int, actual: Any, wanted: Any, source: str) -> None:
        if isinstance(actual, int) and isinstance(wanted, int):
            if actual != wanted:
                prefix = f"{self.message}.  " if self.message else ""
                raise ValueError(
                    f"{prefix}{source}.  Tensor {named(tensor)} dimension {position} must have size {wanted}.  "
                    f"Received size {actual}, shape {tensor.shape}"
                )
            return
        data = self.data
        if data is None:
            data = [
                self.message or "", source, f"Tensor {named(tensor)} dimension", position, "must have size", wanted,
                "Received shape: ", apply_one("Shape", tensor),
            ]  # fmt: skip
        self.checks.append(Assert(apply_one("Equal", actual, wanted), data, summarize=self.summarize))
