"""WrapperOptimizer: the base class of optimizers around another optimizer."""

from __future__ import annotations

from typing import Any

from thalweg.train.optimizers.optimizer import GradsAndVars, Optimizer


class WrapperOptimizer(Optimizer):
    """Forwards all calls; slots and other variables are those of the wrapped optimizer, and its own."""

    def __init__(self, opt: Optimizer, name: str) -> None:
        """Keeps the optimizer to wrap.

        Raises:
            TypeError: If it is not an Optimizer.
        """
        if not isinstance(opt, Optimizer):
            raise TypeError(f'"opt" must be an instance of tf.train.Optimizer, but got: {opt!r}')
        super().__init__(False, name)
        self._optimizer = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        """As the wrapped optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """As the wrapped optimizer."""
        return self._optimizer.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """A slot of this optimizer, or of the wrapped one."""
        own = super().get_slot(var, name)
        return self._optimizer.get_slot(var, name) if own is None else own

    def get_slot_names(self) -> list[str]:
        """The names of the slots of both."""
        return sorted({*super().get_slot_names(), *self._optimizer.get_slot_names()})

    def variables(self) -> list[Any]:
        """The variables of both."""
        return sorted([*super().variables(), *self._optimizer.variables()], key=lambda var: str(var.name))
