"""Directory: where the tasks of a cluster are now. Addresses may change when a task comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from thalweg import errors
from thalweg.dist.names import task_name
from thalweg.train.cluster_spec import ClusterSpec


class Directory:
    """The tasks of a cluster and their addresses, from a ClusterSpec. Thread-safe."""

    def __init__(self, cluster: ClusterSpec) -> None:
        """Takes the cluster as it was described at the start."""
        self._lock = threading.Lock()
        self._addresses = {
            task_name(job, index): cluster.task_address(job, index)
            for job in cluster.jobs
            for index in cluster.task_indices(job)
        }

    def tasks(self) -> Iterator[str]:
        """The full names of all tasks."""
        with self._lock:
            return iter(list(self._addresses))

    def address(self, task: str) -> str:
        """The present address of a task: "host:port".

        Raises:
            errors.NotFoundError: If the cluster has no such task.
        """
        with self._lock:
            found = self._addresses.get(task)
        if found is None:
            raise errors.NotFoundError(None, None, f"The cluster has no task {task}.")
        return found

    def move(self, task: str, address: str) -> None:
        """Notes that a task is at another address now."""
        with self._lock:
            self._addresses[task] = address
