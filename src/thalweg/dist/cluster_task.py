"""tf.distribute.start_task: this process as the task that its launcher's environment variables describe."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from thalweg import errors
from thalweg.dist.server import Server
from thalweg.dist.tensorflow_clients import TensorFlowClients
from thalweg.graph.default_graph import device
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import string
from thalweg.graph.graph import Graph
from thalweg.ops.state.queues import FIFOQueue
from thalweg.runtime.session import Session
from thalweg.train.cluster_resolver.cluster_resolver import ClusterResolver
from thalweg.train.cluster_resolver.rank_resolvers import OpenMPIClusterResolver, SlurmClusterResolver
from thalweg.train.cluster_resolver.tf_config import TFConfigClusterResolver, read_tf_config
from thalweg.train.cluster_spec import ClusterSpec

# Jobs whose tasks hold state for others, and end when no other task needs it.
_SERVING_JOBS: Final = ("ps",)
_LEAVE_SECONDS: Final = 10.0


@export("distribute.ClusterTask")
class ClusterTask(NamedTuple):
    """What `tf.distribute.start_task` gives: the server, the cluster, the job's name and the task's index."""

    server: Server
    cluster: ClusterSpec
    job_name: str
    task_index: int

    @property
    def is_chief(self) -> bool:
        """Whether this task initializes and saves the model: "chief" (or "master"), or the first other task."""
        for job in ("chief", "master"):
            if job in self.cluster.jobs:
                return self.job_name == job
        return self.job_name not in _SERVING_JOBS and self.task_index == min(self.cluster.task_indices(self.job_name))

    @property
    def device(self) -> str:
        """The device name of this task: "/job:worker/task:0"."""
        return f"/job:{self.job_name}/task:{self.task_index}"

    def serve(self, clients: int | None = None) -> None:
        """Serves until other tasks have called `leave`, or the process is stopped: the whole program of a PS task.

        Launchers that wait for every process (mpirun, srun) end so. `thalweg launch` stops PS tasks by itself.

        Args:
            clients: How many tasks leave before the end; all that are no PS tasks if None.
        """
        if clients is None:
            clients = sum(self.cluster.num_tasks(job) for job in self.cluster.jobs if job not in _SERVING_JOBS)
        with Graph().as_default():
            departure = _departures(self.job_name, self.task_index).dequeue()
            with Session(self.server.target) as session:
                for _ in range(clients):
                    session.run(departure)

    def leave(self, jobs: Sequence[str] = _SERVING_JOBS) -> None:
        """Tells other tasks, which are in `serve`, that this one has ended; who cannot be reached in 10 s is not told.

        Args:
            jobs: The jobs to tell.
        """
        tasks = [(job, index) for job in jobs if job in self.cluster.jobs for index in self.cluster.task_indices(job)]
        others = [task for task in tasks if task != (self.job_name, self.task_index)]
        # At the same time, and each with a session of its own: a task that has been told may end before it answers,
        # and one that is gone must not keep the others from being told.
        threads = [threading.Thread(target=self._tell, args=task) for task in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _tell(self, job: str, index: int) -> None:
        """Notes the departure of this task at another one, if that can be reached."""
        with Graph().as_default():
            departure = _departures(job, index).enqueue(self.device)
            session = Session(self.server.target)
            limit = threading.Timer(_LEAVE_SECONDS, session.close)
            limit.start()
            try:
                session.run(departure)
            except errors.OpError:
                pass  # The task has ended, with or without the note, or was not reached within the limit.
            finally:
                limit.cancel()
                limit.join()
                session.close()


@export("distribute.start_task")
def start_task(
    num_ps: int = 0,
    config: Any = None,
    port_base: int = 8888,
    protocol: str | None = None,
    tensorflow_clients: bool | TensorFlowClients = False,
) -> ClusterTask:
    """Starts this process's `tf.train.Server`, as the task that the environment describes.

    TF_CONFIG decides if it is set (`thalweg launch`, Kubernetes, Ray); else the variables of Slurm's `srun` or of
    an MPI's `mpirun`, whose first `num_ps` ranks are PS tasks. Without any of these the process is a cluster alone.

    Args:
        num_ps: For ranks: how many of them are tasks of job "ps"; the others are workers.
        config: A ConfigProto for the server.
        port_base: For ranks: the port of the first task of each host.
        protocol: The protocol of the server.
        tensorflow_clients: Whether TensorFlow's own sessions may connect to the server, too, or limits for them.

    Returns:
        A ClusterTask: a tuple of server, cluster, job_name and task_index, with `is_chief`, `device`, `serve()` and
        `leave()`.

    Raises:
        ValueError: If the variables do not say which task this is.

    Example:
        >>> task = tf.distribute.start_task()
        >>> server, cluster, job_name, task_index = task
        >>> job_name, task_index, task.is_chief
        ('local', 0, True)
        >>> if job_name == "ps":
        ...     server.join()
        >>> with tf.device(tf.train.replica_device_setter(worker_device=task.device, cluster=cluster)):
        ...     v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        >>> with tf.train.MonitoredTrainingSession(server.target, task.is_chief) as session:
        ...     print(session.run(v))
        1.0
        >>> server.stop()
    """
    resolver = _resolver(num_ps, port_base)
    if resolver is None:
        server = Server(
            {"local": ["localhost:0"]}, config=config, protocol=protocol, tensorflow_clients=tensorflow_clients
        )
        return ClusterTask(server, ClusterSpec({"local": [server.target.partition("://")[2]]}), "local", 0)
    cluster = resolver.cluster_spec()
    job, index = resolver.task_type, resolver.task_id
    if job is None or index is None:
        raise ValueError(f"The environment describes {cluster}, but not which of its tasks this process is.")
    server = Server(cluster, job, index, protocol, config, tensorflow_clients=tensorflow_clients)
    return ClusterTask(server, cluster, job, index)


def _resolver(num_ps: int, port_base: int) -> ClusterResolver | None:
    """The resolver for the variables that are set; None if the process was started alone."""
    if read_tf_config().get("cluster"):
        return TFConfigClusterResolver()
    kind: type[OpenMPIClusterResolver | SlurmClusterResolver]
    if "SLURM_PROCID" in os.environ or ("SLURM_JOB_ID" in os.environ and "OMPI_COMM_WORLD_RANK" in os.environ):
        kind = SlurmClusterResolver
    elif "OMPI_COMM_WORLD_RANK" in os.environ or "PMI_RANK" in os.environ:
        kind = OpenMPIClusterResolver
    else:
        return None
    if not num_ps:
        return kind(port_base=port_base)
    ranks = kind(port_base=port_base).cluster_spec().num_tasks("worker")
    return kind({"ps": num_ps, "worker": ranks - num_ps}, port_base=port_base)


def _departures(job: str, index: int) -> FIFOQueue:
    """The queue on a PS task in which workers note that they have ended."""
    with device(f"/job:{job}/task:{index}"):
        return FIFOQueue(-1, [string], shapes=[[]], shared_name=f"thalweg_departures_{job}_{index}")
