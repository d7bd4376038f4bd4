"""DistributedOptimizer: an optimizer whose gradients are averaged over all processes."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.tensor import Tensor
from thalweg.horovod.compression import Compression
from thalweg.horovod.operations import Average, allreduce, barrier, world_size
from thalweg.horovod.world import is_shared
from thalweg.ops.array.joining import concat, split
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.math.casting import cast
from thalweg.train.optimizers.optimizer import GradsAndVars, Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer

BUCKET_BYTES: Final = 25 << 20
"""How large a bucket of small gradients becomes at most."""
_ALONE: Final = 4 << 20  # Larger gradients gain nothing from a bucket, which costs two copies.


class DistributedOptimizer(WrapperOptimizer):
    """Computes gradients as the wrapped optimizer, and averages them over all processes.

    Small gradients travel together, in buckets of a fixed order: the same bits in every run. A bucket leaves as soon as
    its gradients are there, while the backward pass goes on with those of earlier layers.

    Variables on PS tasks are shared by all processes: each process applies its own part of the average to them, there,
    as rows if the gradient has rows. A step ends when all processes have done so.

    Example:
        >>> import thalweg.horovod as hvd
        >>> hvd.init()
        >>> x = tf.Variable(1.0)
        >>> step = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1 * hvd.size())).minimize(x * x)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(hvd.broadcast_global_variables(0))
        ...     sess.run(step)
        ...     print(sess.run(x))
        0.8
        >>> hvd.shutdown()
    """

    def __init__(
        self,
        optimizer: Optimizer,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: str = Average,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        """Wraps an optimizer.

        Args:
            optimizer: The optimizer.
            name: The scope of the averages; follows from the optimizer's class if None.
            use_locking: Without effect.
            device_dense: Without effect.
            device_sparse: Without effect.
            compression: How gradients travel: a member of `Compression`.
            sparse_as_dense: Whether to turn IndexedSlices into tensors; else their rows are gathered.
            op: `Average` or `Sum`.
            bucket_bytes: How large a bucket of small gradients becomes at most; 0: no buckets.
        """
        super().__init__(optimizer, name or f"Distributed{type(optimizer).__name__}")
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._op = op
        self._bucket_bytes = bucket_bytes

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        """The pairs of the wrapped optimizer, with gradients averaged over all processes."""
        pairs = super().compute_gradients(*args, **kwargs)
        with name_scope(f"{self.get_name()}_Allreduce"):
            return self._averaged(pairs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """As the wrapped optimizer, once all gradients are there.

        When a process is lost, each of the others has made all updates of the step or none.
        """
        pairs = list(grads_and_vars)
        awaited: list[Tensor] = []
        for grad, _ in pairs:
            if isinstance(grad, IndexedSlices):
                awaited += [grad.values, grad.indices]
            elif grad is not None:
                awaited.append(convert_to_tensor(grad))
        with control_dependencies(awaited):
            applied = super().apply_gradients(pairs, global_step, name)
        if not any(is_shared(var) for grad, var in pairs if grad is not None):
            return applied
        # The next step reads what all processes have applied.
        with control_dependencies([applied]):
            return barrier(f"{self.get_name()}_Applied")

    def _averaged(self, pairs: GradsAndVars) -> GradsAndVars:
        shared = [grad is not None and is_shared(var) for grad, var in pairs]
        found: list[Any] = [None if is_apart else grad for (grad, _), is_apart in zip(pairs, shared, strict=True)]
        if self._sparse_as_dense:
            found = [convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad for grad in found]
        for i, grad in enumerate(found):
            if isinstance(grad, IndexedSlices):
                found[i] = allreduce(grad, op=self._op, name=f"sparse_{i}")
        # The backward pass ends with the variables that were created first.
        dense = [i for i in reversed(range(len(found))) if isinstance(found[i], Tensor)]
        for number, bucket in enumerate(buckets([found[i] for i in dense], self._bucket_bytes)):
            chosen = [dense[k] for k in bucket]
            reduced = self._reduced_bucket([found[i] for i in chosen], f"bucket_{number}")
            for i, grad in zip(chosen, reduced, strict=True):
                found[i] = grad
        parts = iter(self._parts([pair[0] for pair, is_apart in zip(pairs, shared, strict=True) if is_apart]))
        found = [next(parts) if is_apart else grad for grad, is_apart in zip(found, shared, strict=True)]
        return [(grad, var) for grad, (_, var) in zip(found, pairs, strict=True)]

    def _parts(self, grads: list[Any]) -> list[Any]:
        """What this process contributes to the averages."""
        if not grads or self._op != Average:
            return grads
        size = world_size()
        found: list[Any] = []
        for grad in grads:
            values = grad.values if isinstance(grad, IndexedSlices) else grad
            part = values / cast(size, values.dtype)
            is_rows = isinstance(grad, IndexedSlices)
            found.append(IndexedSlices(part, grad.indices, grad.dense_shape) if is_rows else part)
        return found

    def _reduced_bucket(self, tensors: list[Tensor], name: str) -> list[Tensor]:
        if len(tensors) == 1:
            return [allreduce(tensors[0], op=self._op, compression=self._compression, name=name)]
        joined = concat([reshape(each, [-1]) for each in tensors], 0, name=f"{name}_join")
        reduced = allreduce(joined, op=self._op, compression=self._compression, name=name)
        parts = split(reduced, [each.shape.num_elements() for each in tensors], 0, name=f"{name}_split")
        return [reshape(part, each.shape) for part, each in zip(parts, tensors, strict=True)]


def buckets(tensors: list[Tensor], most: int) -> list[list[int]]:
    """Puts tensors together that travel as one: the indices in each bucket, which depend on shapes and types only."""
    found: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for i, tensor in enumerate(tensors):
        count = tensor.shape.num_elements()
        bytes_ = None if count is None else count * tensor.dtype.size
        if bytes_ is None or bytes_ > min(_ALONE, most):
            found.append([i])
            continue
        bucket, used = open_.get(tensor.dtype, ([], 0))
        if not bucket or used + bytes_ > most:
            bucket, used = [], 0
            found.append(bucket)
        bucket.append(i)
        open_[tensor.dtype] = (bucket, used + bytes_)
    return found
