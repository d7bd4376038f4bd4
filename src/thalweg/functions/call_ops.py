"""The ops that call functions: PartitionedCall and its kin, If, Case, While, For; and SymbolicGradient."""

from __future__ import annotations

from typing import Any

from thalweg.functions.graph_function import library_function
from thalweg.functions.signatures import flat_types
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import define
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.tensor_shape import TensorShape

_LISTS = "Tin: list(type), Tout: list(type)"


def _entry(reference: NameAttrList) -> Any:
    """The library's entry for a function; None if there is none (yet).

    Does not build the body: it may be under construction, with this node as a part of it.
    """
    return library_function(get_default_graph(), reference.name)


def _checked(ctx: ShapeContext, reference: NameAttrList, arguments: int) -> list[TensorShape] | None:
    """The static shapes of a function's results, if they are known."""
    entry = _entry(reference)
    if entry is None:
        return None
    signature = entry.signature
    if signature.attrs:
        return None
    takes, gives = len(flat_types(signature.inputs, {})), len(flat_types(signature.outputs, {}))
    if takes != arguments:
        raise ValueError(f"Function '{entry.name}' takes {takes} arguments, {arguments} are passed")
    if gives != ctx.num_outputs:
        raise ValueError(f"Function '{entry.name}' has {gives} results, not {ctx.num_outputs}")
    shapes: list[TensorShape] | None = entry.known_output_shapes
    return shapes


def _unknown(ctx: ShapeContext) -> list[TensorShape]:
    return [TensorShape(None)] * ctx.num_outputs


def _call_shape(leading: int) -> Any:
    def shape(ctx: ShapeContext) -> list[TensorShape]:
        return _checked(ctx, ctx.attr("f"), ctx.num_inputs - leading) or _unknown(ctx)

    return shape


def _declared_shapes(ctx: ShapeContext) -> list[TensorShape] | None:
    declared: list[TensorShape] = ctx.attr("output_shapes")
    if declared and len(declared) != ctx.num_outputs:
        raise ValueError(f"output_shapes has {len(declared)} shapes for {ctx.num_outputs} outputs")
    return declared or None


def _branches_shape(ctx: ShapeContext) -> list[TensorShape]:
    declared = _declared_shapes(ctx)
    if "then_branch" in ctx._attrs:
        references = [ctx.attr("then_branch"), ctx.attr("else_branch")]
    else:
        references = ctx.attr("branches")
    shapes = [_checked(ctx, reference, ctx.num_inputs - 1) for reference in references]
    if declared is not None:
        return declared
    known = [each for each in shapes if each is not None]
    if len(known) < len(references):
        return _unknown(ctx)
    return [_common(list(alternatives)) for alternatives in zip(*known, strict=True)]


def _common(shapes: list[TensorShape]) -> TensorShape:
    """The most specific shape that covers several."""
    dims = [shape.dims_tuple for shape in shapes]
    first = dims[0]
    if first is None or any(other is None or len(other) != len(first) for other in dims):
        return TensorShape(None)
    columns = zip(*[other or () for other in dims], strict=True)
    return TensorShape([column[0] if len(set(column)) == 1 else None for column in columns])


def _while_shape(ctx: ShapeContext) -> list[TensorShape]:
    declared = _declared_shapes(ctx)
    entry = _entry(ctx.attr("cond"))
    if entry is not None and not entry.signature.attrs:
        takes = len(flat_types(entry.signature.inputs, {}))
        if takes != ctx.num_inputs:
            raise ValueError(f"Function '{entry.name}' takes {takes} arguments, the loop has {ctx.num_inputs} values")
    after = _checked(ctx, ctx.attr("body"), ctx.num_inputs)
    if declared is not None:
        return declared
    if after is None:
        return _unknown(ctx)
    return [_common([before, shape]) for before, shape in zip(ctx.inputs(), after, strict=True)]


def _for_shape(ctx: ShapeContext) -> list[TensorShape]:
    after = _checked(ctx, ctx.attr("body"), ctx.num_inputs - 2)
    if after is None:
        return _unknown(ctx)
    return [_common([before, shape]) for before, shape in zip(ctx.inputs()[3:], after, strict=True)]


def _gradient_shape(ctx: ShapeContext) -> list[TensorShape]:
    if ctx.num_outputs > ctx.num_inputs:
        raise ValueError(f"There are {ctx.num_outputs} gradients for {ctx.num_inputs} arguments and gradients")
    unknown = TensorShape(None)
    return [
        unknown if ctx.input_dtype(i).base_dtype.name == "resource" else ctx.input(i) for i in range(ctx.num_outputs)
    ]


for _name, _effect in (("PartitionedCall", Effect.NONE), ("StatefulPartitionedCall", Effect.CALLS)):
    define(
        _name,
        "args: Tin -> output: Tout",
        f'{_LISTS}, f: func, config: string = "", config_proto: string = "", executor_type: string = ""',
        shape=_call_shape(0),
        effect=_effect,
        flow=Flow.CALL,
    )
define(
    "RemoteCall",
    "target: string, args: Tin -> output: Tout",
    f"{_LISTS}, f: func",
    shape=_call_shape(1),
    effect=Effect.CALLS,
    flow=Flow.CALL,
)
define("SymbolicGradient", "input: Tin -> output: Tout", f"{_LISTS}, f: func", shape=_gradient_shape, flow=Flow.CALL)
for _name, _effect in (("If", Effect.CALLS), ("StatelessIf", Effect.NONE)):
    define(
        _name,
        "cond: Tcond, input: Tin -> output: Tout",
        f"Tcond: type, {_LISTS}, then_branch: func, else_branch: func, output_shapes: list(shape) = []",
        shape=_branches_shape,
        effect=_effect,
        flow=Flow.BRANCH,
    )
for _name, _effect in (("Case", Effect.CALLS), ("StatelessCase", Effect.NONE)):
    define(
        _name,
        "branch_index: int32, input: Tin -> output: Tout",
        f"{_LISTS}, branches: list(func) >= 1, output_shapes: list(shape) = []",
        shape=_branches_shape,
        effect=_effect,
        flow=Flow.BRANCH,
    )
for _name, _effect in (("While", Effect.CALLS), ("StatelessWhile", Effect.NONE)):
    define(
        _name,
        "input: T -> output: T",
        "T: list(type), cond: func, body: func, output_shapes: list(shape) = [], parallel_iterations: int = 10",
        shape=_while_shape,
        effect=_effect,
        flow=Flow.LOOP,
    )
define(
    "For",
    "start: int32, limit: int32, delta: int32, input: T -> output: T",
    "T: list(type), body: func",
    shape=_for_shape,
    flow=Flow.LOOP,
)
