"""Resolvers for processes that a scheduler has numbered: SlurmClusterResolver, OpenMPIClusterResolver."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.train.cluster_resolver.cluster_resolver import ClusterResolver
from thalweg.train.cluster_resolver.slurm_lists import deal_ranks, expand_counts, expand_hosts
from thalweg.train.cluster_spec import ClusterSpec

_LAST_PORT: Final = 65535
_MOST_RANKS: Final = 1 << 30
_TASKS_OF_JOB: Final = ("SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE")


class _RankClusterResolver(ClusterResolver):
    """Gives the ranks of a scheduler to jobs: in the order of the jobs' names, and of the hosts."""

    def __init__(self, jobs: Mapping[str, int] | None, rank: int, size: int, port_base: int, rpc_layer: str) -> None:
        self._rank = rank
        self._jobs = dict(sorted(({"worker": size} if jobs is None else dict(jobs)).items()))
        self._port_base = port_base
        self.rpc_layer = rpc_layer
        for job, count in self._jobs.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise ValueError(f"The number of tasks of job {job!r} must be an integer from 0, got {count!r}.")
        if sum(self._jobs.values()) != size:
            raise RuntimeError(f"The jobs {self._jobs} have {sum(self._jobs.values())} tasks, but {size} were started.")
        if not 0 <= rank < size:
            raise ValueError(f"The rank of this process is {rank}, of {size}.")
        first = 0
        for job, count in self._jobs.items():
            if first <= rank < first + count:
                self.task_type, self.task_id = job, rank - first
            first += count

    def _tasks_of_hosts(self) -> list[tuple[str, int]]:
        """Each host with the number of its tasks, in the order of the ranks."""
        raise NotImplementedError

    def _run_length(self) -> int:
        """How many ranks in a row are on a host before the next host's turn; enough for all of them by default."""
        return _MOST_RANKS

    def _places(self) -> list[tuple[str, int]]:
        """The host of each rank, and its number among the tasks of that host."""
        tasks = self._tasks_of_hosts()
        for host, count in tasks:
            last = self._port_base + count - 1
            if not 0 < self._port_base <= last <= _LAST_PORT:
                raise ValueError(f"{count} tasks on {host!r} need the ports {self._port_base} to {last}.")
        places = deal_ranks([count for _, count in tasks], self._run_length())
        return [(tasks[index][0], local) for index, local in places]

    def cluster_spec(self) -> ClusterSpec:
        """The jobs with the addresses of their tasks.

        Raises:
            ValueError: If the scheduler's variables do not describe as many tasks as there are.
        """
        addresses = [f"{host}:{self._port_base + local}" for host, local in self._places()]
        needed = sum(self._jobs.values())
        if len(addresses) < needed:
            raise ValueError(f"The hosts have {len(addresses)} tasks, but the jobs {self._jobs} need {needed}.")
        left = iter(addresses)
        return ClusterSpec({job: [next(left) for _ in range(count)] for job, count in self._jobs.items()})

    def get_task_info(self) -> tuple[str | None, int | None]:
        """The job and the task index of this process."""
        return self.task_type, self.task_id

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task; by default that of this process."""
        return self._task_master(self.cluster_spec(), task_type, task_id, rpc_layer) or ""


@export("distribute.cluster_resolver.SlurmClusterResolver", "contrib.cluster_resolver.SlurmClusterResolver")
class SlurmClusterResolver(_RankClusterResolver):
    """Reads the variables that Slurm gives to the tasks of `srun` (or Open MPI's, for `mpirun` in an allocation).

    Ranks go to the jobs in the order of their names; the tasks of a host get consecutive ports. It only reads: no
    command of Slurm is run.

    Example:
        >>> os.environ.update({
        ...     "SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "n[1-2]",
        ...     "SLURM_STEP_TASKS_PER_NODE": "2,1",
        ... })
        >>> resolver = tf.distribute.cluster_resolver.SlurmClusterResolver({"ps": 1, "worker": 2})
        >>> resolver.cluster_spec()
        ClusterSpec({'ps': ['n1:8888'], 'worker': ['n1:8889', 'n2:8888']})
        >>> resolver.get_task_info(), resolver.master()
        (('worker', 1), 'grpc://n2:8888')
        >>> for name in [name for name in os.environ if name.startswith("SLURM_")]:
        ...     del os.environ[name]
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | str | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        """Creates a resolver.

        Args:
            jobs: For each job the number of its tasks; one job `worker` of all tasks if None.
            port_base: The port of the first task of each host.
            gpus_per_node: The number of GPUs of a host; none if None.
            gpus_per_task: The number of GPUs of a task; all of a host divided among its tasks if None.
            tasks_per_node: The number of tasks of each host; Slurm's variables say it if None.
            auto_set_gpu: Whether `cluster_spec` restricts this process to its GPUs, by CUDA_VISIBLE_DEVICES.
            rpc_layer: The scheme of targets.

        Raises:
            RuntimeError: If the tasks are not as many as Slurm has started, or want more GPUs than a host has.
            ValueError: If a variable is missing, or not what Slurm writes.
        """
        # mpirun starts a daemon on each other host by srun: variables of a step describe these, and not the ranks.
        self._mpi = mpi = "OMPI_COMM_WORLD_RANK" in os.environ
        rank = _number("OMPI_COMM_WORLD_RANK" if mpi else "SLURM_PROCID")
        size = _number("OMPI_COMM_WORLD_SIZE") if mpi else _number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
        super().__init__(jobs, rank, size, port_base, rpc_layer)
        self._size = size
        self._tasks_per_node = tasks_per_node
        self._gpus_per_node = gpus_per_node or 0
        self._gpus_per_task = gpus_per_task
        self._auto_set_gpu = auto_set_gpu
        most = max((count for _, count in self._tasks_of_hosts()), default=0)
        if (gpus_per_task or 0) * most > self._gpus_per_node:
            raise RuntimeError(
                f"{most} tasks on a node with {gpus_per_task} GPUs each need more than its {self._gpus_per_node} GPUs."
            )

    def _resolve_hostnames(self) -> list[str]:
        """The hosts of the step; with mpirun those of the job."""
        names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
        return expand_hosts(_variable(*(reversed(names) if self._mpi else names)))

    def _tasks_of_hosts(self) -> list[tuple[str, int]]:
        hosts = self._resolve_hostnames()
        given: Any = self._tasks_per_node
        if given is None and len(hosts) == 1:
            return [(hosts[0], self._size)]
        if given is None and self._mpi:
            return self._tasks_of_mpirun(hosts)
        if given is None:
            given = _variable("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
        return list(zip(hosts, _counts_of(hosts, str(given)), strict=True))

    def _tasks_of_mpirun(self, hosts: Sequence[str]) -> list[tuple[str, int]]:
        """Hosts are filled one after the other. How far is known where mpirun runs, and has to be guessed elsewhere."""
        local = _number("OMPI_COMM_WORLD_LOCAL_RANK"), _number("OMPI_COMM_WORLD_LOCAL_SIZE")
        guesses = [str(local[1])] if local[1] * len(hosts) == self._size else []
        names = ("SLURM_JOB_CPUS_PER_NODE",) if "SLURM_PROCID" in os.environ else _TASKS_OF_JOB
        guesses += [os.environ[name] for name in names if os.environ.get(name)]
        for guess in guesses:
            found, left = [], self._size
            for count in _counts_of(hosts, guess):
                found.append(min(count, left))
                left -= found[-1]
            places = deal_ranks(found, _MOST_RANKS)
            if left == 0 and (places[self._rank][1], found[places[self._rank][0]]) == local:
                return list(zip(hosts, found, strict=True))
        raise ValueError(
            f"Open MPI does not say how many of its {self._size} processes are on each of {len(hosts)} hosts: start "
            "them by srun, or give `tasks_per_node`."
        )

    def _run_length(self) -> int:
        """As srun's option --distribution says."""
        # "cyclic:block" is also about the sockets of a host, and "block,Pack" about filling hosts.
        kind = os.environ.get("SLURM_DISTRIBUTION", "").replace(",", ":").partition(":")[0].partition("=")[0].lower()
        if self._mpi or kind not in ("cyclic", "plane"):
            return _MOST_RANKS
        return _number("SLURM_DIST_PLANESIZE") if kind == "plane" else 1

    def _places(self) -> list[tuple[str, int]]:
        places = super()._places()
        numbers = ("SLURM_NODEID", "SLURM_LOCALID")
        if self._mpi or self._rank >= len(places) or not all(os.environ.get(name) for name in numbers):
            return places
        node, local = (_number(name) for name in numbers)
        hosts = self._resolve_hostnames()
        if node >= len(hosts) or places[self._rank] != (hosts[node], local):
            raise ValueError(
                f"Rank {self._rank} is task {local} of node {node} of {os.environ.get('SLURM_STEP_NODELIST')!r}, which "
                "is neither a block, a cyclic nor a plane distribution. Use `srun --distribution=block`."
            )
        return places

    def cluster_spec(self) -> ClusterSpec:
        """The jobs with the addresses of their tasks."""
        spec = super().cluster_spec()
        if self._auto_set_gpu and self._gpus_per_node:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self._own_gpus()))
        return spec

    def _own_gpus(self) -> range:
        """The GPUs of this process on its host."""
        places = self._places()
        if self._rank >= len(places):
            return range(0)
        host, local = places[self._rank]
        each = self._gpus_per_task
        if each is None:
            each = self._gpus_per_node // dict(self._tasks_of_hosts())[host]
        return range(local * each, (local + 1) * each)


@export("distribute.cluster_resolver.OpenMPIClusterResolver")
class OpenMPIClusterResolver(_RankClusterResolver):
    """Reads the rank variables that Open MPI's `mpirun` gives to its processes. No MPI library is needed.

    Those of MPICH's `mpiexec` (PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS) are read if the others are missing.
    Open MPI does not tell the hosts: name them for a run on several, in the order of the ranks.

    Example:
        >>> names = {"RANK": "1", "SIZE": "3", "LOCAL_SIZE": "3"}
        >>> os.environ.update({f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()})
        >>> resolver = tf.distribute.cluster_resolver.OpenMPIClusterResolver({"ps": 1, "worker": 2})
        >>> resolver.cluster_spec(), resolver.get_task_info()
        (ClusterSpec({'ps': ['localhost:8888'], 'worker': ['localhost:8889', 'localhost:8890']}), ('worker', 0))
        >>> for name in names:
        ...     del os.environ[f"OMPI_COMM_WORLD_{name}"]
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        hosts: Sequence[str] | None = None,
        port_base: int = 8888,
        tasks_per_node: int | None = None,
        rpc_layer: str = "grpc",
    ) -> None:
        """Creates a resolver.

        Args:
            jobs: For each job the number of its tasks; one job `worker` of all processes if None.
            hosts: The hosts in the order of the ranks; only `localhost` if None.
            port_base: The port of the first task of each host.
            tasks_per_node: The number of processes of each host; as many as on this one if None.
            rpc_layer: The scheme of targets.

        Raises:
            RuntimeError: If the tasks are not as many as there are processes.
            ValueError: If a variable is missing or no number, or there are several hosts that are not named.
        """
        size = _number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
        super().__init__(jobs, _number("OMPI_COMM_WORLD_RANK", "PMI_RANK"), size, port_base, rpc_layer)
        here = tasks_per_node
        if here is None:
            here = _number("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
        if isinstance(here, bool) or not isinstance(here, int) or here < 1:
            raise ValueError(f"tasks_per_node must be a positive integer, got {here!r}.")
        if hosts is None and here < size:
            raise ValueError(f"{here} of {size} processes are on this host: name all `hosts`, in the order of ranks.")
        self._hosts = ["localhost"] if hosts is None else list(hosts)
        self._tasks_per_node = here
        self._size = size

    def _tasks_of_hosts(self) -> list[tuple[str, int]]:
        """Each host with the number of its tasks; the last one may have fewer than the others."""
        found, left = [], self._size
        for host in self._hosts:
            found.append((host, min(left, self._tasks_per_node)))
            left -= found[-1][1]
        return [(host, count) for host, count in found if count]


def _counts_of(hosts: Sequence[str], text: str) -> list[int]:
    """The number of tasks of each host; a single number counts for all of them."""
    counts = expand_counts(text)
    if len(counts) == 1:
        counts *= len(hosts)
    if len(counts) != len(hosts):
        raise ValueError(f"There are {len(hosts)} hosts, but tasks per node for {len(counts)}: {text!r}.")
    return counts


def _variable(*names: str) -> str:
    """The first of the variables that is set."""
    for name in names:
        if os.environ.get(name):
            return os.environ[name]
    raise ValueError(f"This process was not started by the scheduler: {' or '.join(names)} is not set.")


def _number(*names: str) -> int:
    text = _variable(*names).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{' or '.join(names)} must be a number from 0, got {text!r}.")
    return int(text)
