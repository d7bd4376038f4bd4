"""train.AdamOptimizer: an average of the gradients, scaled by an average of their squares (arXiv:1412.6980)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import colocate_with, control_dependencies
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.math.casting import cast
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.ops.state.variables_ops import shape_tensor
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.train.optimizers.optimizer import Optimizer


@export("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam. Sparse gradients decay the averages of all rows, as if they were dense.

    Of an embedding variable they decay those of the rows that they name.

    Example:
        >>> w = tf.Variable(3.0)
        >>> step = tf.train.AdamOptimizer(0.1).minimize(tf.square(w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     print(f"{sess.run(w):.3f}")
        2.900
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one; so are the next three.
            beta1: The decay of the average of the gradients.
            beta2: The decay of the average of their squares.
            epsilon: Added to the divisor, against division by zero.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.
        """
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._lr_t: Any = None
        self._beta1_t: Any = None
        self._beta2_t: Any = None
        self._epsilon_t: Any = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # The powers are on the device of one variable, which does not depend on the order of the variables.
        first = min(var_list, key=lambda var: str(var.name))
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._tensor_of(self._lr, "learning_rate")
        self._beta1_t = self._tensor_of(self._beta1, "beta1")
        self._beta2_t = self._tensor_of(self._beta2, "beta2")
        self._epsilon_t = self._tensor_of(self._epsilon, "epsilon")

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return self._step(grad, handle, None)

    def _step(self, grad: Tensor, handle: Any, indices: Tensor | None) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        return apply_rule(
            "Adam", (handle, self.get_slot(handle, "m"), self.get_slot(handle, "v")), grad, indices, self._use_locking,
            beta1_power=beta1_power, beta2_power=beta2_power, lr=self._lr_t, beta1=self._beta1_t, beta2=self._beta2_t,
            epsilon=self._epsilon_t,
        )  # fmt: skip

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        if isinstance(handle, EmbeddingVariable):
            return self._step(grad, handle, indices)  # Nothing of the size of the table: other rows stay as they are.
        # All rows decay and move, so the step is that of a dense gradient; and one op is faster than ten.
        rows = apply_one("ExpandDims", indices, 1)
        dense = apply_one("ScatterNd", rows, grad, shape_tensor(handle.handle, indices.dtype))
        return self._resource_apply_dense(dense, handle)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        with control_dependencies(update_ops):
            powers = []
            for power, decay in zip(self._get_beta_accumulators(), (self._beta1_t, self._beta2_t), strict=True):
                with colocate_with(power):
                    decay = cast(decay, power.dtype.base_dtype)
                    powers.append(power.assign(power * decay, use_locking=self._use_locking, read_value=False))
        return constants.group(*update_ops, *powers, name=name_scope)
