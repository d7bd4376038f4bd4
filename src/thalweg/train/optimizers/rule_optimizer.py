"""RuleOptimizer: the optimizers whose step is one op, the same for all elements and for some rows."""

from __future__ import annotations

from typing import Any

from thalweg.graph.tensor import Tensor
from thalweg.train.optimizers.optimizer import Optimizer


class RuleOptimizer(Optimizer):
    """Subclasses define `_step`."""

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        """Returns the op that updates the rows `indices` of a variable, or all of it."""
        raise NotImplementedError

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return self._step(grad, handle, None)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._step(grad, handle, indices)
