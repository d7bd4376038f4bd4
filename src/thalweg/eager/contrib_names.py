"""The rest of tf.contrib.eager: constants, devices, savers, and names for what is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from thalweg.autodiff.custom_gradient import custom_gradient
from thalweg.eager import mode
from thalweg.eager.tape import GradientTape
from thalweg.graph.default_graph import eager_graph, executing_eagerly
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.ops.flow.py_func import py_function
from thalweg.runtime.eager_queue import open_queue
from thalweg.state.variable import Variable

for _name in (
    "SYNC", "ASYNC", "DEVICE_PLACEMENT_EXPLICIT", "DEVICE_PLACEMENT_WARN", "DEVICE_PLACEMENT_SILENT",
    "DEVICE_PLACEMENT_SILENT_FOR_INT32",
):  # fmt: skip
    export_value(getattr(mode, _name), f"contrib.eager.{_name}")
for _name in ("execution_mode", "set_execution_mode", "enable_eager_execution"):
    export_value(getattr(mode, _name), f"contrib.eager.{_name}")
export_value(executing_eagerly, "contrib.eager.executing_eagerly", "contrib.eager.in_eager_mode")
export_value(custom_gradient, "contrib.eager.custom_gradient")
export_value(GradientTape, "contrib.eager.GradientTape")
export_value(Variable, "contrib.eager.Variable")
export_value(TensorSpec, "contrib.eager.TensorSpec")
export_value(py_function, "contrib.eager.py_func")


@export("contrib.eager.in_graph_mode")
def in_graph_mode() -> bool:
    """Whether ops join a graph here."""
    return not executing_eagerly()


@export("contrib.eager.list_devices")
def list_devices() -> list[str]:
    """The full names of the devices on which ops run at once."""
    return list(eager_graph().executor.context.devices)  # type: ignore[attr-defined]


@export("contrib.eager.num_gpus")
def num_gpus() -> int:
    """How many of them are GPUs."""
    return sum("/device:GPU:" in name for name in list_devices())


@export("contrib.eager.connect_to_remote_host")
def connect_to_remote_host(remote_host: str | None = None, job_name: str = "worker") -> None:
    """Lets `tf.device("/job:worker/task:1")` run ops and functions on the tasks of a cluster.

    What they return stays on the task until somebody looks at it.

    Args:
        remote_host: The target of any server of the cluster (`server.target`), or its address; None ends the
            connection: values that are on the tasks are gone.
        job_name: Has no effect: the server knows the jobs.

    Raises:
        errors.OpError: If there is no server.

    Example:
        >>> workers, _ = tf.test.create_local_cluster(num_workers=2, num_ps=0)
        >>> with tf.eager():
        ...     tf.contrib.eager.connect_to_remote_host(workers[0].target)
        ...     with tf.device("/job:worker/task:1"):
        ...         x = tf.add([1.0, 2.0], 1.0)
        ...         y = x * x  # Both are on the task.
        ...     print(y.numpy())
        ...     tf.contrib.eager.connect_to_remote_host(None)
        [4. 9.]
        >>> for server in workers:
        ...     server.stop()
    """
    target = remote_host if remote_host is None or "://" in remote_host else f"grpc://{remote_host}"
    eager_graph().executor.connect_tasks(target)  # type: ignore[attr-defined]


@export("contrib.eager.async_wait")
def async_wait() -> None:
    """Returns when all ops that this thread has called have run.

    Raises:
        errors.OpError: In asynchronous mode, if one of them has failed.
    """
    if open_queue.queue is not None:
        open_queue.queue.wait()


@export("contrib.eager.async_clear_error")
def async_clear_error() -> None:
    """Forgets the error of an op in asynchronous mode, so that ops can be called again."""
    if open_queue.queue is not None:
        open_queue.queue.clear_error()


class ExecutionCallback:
    """What to do about a value that is not a number, or infinite."""

    IGNORE = "ignore"
    PRINT = "print"
    RAISE = "raise"
    WARN = "warn"


export_value(ExecutionCallback, "contrib.eager.ExecutionCallback")


@export("contrib.eager.get_optimizer_variables")
def get_optimizer_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimizer keeps."""
    found: list[Any] = optimizer.variables()
    return found


@export("contrib.eager.restore_variables_on_create")
@contextmanager
def restore_variables_on_create(save_path: str | None, map_func: Callable[[str], str] | None = None) -> Iterator[None]:
    """A block whose new variables get the values that a checkpoint has under their names.

    Args:
        save_path: The prefix of the checkpoint; None for none.
        map_func: From a variable's name to its name in the checkpoint.
    """
    if save_path is None:
        yield
        return
    from thalweg.graph.apply import apply_list  # Start-up time: rarely needed.
    from thalweg.state.creators import variable_creator_scope  # Start-up time: rarely needed.

    def restored(next_creator: Any, **kwargs: Any) -> Any:
        variable = next_creator(**kwargs)
        name = variable.op.name if map_func is None else map_func(variable.op.name)
        variable.assign(apply_list("RestoreV2", save_path, [name], [""], dtypes=[variable.dtype])[0])
        return variable

    with variable_creator_scope(restored):
        yield


@export("contrib.eager.Saver")
class Saver:
    """Saves variables under their names, in TensorFlow's format, where ops run at once."""

    def __init__(self, var_list: Any) -> None:
        """Takes variables: a list, or a dictionary by name.

        Raises:
            RuntimeError: If ops do not run at once here.
        """
        if not executing_eagerly():
            raise RuntimeError("tfe.Saver can only be used when eager execution is enabled. Use tf.train.Saver.")
        named = var_list.items() if isinstance(var_list, dict) else ((v.op.name, v) for v in var_list)
        self._variables = dict(named)

    def save(self, file_prefix: str, global_step: Any = None) -> str:
        """Writes a checkpoint; returns its prefix."""
        from thalweg.graph.apply import apply_op  # Start-up time: rarely needed.

        path = file_prefix if global_step is None else f"{file_prefix}-{int(np.asarray(global_step))}"
        values = [variable.read_value() for variable in self._variables.values()]
        apply_op("SaveV2", path, list(self._variables), [""] * len(values), values)
        return path

    def restore(self, file_prefix: str) -> None:
        """Gives the variables the values of a checkpoint."""
        from thalweg.graph.apply import apply_list  # Start-up time: rarely needed.

        types = [variable.dtype for variable in self._variables.values()]
        values = apply_list("RestoreV2", file_prefix, list(self._variables), [""] * len(types), dtypes=types)
        for variable, value in zip(self._variables.values(), values, strict=True):
            variable.assign(value)
