"""Device functions for replicated training: parameters on parameter servers, the rest on a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.dtypes import as_dtype, resource
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform import logging
from thalweg.train.cluster_spec import ClusterSpec

# The types of operations that hold variables.
_STATE = (
    "Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable", "EmbeddingTableHandle",
    "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable", "MutableDenseHashTableV2", "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp", "ResourceConditionalAccumulator", "DecisionTreeResource",
)  # fmt: skip


@export("train.replica_device_setter")
def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[Any], int] | None = None,
) -> Callable[[Any], str] | None:
    """A device function for `tf.device`: it spreads variables over parameter servers, and puts the rest on a worker.

    Args:
        ps_tasks: The number of tasks of the parameter servers' job; not needed with a `cluster`.
        ps_device: Where variables go; without a job, they are not spread.
        worker_device: Where everything else goes.
        merge_devices: Whether the device of an inner `tf.device` is merged with this one; otherwise it replaces it.
        cluster: A ClusterSpec, ClusterDef or dictionary.
        ps_ops: The types of operations that are placed as variables are.
        ps_strategy: Gives the task for such an operation; by default they take turns.

    Returns:
        The function, or None if there are no parameter servers.

    Example:
        >>> with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        ...     [tf.get_variable(f"v{i}", [4]).device for i in range(3)]
        ['/job:ps/task:0', '/job:ps/task:1', '/job:ps/task:0']
    """
    if cluster is not None:
        job = DeviceSpec.from_string(ps_device).job
        described = ClusterSpec(cluster)
        if job is None or job not in described.jobs:
            return None
        ps_tasks = described.num_tasks(job)
    if ps_tasks == 0:
        return None
    if not merge_devices:
        logging.warning("DEPRECATION: It is recommended to set merge_devices=true in replica_device_setter")
    types = frozenset(_STATE if ps_ops is None else ps_ops)
    strategy = _RoundRobin(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError(f"ps_strategy must be callable, got {strategy!r}.")

    def device(op: Any) -> str:
        if op.device and not merge_devices:
            return str(op.device)
        asked = DeviceSpec.from_string(op.device or "")
        if not ps_device or op.type not in types:
            return DeviceSpec.from_string(worker_device or "").make_merged_spec(asked).to_string()
        spec = DeviceSpec.from_string(ps_device)
        if spec.job and (not asked.job or asked.job == spec.job):
            spec.task = strategy(op)
        return spec.make_merged_spec(asked).to_string()

    return device


class _RoundRobin:
    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._next = 0

    def __call__(self, op: Any) -> int:
        task, self._next = self._next, (self._next + 1) % self._tasks
        return task


@export("contrib.training.GreedyLoadBalancingStrategy")
class GreedyLoadBalancingStrategy:
    """A `ps_strategy`: the next variable goes to the task with the smallest load so far.

    Args:
        num_tasks: How many tasks there are.
        load_fn: The load of an operation, such as `byte_size_load_fn`.

    Example:
        >>> strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
        >>> with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        ...     [tf.get_variable(f"v{size}", [size]).device for size in (100, 20, 30)]
        ['/job:ps/task:0', '/job:ps/task:1', '/job:ps/task:1']
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        """See the class."""
        self._load_fn = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Any) -> int:
        """The task for an operation."""
        task = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[task] += self._load_fn(op)
        return task


@export("contrib.training.RandomStrategy")
class RandomStrategy:
    """A `ps_strategy`: the name of a variable decides, by a hash, the same in every process and every run.

    With many variables of few kinds, it avoids that taking turns puts all of one kind on the same task.

    Args:
        num_ps_tasks: How many tasks there are.
        seed: Another seed gives another placement.

    Example:
        >>> strategy = tf.contrib.training.RandomStrategy(num_ps_tasks=2)
        >>> with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        ...     [tf.get_variable(f"v{i}", [4]).device for i in range(3)]
        ['/job:ps/task:1', '/job:ps/task:0', '/job:ps/task:0']
    """

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        """See the class."""
        self._num_tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op: Any) -> int:
        """The task for an operation."""
        digest = hashlib.md5(f"{op.name}_{self._seed}".encode(), usedforsecurity=False)
        return int(digest.hexdigest(), 16) % self._num_tasks


@export("contrib.training.byte_size_load_fn")
def byte_size_load_fn(op: Any) -> int:
    """The size in bytes of a variable, given its operation.

    Raises:
        ValueError: If its shape is not known.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op!r} must have a single output, it has {len(op.outputs)}.")
    output = op.outputs[0]
    held = output.dtype.base_dtype is resource
    shape = TensorShape(op.get_attr("shape")) if held else output.shape
    dtype = as_dtype(op.get_attr("dtype")) if held else output.dtype
    elements = shape.num_elements()
    if elements is None:
        raise ValueError(f"The shape {shape} of {op.name!r} must be fully defined.")
    return int(elements * (dtype.size or 0))
