"""The processes that train together: init, rank, size, and a new world after a loss."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, Final

from thalweg.dist.cluster_task import start_task
from thalweg.dist.names import task_name
from thalweg.dist.server import Server
from thalweg.graph.device_spec import DeviceSpec
from thalweg.train.cluster_spec import ClusterSpec

WORLD: Final = -1
"""The number of the collective group of all processes."""
_PROCESS: Final = "device:PROCESS:0"  # the core's name of the member of a group without a size in its nodes
_JOBS: Final = ("chief", "local", "master", "worker")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class _World:
    def __init__(self, server: Server, cluster: ClusterSpec, job: str, index: int, owns_server: bool) -> None:
        self.server = server
        self.owns_server = owns_server
        self.cluster = cluster
        self.own = task_name(job, index)
        self.groups = server.collective_groups
        self.all_tasks = [
            task_name(each, i) for each in _JOBS if each in cluster.jobs for i in cluster.task_indices(each)
        ]

    @property
    def tasks(self) -> list[str]:
        """The tasks by rank: those that the group was last formed of, or all of the cluster."""
        return [member.task for member in self.groups.open_groups.members(WORLD)] or self.all_tasks

    def open(self) -> None:
        """Lets the world go on without processes that are lost, and admit them when they are back."""
        self.groups.open_groups.open(WORLD, self.all_tasks)

    @property
    def is_whole(self) -> bool:
        """Whether the processes are connected, and none of them is lost."""
        return bool(self.groups.native.members(WORLD))

    def local_ranks(self) -> list[int]:
        """The ranks of the tasks on this host."""
        hosts = [self._host(task) for task in self.tasks]
        return [rank for rank, host in enumerate(hosts) if host == self._host(self.own)]

    def _host(self, task: str) -> str:
        host = self.groups.address(task).rpartition(":")[0].strip("[]")
        return "localhost" if host in _LOOPBACK else host


_lock = threading.Lock()
_world: _World | None = None


def init(server: Any = None) -> None:
    """Makes this process a task of its cluster, which is all that the other functions need; a second call does nothing.

    The cluster is read as by `tf.distribute.start_task`: from TF_CONFIG, or from the variables of an MPI or of Slurm;
    without any of them this process is alone. Tasks of job "ps" take no part. Sessions need no target: their collective
    ops use this task.

    Args:
        server: A `tf.train.Server` that the process has started itself, to be used instead.

    Raises:
        ValueError: If the variables are wrong, or this process is of another job.
    """
    global _world
    with _lock:
        if _world is not None:
            return
        owns_server = server is None
        if owns_server:
            server, cluster, job, index = start_task()
        else:
            definition = server.server_def
            cluster, job, index = ClusterSpec(definition.cluster), definition.job_name, definition.task_index
        if job not in _JOBS:
            if owns_server:
                server.stop()
            raise ValueError(f"This process is a task of job '{job}'; only those of {', '.join(_JOBS)} take part.")
        _world = _World(server, cluster, job, index, owns_server)
        _world.groups.native.declare(WORLD, len(_world.all_tasks))
        _world.groups.native.set_default()
        atexit.register(_leave_at_exit)


def is_shared(var: Any) -> bool:
    """Whether a variable lives on a task that takes no part, such as a PS task: all processes share it."""
    job = DeviceSpec.from_string(var.device or "").job
    return job is not None and job not in _JOBS and job in world().cluster.jobs


def world() -> _World:
    """The world of this process.

    Raises:
        ValueError: If there is none.
    """
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def _leave_at_exit() -> None:
    """A program that ends with an exception does not leave: it is lost, and others may go on without it."""
    if not hasattr(sys, "last_value"):
        shutdown()


def shutdown() -> None:
    """Ends what `init` began; called by itself when the program ends without an exception.

    Other processes finish the operations that this one has taken part in. Those that need more of it fail with
    FailedPreconditionError.
    """
    global _world
    with _lock:
        ended, _world = _world, None
    if ended is not None:
        atexit.unregister(_leave_at_exit)
        ended.groups.open_groups.leave(WORLD)
        ended.groups.native.clear_default()
        if ended.owns_server:
            ended.server.stop()


def is_initialized() -> bool:
    """Whether `init` has been called."""
    return _world is not None


def size() -> int:
    """How many processes train together."""
    return len(world().tasks)


def rank() -> int:
    """The number of this process among all, from 0."""
    found = world()
    return found.tasks.index(found.own)


def local_size() -> int:
    """How many of the processes are on this host."""
    return len(world().local_ranks())


def local_rank() -> int:
    """The number of this process among those on this host, from 0."""
    return world().local_ranks().index(rank())


def server() -> Server:
    """The `tf.train.Server` of this process."""
    return world().server


def reinit() -> None:
    """Goes on with the processes that are left, after one was lost: rank and size change, ranks stay in order.

    All survivors call it, when an operation has failed with UnavailableError. The operations in the graph stay valid.
    State is the caller's: `broadcast_global_variables(0)` takes it from the first survivor.

    Raises:
        errors.UnavailableError: If the survivors do not agree within a minute.
    """
    found = world()
    found.groups.open_groups.reform(WORLD, _PROCESS, found.tasks)
