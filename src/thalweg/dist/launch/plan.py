"""LaunchPlan: the tasks of a program, and the environment variables that tell each process which task it is."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from thalweg.dist.certificates import Authority
from thalweg.dist.directory import DIRECTORY_FILE
from thalweg.dist.keys import KEY, KEY_FILE
from thalweg.dist.tls import TLSOptions, tls_environment
from thalweg.train.checkpoints.end_mark import RUN
from thalweg.train.hooks.task_status import STATUS_FILE

# The job whose tasks serve the others and are stopped when these have ended.
SERVING_JOB: Final = "ps"


@dataclass(frozen=True, order=True)
class Task:
    """One task of the cluster."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job} {self.index}"

    @property
    def file_stem(self) -> str:
        """The name of the task's files: "worker-0"."""
        return f"{self.job}-{self.index}"


@dataclass(frozen=True)
class Program:
    """What the tasks run: `python script arguments`."""

    script: str
    arguments: tuple[str, ...] = ()
    serve_ps: bool = False  # PS tasks only serve: they do not run the script.

    def command(self, task: Task) -> list[str]:
        """The arguments of the Python interpreter."""
        if self.serve_ps and task.job == SERVING_JOB:
            return ["-m", "thalweg.dist.serve"]
        return [self.script, *self.arguments]


@dataclass(frozen=True)
class LaunchPlan:
    """How many tasks of which job there are, their key, and their certificates."""

    ps: int
    workers: int
    chief: bool = False
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    run: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)  # tells this run from all others
    tls: TLSOptions | None = field(default=None, repr=False)  # None: as the launcher's own environment says

    def __post_init__(self) -> None:
        """Checks the numbers."""
        if self.ps < 0 or self.workers < 0 or not self.tasks:
            raise ValueError(f"A cluster needs tasks: {self.ps} PS tasks and {self.workers} workers were asked for.")

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order in which they are started: those that others wait for come first."""
        counts = {SERVING_JOB: self.ps, "chief": int(self.chief), "worker": self.workers}
        return [Task(job, index) for job, count in counts.items() for index in range(count)]

    def cluster(self, addresses: Mapping[Task, str]) -> dict[str, list[str]]:
        """The addresses as "cluster" of TF_CONFIG has them."""
        found: dict[str, list[str]] = {}
        for task in self.tasks:
            found.setdefault(task.job, []).append(addresses[task])
        return found

    def environment(
        self, task: Task, addresses: Mapping[Task, str], directory: str = "", status: str = ""
    ) -> dict[str, str]:
        """The variables of one process.

        Args:
            task: The process's task.
            addresses: The present addresses of all tasks.
            directory: The file with the addresses of tasks that have moved since (`FileDirectory`).
            status: The file to which the process reports its steps.
        """
        config = {
            "cluster": self.cluster(addresses),
            "task": {"type": task.job, "index": task.index},
            "rpc_layer": "grpc",
        }
        return {
            "TF_CONFIG": json.dumps(config),
            KEY: self.key,
            KEY_FILE: "",
            DIRECTORY_FILE: directory,
            STATUS_FILE: status,
            RUN: self.run,
            **(tls_environment(self.tls) if self.tls is not None else {}),
            # A process whose output is a pipe would otherwise keep its lines back.
            "PYTHONUNBUFFERED": "1",
        }


def certificates_of_run() -> TLSOptions:
    """A certificate that all tasks of one run share, signed by an authority whose key is forgotten.

    As texts: they reach other hosts in the tasks' environment. Whoever has the certificate belongs to the run, wherever
    it is, so that a name takes the place of the hosts'.
    """
    name = f"{secrets.token_hex(8)}.run.thalweg"
    authority = Authority(f"authority of {name}")  # With the name of a certificate it would count as self-signed.
    return TLSOptions(*authority.sign(name, [name]), authority.certificate, name)


def label_width(tasks: Sequence[Task]) -> int:
    """The length of the longest name of a task."""
    return max(len(str(task)) for task in tasks)
