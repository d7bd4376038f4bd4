"""train.GradientDescentOptimizer: var -= rate * gradient."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.casting import cast
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.train.optimizers.optimizer import Optimizer


@export("train.GradientDescentOptimizer")
class GradientDescentOptimizer(Optimizer):
    """Gradient descent.

    Example:
        >>> w = tf.Variable([1.0, 2.0])
        >>> step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(w * w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     print(sess.run(w))
        [0. 0.]
    """

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._learning_rate_tensor: Any = None

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return apply_rule(
            "GradientDescent", [handle], grad, use_locking=self._use_locking, alpha=self._learning_rate_tensor
        )

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        if not isinstance(handle, EmbeddingVariable):
            return self._resource_apply_sparse_duplicate_indices(grad, handle, indices)
        return apply_rule("GradientDescent", [handle], grad, indices, alpha=self._learning_rate_tensor)

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        # The step is linear in the gradient, so rows with equal indices need not be summed first.
        rate = cast(self._learning_rate_tensor, grad.dtype.base_dtype)
        return apply_op("ResourceScatterAdd", handle.handle, indices, apply_one("Mul", apply_one("Neg", grad), rate))
