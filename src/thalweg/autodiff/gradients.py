"""gradients(): walks backwards from ys to xs and calls the gradient function of every operation on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.autodiff.aggregate import aggregate
from thalweg.graph.apply import apply
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import colocate_with, name_scope
from thalweg.graph.op_registry import export, gradient_function
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


@export("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = None,
) -> list[Any]:
    """Returns the derivatives of the sum of `ys` with respect to each of `xs`."""
    ys, xs = _as_list(ys), _as_list(xs)
    grad_ys = [None] * len(ys) if grad_ys is None else _as_list(grad_ys)
    with name_scope(name, "gradients", [*ys, *xs]):
        sources = [getattr(x, "handle", x) for x in xs]
        tensors = [convert_to_tensor(y) for y in ys]
        seeds = [_seed(y, grad) for y, grad in zip(tensors, grad_ys, strict=True)]
        stops = {getattr(t, "handle", t) for t in _as_list(stop_gradients or [])}
        grads = _walk(tensors, seeds, sources, stops, colocate_gradients_with_ops, aggregation_method)
        return [grads.get(x) for x in sources]


def _as_list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _seed(y: Tensor, grad: Any) -> Any:
    if grad is None:
        if not (y.dtype.is_floating or y.dtype.is_complex):
            raise TypeError(f"Gradients of tensors must be floating or complex, {y.name} is {y.dtype.name}.")
        return apply("OnesLike", y) if not y.shape.is_fully_defined() else apply("Fill", y.shape.as_list(), _one(y))
    return grad if isinstance(grad, IndexedSlices) else convert_to_tensor(grad, dtype=y.dtype)


def _one(y: Tensor) -> Tensor:
    return convert_to_tensor(1, dtype=y.dtype)


def _between(ys: Sequence[Tensor], xs: Sequence[Tensor], stops: set[Tensor]) -> dict[Operation, int]:
    """The operations on paths from xs to ys, with the number of their consumers that are on such paths too."""
    reached: set[Operation] = set()
    stack = [x.op for x in xs]
    starts = set(stack)
    while stack:
        op = stack.pop()
        if op in reached:
            continue
        reached.add(op)
        for output in op.outputs:
            stack.extend(consumer for consumer in output.consumers() if consumer not in reached)
    pending: dict[Operation, int] = {}
    stack = [y.op for y in ys]
    seen: set[Operation] = set()
    while stack:
        op = stack.pop()
        if op in seen or op not in reached:
            continue
        seen.add(op)
        pending.setdefault(op, 0)
        if op in starts and not any(t.op in reached for t in op.inputs):
            continue
        for tensor in op.inputs:
            if tensor.op in reached and tensor not in stops:
                pending[tensor.op] = pending.get(tensor.op, 0) + 1
                stack.append(tensor.op)
    return pending


def _walk(
    ys: Sequence[Tensor], seeds: Sequence[Any], xs: Sequence[Tensor], stops: set[Tensor], colocate: bool,
    method: int | None,
) -> dict[Tensor, Any]:  # fmt: skip
    pending = _between(ys, xs, stops)
    collected: dict[Tensor, list[Any]] = {}
    for y, seed in zip(ys, seeds, strict=True):
        collected.setdefault(y, []).append(seed)
    wanted = set(xs)
    results: dict[Tensor, Any] = {}
    ready = list(dict.fromkeys(y.op for y in ys if pending.get(y.op) == 0))
    while ready:
        op = ready.pop()
        grads = []
        for output in op.outputs:
            total = aggregate(collected.pop(output, []), method)
            if output in wanted:
                results[output] = total
            grads.append(total)
        flow = _input_grads(op, grads, colocate)
        for tensor, grad in zip(op.inputs, flow, strict=True):
            if tensor.op not in pending or tensor in stops:
                continue
            if grad is not None:
                collected.setdefault(tensor, []).append(grad)
            pending[tensor.op] -= 1
            if pending[tensor.op] == 0:
                ready.append(tensor.op)
    return results


def _input_grads(op: Operation, grads: list[Any], colocate: bool) -> Sequence[Any]:
    none = [None] * len(op.inputs)
    if not op.inputs or all(grad is None for grad in grads):
        return none
    override = op.attrs.get("_gradient_op_type")
    function = gradient_function(override.decode() if override else op.type)
    if function is None:
        return none
    filled = [
        apply("ZerosLike", t) if g is None and _differentiable(t) else g for t, g in zip(op.outputs, grads, strict=True)
    ]
    with name_scope(op.name + "_grad"):
        if colocate:
            with colocate_with(op):
                out = function(op, *filled)
        else:
            out = function(op, *filled)
    out = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(out) != len(op.inputs):
        raise ValueError(
            f"The gradient function of op '{op.type}' (node '{op.name}') returned {len(out)} gradients for "
            f"{len(op.inputs)} inputs."
        )
    return out


def _differentiable(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex
