"""The five control-flow primitives of the dataflow model and their kin (OSDI section 3.4): definitions, raw functions.

`cond` and `while_loop` (in `control_flow/`) build graphs of these. Loops and conditionals are differentiated as units
by `autodiff`, so the gradients here only serve graphs made of the raw ops.
"""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import all_ops, define, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _switch_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(1), 0)
    return [c.input(0), c.input(0)]


def _merge_shape(c: ShapeContext) -> list[TensorShape]:
    """The common shape of all inputs: a dimension that differs is unknown, and so is the shape if the ranks differ."""
    result = c.dims(0)
    for i in range(1, c.num_inputs):
        dims = c.dims(i)
        if result is None or dims is None or len(dims) != len(result):
            return [shapes.UNKNOWN, shapes.SCALAR]
        result = tuple(a if a == b else None for a, b in zip(result, dims, strict=True))
    return [TensorShape._of(result), shapes.SCALAR]


def _loop_cond_shape(c: ShapeContext) -> TensorShape:
    return shapes.with_rank(c.input(0), 0)


_ENTER = "T: type, frame_name: string, is_constant: bool = false, parallel_iterations: int = 10"
define(
    "Switch", "data: T, pred: bool -> output_false: T, output_true: T", "T: type", shape=_switch_shape, flow=Flow.SWITCH
)
define(
    "Merge",
    "inputs: N * T -> output: T, value_index: int32",
    "T: type, N: int >= 1",
    shape=_merge_shape,
    flow=Flow.MERGE,
)
define("Enter", "data: T -> output: T", _ENTER, shape=shapes.unchanged, flow=Flow.ENTER)
define("Exit", "data: T -> output: T", "T: type", shape=shapes.unchanged, flow=Flow.EXIT)
define("NextIteration", "data: T -> output: T", "T: type", shape=shapes.unchanged, flow=Flow.NEXT_ITERATION)
define("LoopCond", "input: bool -> output: bool", shape=_loop_cond_shape, flow=Flow.LOOP_COND)
define("ControlTrigger", "->", shape=shapes.no_outputs)
define("Abort", "->", "error_msg: string = '', exit_without_error: bool = false", shape=shapes.no_outputs,
       effect=Effect.EXTERNAL, stateful=False)  # fmt: skip
# There are no reference types at run time: these exist for imported graphs, and do what their namesakes do.
define(
    "RefSwitch",
    "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T)",
    "T: type",
    shape=_switch_shape,
    flow=Flow.SWITCH,
)
define(
    "RefMerge",
    "inputs: Ref(N * T) -> output: Ref(T), value_index: int32",
    "T: type, N: int >= 1",
    shape=_merge_shape,
    flow=Flow.MERGE,
)
define("RefEnter", "data: Ref(T) -> output: Ref(T)", _ENTER, shape=shapes.unchanged, flow=Flow.ENTER)
define("RefExit", "data: Ref(T) -> output: Ref(T)", "T: type", shape=shapes.unchanged, flow=Flow.EXIT)
define(
    "RefNextIteration", "data: Ref(T) -> output: Ref(T)", "T: type", shape=shapes.unchanged, flow=Flow.NEXT_ITERATION
)

work(works.free, *(op.name for op in all_ops() if op.flow.is_primitive), "ControlTrigger")
not_differentiable("LoopCond", "ControlTrigger", "Abort")


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Forwards `data` to its second result if `pred` is true, else to its first; the other one is dead."""
    with name_scope(name, "Switch", [data, pred]) as scope:
        pred = convert_to_tensor(pred, name="pred")
        if isinstance(data, (IndexedSlices, SparseTensor)):
            return _map_to_pairs(data, lambda part: switch(part, pred))
        data = convert_to_tensor(data, dtype=dtype, name="data")
        output_false, output_true = apply("Switch", data, pred, name=scope)
        return output_false, output_true


def _map_to_pairs(value: Any, function: Any) -> tuple[Any, Any]:
    parts = [(part, part) if part is None else function(part) for part in nest.flatten(value, True)]
    first, second = zip(*parts, strict=True)
    return nest.pack_sequence_as(value, list(first), True), nest.pack_sequence_as(value, list(second), True)


def merge(inputs: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Returns the one of `inputs` that is not dead, and its position."""
    output, value_index = apply("Merge", list(inputs), name=name)
    return output, value_index


@gradient("Switch", "RefSwitch")
def _switch_grad(op: Operation, if_false: Any, if_true: Any) -> Any:
    """A Switch outside of a conditional: the gradient is that of the output that is alive.

    Zeros that stand for the gradient of the other output are always there: each gradient passes a Switch of its own.
    """
    pred = op.inputs[1]
    grads = [grad if grad is None else convert_to_tensor(grad) for grad in (if_false, if_true)]
    present = grads[0] if grads[1] is None else grads[1]
    filled = [_zeros_of(op.inputs[0], present) if grad is None else grad for grad in grads]
    return merge([switch(grad, pred)[branch] for branch, grad in enumerate(filled)])[0], None


def _zeros_of(tensor: Any, gradient_there: Any) -> Any:
    """Zeros for a tensor, or for the variable that a handle belongs to."""
    if tensor.dtype.base_dtype.name != "resource":
        return apply_one("ZerosLike", tensor)
    return apply_one("Fill", apply_one("VariableShape", tensor), convert_to_tensor(0, gradient_there.dtype))


@gradient("Merge", "RefMerge")
def _merge_grad(op: Operation, grad: Any, _: Any) -> Any:
    """A Merge outside of a conditional: the gradient goes to the input that was alive."""
    return [apply("Switch", grad, apply_one("Equal", op.outputs[1], i))[1] for i in range(len(op.inputs))]


@gradient("Enter", "RefEnter")
def _enter_grad(op: Operation, grad: Any) -> Any:
    return grad


@gradient("Exit", "RefExit", "NextIteration", "RefNextIteration")
def _unknown_loop_grad(op: Operation, grad: Any) -> Any:
    raise LookupError(
        f"Cannot differentiate '{op.name}' ({op.type}): it belongs to a loop that was not built by tf.while_loop (or "
        "was imported without its WhileContextDef), so the loop's structure is not known."
    )
