"""The ops that call functions: PartitionedCall and its kin, If, Case, While, For; and SymbolicGradient."""

from __future__ import annotations

from typing import Any

from thalweg.functions.graph_function import GraphFunction, find_function
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.op_registry import define, not_differentiable
from thalweg.graph.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

_LISTS = "Tin: list(type), Tout: list(type)"


def _function(ctx: ShapeContext, attr: str) -> GraphFunction | None:
    """The function of an attribute; None if the library does not have it (yet)."""
    graph = get_default_graph()
    return find_function(graph, ctx.attr(attr)) if ctx.attr(attr).name in graph._functions else None


def _checked(ctx: ShapeContext, function: GraphFunction, arguments: int) -> list[TensorShape]:
    if len(function.inputs) != arguments:
        raise ValueError(f"Function '{function.name}' takes {len(function.inputs)} arguments, {arguments} are passed")
    if len(function.outputs) != ctx.num_outputs:
        raise ValueError(f"Function '{function.name}' has {len(function.outputs)} results, not {ctx.num_outputs}")
    return function.output_shapes


def _call_shape(leading: int) -> Any:
    def shape(ctx: ShapeContext) -> list[TensorShape]:
        function = _function(ctx, "f")
        if function is None:
            return [TensorShape(None)] * ctx.num_outputs
        return _checked(ctx, function, ctx.num_inputs - leading)

    return shape


def _declared_shapes(ctx: ShapeContext) -> list[TensorShape] | None:
    declared: list[TensorShape] = ctx.attr("output_shapes")
    if declared and len(declared) != ctx.num_outputs:
        raise ValueError(f"output_shapes has {len(declared)} shapes for {ctx.num_outputs} outputs")
    return declared or None


def _branches_shape(ctx: ShapeContext) -> list[TensorShape]:
    declared = _declared_shapes(ctx)
    names = ["then_branch", "else_branch"] if "then_branch" in ctx._attrs else []
    references = [ctx.attr(name) for name in names] or ctx.attr("branches")
    graph = get_default_graph()
    known = [find_function(graph, ref) for ref in references if ref.name in graph._functions]
    shapes = [_checked(ctx, function, ctx.num_inputs - 1) for function in known]
    if declared is not None:
        return declared
    if len(known) < len(references):
        return [TensorShape(None)] * ctx.num_outputs
    return [_common(list(alternatives)) for alternatives in zip(*shapes, strict=True)]


def _common(shapes: list[TensorShape]) -> TensorShape:
    """What holds for any of several shapes."""
    dims = [shape.dims_tuple for shape in shapes]
    first = dims[0]
    if first is None or any(other is None or len(other) != len(first) for other in dims):
        return TensorShape(None)
    columns = zip(*[other or () for other in dims], strict=True)
    return TensorShape([column[0] if len(set(column)) == 1 else None for column in columns])


def _while_shape(ctx: ShapeContext) -> list[TensorShape]:
    declared = _declared_shapes(ctx)
    for attr in ("cond", "body"):
        function = _function(ctx, attr)
        if function is not None and len(function.inputs) != ctx.num_inputs:
            raise ValueError(
                f"Function '{function.name}' takes {len(function.inputs)} arguments, the loop has {ctx.num_inputs}"
            )
    if declared is not None:
        return declared
    body = _function(ctx, "body")
    if body is None or len(body.outputs) != ctx.num_outputs:
        return [TensorShape(None)] * ctx.num_outputs
    return [_common([before, after]) for before, after in zip(ctx.inputs(), body.output_shapes, strict=True)]


def _for_shape(ctx: ShapeContext) -> list[TensorShape]:
    body = _function(ctx, "body")
    if body is None:
        return [TensorShape(None)] * ctx.num_outputs
    after = _checked(ctx, body, ctx.num_inputs - 2)
    return [_common([before, shape]) for before, shape in zip(ctx.inputs()[3:], after, strict=True)]


def _gradient_shape(ctx: ShapeContext) -> list[TensorShape]:
    if ctx.num_outputs > ctx.num_inputs:
        raise ValueError(f"There are {ctx.num_outputs} gradients for {ctx.num_inputs} arguments and gradients")
    unknown = TensorShape(None)
    return [
        unknown if ctx.input_dtype(i).base_dtype.name == "resource" else ctx.input(i) for i in range(ctx.num_outputs)
    ]


for _name, _stateful in (("PartitionedCall", False), ("StatefulPartitionedCall", True)):
    define(
        _name,
        "args: Tin -> output: Tout",
        f'{_LISTS}, f: func, config: string = "", config_proto: string = "", executor_type: string = ""',
        shape=_call_shape(0),
        stateful=_stateful,
    )
define(
    "RemoteCall", "target: string, args: Tin -> output: Tout", f"{_LISTS}, f: func", shape=_call_shape(1), stateful=True
)
define("SymbolicGradient", "input: Tin -> output: Tout", f"{_LISTS}, f: func", shape=_gradient_shape)
for _name, _stateful in (("If", True), ("StatelessIf", False)):
    define(
        _name,
        "cond: Tcond, input: Tin -> output: Tout",
        f"Tcond: type, {_LISTS}, then_branch: func, else_branch: func, output_shapes: list(shape) = []",
        shape=_branches_shape,
        stateful=_stateful,
    )
for _name, _stateful in (("Case", True), ("StatelessCase", False)):
    define(
        _name,
        "branch_index: int32, input: Tin -> output: Tout",
        f"{_LISTS}, branches: list(func) >= 1, output_shapes: list(shape) = []",
        shape=_branches_shape,
        stateful=_stateful,
    )
for _name, _stateful in (("While", True), ("StatelessWhile", False)):
    define(
        _name,
        "input: T -> output: T",
        "T: list(type), cond: func, body: func, output_shapes: list(shape) = [], parallel_iterations: int = 10",
        shape=_while_shape,
        stateful=_stateful,
    )
define(
    "For",
    "start: int32, limit: int32, delta: int32, input: T -> output: T",
    "T: list(type), body: func",
    shape=_for_shape,
)

not_differentiable(
    "PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "If", "StatelessIf", "Case",
    "StatelessCase", "While", "StatelessWhile", "For",
)  # fmt: skip
