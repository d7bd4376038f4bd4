"""ClusterSpec: the jobs of a cluster, and the addresses of their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export

# A limit for specs that come from elsewhere: `job_tasks` lists every index up to the highest.
_MOST_TASKS: Final = 1 << 20


@export("train.ClusterSpec")
class ClusterSpec:
    """The tasks that take part in a distributed computation, by job.

    Args:
        cluster: For each job a list of addresses, or a dictionary from task indices to addresses, which may leave out
            tasks that this process does not talk to; or a ClusterDef, or a ClusterSpec.

    Raises:
        TypeError: If it is none of these, or a name or an address is no string.
        ValueError: If a task index is negative, or above a million.

    Example:
        >>> spec = tf.train.ClusterSpec({"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]})
        >>> spec.num_tasks("worker"), spec.task_address("worker", 1)
        (2, 'c:2222')
        >>> tf.train.ClusterSpec({"worker": {1: "c:2222"}}).job_tasks("worker")
        [None, 'c:2222']
    """

    def __init__(self, cluster: Any) -> None:
        """See the class."""
        self._jobs = {_text(name, "Job name"): _tasks(name, tasks) for name, tasks in _jobs_of(cluster).items()}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        """Whether the tasks and their addresses are the same; `other` may be a dictionary as for the constructor."""
        if isinstance(other, ClusterSpec):
            return self._jobs == other._jobs
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return self._jobs == ClusterSpec(other)._jobs
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(frozenset((name, *tasks.items()) for name, tasks in self._jobs.items()))

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"

    def as_dict(self) -> dict[str, Any]:
        """For each job a list of addresses, or a dictionary if indices are missing."""
        return {
            name: list(tasks.values()) if tasks and len(tasks) == max(tasks) + 1 else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    def as_cluster_def(self) -> Any:
        """The cluster as a protocol buffer, with the jobs in the order of their names."""
        from tensorboard.compat.proto.cluster_pb2 import ClusterDef  # Start-up time: protobuf is slow to import.

        message = ClusterDef()
        for name, tasks in sorted(self._jobs.items()):
            message.job.add(name=name, tasks=tasks)
        return message

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has.

        Raises:
            ValueError: If there is no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of a job's tasks, ascending.

        Raises:
            ValueError: If there is no such job.
        """
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
        """The addresses of a job's tasks by index; None where an index is missing.

        Raises:
            ValueError: If there is no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise ValueError(f"No such job in cluster: {name!r}; its jobs are {self.jobs}.")
        return self._jobs[name]


def _jobs_of(cluster: Any) -> Mapping[Any, Any]:
    if isinstance(cluster, ClusterSpec):
        return cluster._jobs
    if isinstance(cluster, Mapping):
        return cluster
    from tensorboard.compat.proto.cluster_pb2 import ClusterDef  # Start-up time: protobuf is slow to import.

    if isinstance(cluster, ClusterDef):
        return {job.name: dict(job.tasks) for job in cluster.job}
    raise TypeError(
        "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a `ClusterDef` "
        f"protocol buffer, got {cluster!r}."
    )


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    """The addresses of a job's tasks by index, ascending."""
    if isinstance(tasks, (list, tuple)):
        tasks = dict(enumerate(tasks))
    elif not isinstance(tasks, Mapping):
        raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to strings: {tasks!r}")
    found = {_index(job, index): _text(address, "Task address") for index, address in tasks.items()}
    if len(found) < len(tasks):
        raise ValueError(f"The tasks for job {job!r} name an index twice: {list(tasks)}")
    return dict(sorted(found.items()))


def _index(job: str, index: Any) -> int:
    try:
        number = int(index)  # The keys of JSON are strings.
    except (TypeError, ValueError):
        raise TypeError(f"The task indices of job {job!r} must be integers, got {index!r}.") from None
    if isinstance(index, (bool, float)):
        raise TypeError(f"The task indices of job {job!r} must be integers, got {index!r}.")
    if not 0 <= number < _MOST_TASKS:
        raise ValueError(f"Task index {index!r} of job {job!r} is not between 0 and {_MOST_TASKS - 1}.")
    return number


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} must be bytes or unicode")
    return value
