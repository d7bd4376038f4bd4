"""The gradient of a conditional: a conditional on the same predicate, of the gradients of its branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.autodiff.backward_contexts import BackwardBranch
from thalweg.autodiff.walk import Options, Pairs, construct_gradient, walk
from thalweg.autodiff.zeros import dense, empty_slices_like, zeros_for
from thalweg.control_flow.cond_context import Conditional
from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.tensor import Tensor


@construct_gradient(Conditional)
def cond_gradient(
    forward: Conditional, grads: dict[Tensor, Any], needed: Callable[[Tensor], bool], options: Options
) -> Pairs:
    """The gradients of a conditional's captures, given those of its results."""
    xs = [tensor for tensor in forward.inputs() if needed(tensor)]
    backward = _new_conditional(forward)
    found: list[dict[Tensor, Any]] = []
    for context, branch in zip(backward.branches, forward.branches, strict=True):
        assert isinstance(context, BackwardBranch)
        with context:
            ys, seeds = [], []
            for output, values in zip(list(forward.outputs), list(forward.values), strict=True):
                grad = grads.get(output)
                if grad is not None:
                    ys.append(values[branch.branch])
                    seeds.append(_captured(context, grad))
            inner = {x: branch.captures[x] for x in xs if x in branch.captures}
            results = walk(branch, ys, seeds, list(inner.values()), options)
            found.append({x: results[t] for x, t in inner.items() if t in results})
    return [(x, grad) for x in xs if (grad := _joined(backward, x, found)) is not None]


def _new_conditional(forward: Conditional) -> Conditional:
    pred = forward.pred
    at_false, at_true = apply("Switch", pred, pred, name="Switch")
    pivots = [apply_one("Identity", at_false, name="switch_f"), apply_one("Identity", at_true, name="switch_t")]
    pred = apply_one("Identity", pred, name="pred_id")
    scope = get_default_graph().get_name_scope()
    branches = [
        BackwardBranch(pred, pivots[i], i, f"{scope}/cond_text{'' if i else '_1'}", forward.branches[i]) for i in (0, 1)
    ]
    return Conditional(*branches)


def _captured(context: BackwardBranch, grad: Any) -> Any:
    if not isinstance(grad, IndexedSlices):
        return context.capture(grad)
    shape = grad.dense_shape
    return IndexedSlices(
        context.capture(grad.values), context.capture(grad.indices), None if shape is None else context.capture(shape)
    )


def _joined(backward: Conditional, x: Tensor, found: list[dict[Tensor, Any]]) -> Any:
    """One gradient of `x` from those of the two branches; a branch without one contributes zero."""
    grads = [results.get(x) for results in found]
    present = [grad for grad in grads if grad is not None]
    if not present:
        return None
    if all(isinstance(grad, IndexedSlices) for grad in present):
        slices = _joined_slices(backward, x, grads)
        if slices is not None:
            return slices
    values = []
    for context, grad in zip(backward.branches, grads, strict=True):
        with context:
            values.append(context.capture(zeros_for(x) if grad is None else dense(grad)))
    return backward.add_output(*values)


def _joined_slices(backward: Conditional, x: Tensor, grads: list[Any]) -> Any:
    like = next(grad for grad in grads if grad is not None)
    filled = []
    for context, grad in zip(backward.branches, grads, strict=True):
        with context:
            grad = empty_slices_like(like) if grad is None else grad
            if grad is None:
                return None
            indices = grad.indices
            if indices.dtype is not dtypes.int64:
                indices = apply_one("Cast", indices, DstT=dtypes.int64)
            filled.append((context.capture(grad.values), context.capture(indices)))
    values, indices = (backward.add_output(f, t) for f, t in zip(*filled, strict=True))
    return IndexedSlices(values, indices, shape_of(x))


def shape_of(x: Tensor) -> Tensor:
    """The shape of a tensor, or of the variable behind a handle."""
    kind = "VariableShape" if x.dtype.base_dtype is dtypes.resource else "Shape"
    return apply_one(kind, x)
