"""ClusterSpec: the jobs of a cluster, and the addresses of their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.graph.definitions.op_registry import export


@export("train.ClusterSpec")
class ClusterSpec:
    """The tasks that take part in a distributed computation, by job.

    Args:
        cluster: For each job a list of addresses, or a dictionary from task indices to addresses; or a ClusterDef, or
            a ClusterSpec.

    Example:
        >>> spec = tf.train.ClusterSpec({"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]})
        >>> spec.num_tasks("worker"), spec.task_address("worker", 1)
        (2, 'c:2222')
    """

    def __init__(self, cluster: Any) -> None:
        """See the class."""
        self._jobs = {name: _tasks(name, tasks) for name, tasks in sorted(_jobs_of(cluster).items())}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __hash__(self) -> int:
        return hash(repr(self._jobs))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    def as_dict(self) -> dict[str, Any]:
        """For each job a list of addresses, or a dictionary if indices are missing."""
        return {
            name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    def as_cluster_def(self) -> Any:
        """The cluster as a protocol buffer."""
        from tensorboard.compat.proto.cluster_pb2 import ClusterDef  # Start-up time: protobuf is slow to import.

        message = ClusterDef()
        for name, tasks in self._jobs.items():
            message.job.add(name=name, tasks=tasks)
        return message

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of a job's tasks, ascending."""
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task.

        Raises:
            ValueError: If there is no such task.
        """
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}, which has {list(tasks)}.")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job's tasks by index; None where an index is missing."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise ValueError(f"No such job in cluster: {name!r}; its jobs are {self.jobs}.")
        return self._jobs[name]


def _jobs_of(cluster: Any) -> Mapping[str, Any]:
    from tensorboard.compat.proto.cluster_pb2 import ClusterDef  # Start-up time: protobuf is slow to import.

    if isinstance(cluster, ClusterSpec):
        return cluster._jobs
    if isinstance(cluster, ClusterDef):
        return {job.name: dict(job.tasks) for job in cluster.job}
    if isinstance(cluster, Mapping):
        return cluster
    raise TypeError(
        "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a `ClusterDef` "
        f"protocol buffer, got {cluster!r}."
    )


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        tasks = dict(enumerate(tasks))
    elif not isinstance(tasks, Mapping):
        raise TypeError(f"The tasks of job {job!r} must be a list or a dictionary from int to str, got {tasks!r}.")
    found = {}
    for index, address in sorted(tasks.items()):
        if isinstance(address, bytes):
            address = address.decode()
        if not isinstance(job, str) or not isinstance(index, int) or not isinstance(address, str):
            raise TypeError(f"Task {index!r} of job {job!r} must be an int with a string as address, got {address!r}.")
        found[index] = address
    return found
