"""Names of tasks and of their devices."""

from __future__ import annotations

from thalweg.graph.device_spec import DeviceSpec


def task_name(job: str, index: int) -> str:
    """The full name of a task: "/job:ps/replica:0/task:0"."""
    return f"/job:{job}/replica:0/task:{index}"


def task_of(device: str) -> str:
    """The task of a device, by their full names."""
    return device.rpartition("/device:")[0]


def short_task(task: str) -> str:
    """A task's name in messages for people: "/job:ps/task:0"."""
    return task.replace("/replica:0", "")


def job_and_index(task: str) -> tuple[str, int]:
    """The job and the index of a task, by its full name."""
    spec = DeviceSpec.from_string(task)
    if spec.job is None or spec.task is None:
        raise ValueError(f"{task!r} is not the full name of a task.")
    return spec.job, spec.task


def may_ask_for(constraint: str, job: str, index: int) -> bool:
    """Whether a partial device name asks for a task: it names its job, or its index, and nothing that differs."""
    spec = DeviceSpec.from_string(constraint)
    if spec.job is None and spec.task is None:
        return False
    return spec.job in (None, job) and spec.task in (None, index)
