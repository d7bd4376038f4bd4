"""Directory: where the tasks of a cluster are now. Addresses may change when a task comes back."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from thalweg import errors
from thalweg.dist.names import task_name
from thalweg.platform import logging
from thalweg.train.cluster_spec import ClusterSpec

# The environment variable by which a launcher names the file of a FileDirectory.
DIRECTORY_FILE: Final = "THALWEG_DIRECTORY"


class Directory:
    """The tasks of a cluster and their addresses, from a ClusterSpec. Thread-safe."""

    def __init__(self, cluster: ClusterSpec) -> None:
        """Takes the cluster as it was described at the start."""
        self._lock = threading.Lock()
        self._addresses = _addresses(cluster)

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


class FileDirectory(Directory):
    """A Directory whose addresses a launcher keeps in a file: JSON, as "cluster" in TF_CONFIG. Thread-safe.

    The file is read again when it has changed. A launcher replaces it (`write_directory`) when a task comes back
    elsewhere. Tasks that only the file knows belong to the cluster, too; a task that the file lacks is where the
    ClusterSpec says.
    """

    def __init__(self, cluster: ClusterSpec, path: str) -> None:
        """Takes the cluster as it was described at the start, and the file's path."""
        super().__init__(cluster)
        self._path = path
        self._own: dict[str, str] = {}  # by `move`
        self._seen: tuple[int, int, int] | None = None
        self._read_if_changed()

    def tasks(self) -> Iterator[str]:
        """The full names of all tasks."""
        self._read_if_changed()
        return super().tasks()

    def address(self, task: str) -> str:
        """The present address of a task: "host:port".

        Raises:
            errors.NotFoundError: If the cluster has no such task.
        """
        self._read_if_changed()
        return super().address(task)

    def move(self, task: str, address: str) -> None:
        """Notes that a task is at another address now, in this process only: it wins over the file."""
        with self._lock:
            self._own[task] = address
            self._addresses[task] = address

    def _read_if_changed(self) -> None:
        """A file that is missing or cannot be read changes nothing: the last addresses stay."""
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            with self._lock:
                if stamp == self._seen:
                    return
                self._seen = stamp
            with open(self._path, encoding="utf-8") as file:
                found = _addresses(ClusterSpec(json.load(file)))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as e:
            logging.warning("The addresses of tasks cannot be read from %s: %s", self._path, e)
            return
        with self._lock:
            self._addresses.update(found)
            self._addresses.update(self._own)


def write_directory(path: str, cluster: Mapping[str, Sequence[str]]) -> None:
    """Replaces the file of a FileDirectory at once: a reader sees the old file, or the new one."""
    draft = f"{path}.new"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump({job: list(tasks) for job, tasks in cluster.items()}, file)
    os.replace(draft, path)


def open_directory(cluster: ClusterSpec) -> Directory:
    """The directory that the environment names (THALWEG_DIRECTORY), or the addresses of the ClusterSpec."""
    path = os.environ.get(DIRECTORY_FILE, "")
    return FileDirectory(cluster, path) if path else Directory(cluster)


def _addresses(cluster: ClusterSpec) -> dict[str, str]:
    """The address of each task, by its full name."""
    return {
        task_name(job, index): cluster.task_address(job, index)
        for job in cluster.jobs
        for index in cluster.task_indices(job)
    }
