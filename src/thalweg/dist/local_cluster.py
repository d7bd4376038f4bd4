"""tf.test.create_local_cluster: a whole cluster in this process, for tests."""

from __future__ import annotations

from typing import Any

from thalweg.dist.ports import free_ports
from thalweg.dist.server import Server
from thalweg.graph.definitions.op_registry import export
from thalweg.train.cluster_spec import ClusterSpec


@export("test.create_local_cluster")
def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Any = None,
    ps_config: Any = None,
) -> tuple[list[Server], list[Server]]:
    """Starts servers for jobs "worker" and "ps" in this process, each with its own port, devices and variables.

    Returns:
        The workers and the parameter servers.

    Example:
        >>> workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
        >>> with tf.device("/job:ps/task:0"):
        ...     v = tf.Variable(3.0)
        >>> with tf.Session(workers[0].target) as sess:
        ...     sess.run(v.initializer)
        >>> with tf.Session(workers[1].target) as sess:  # Another session of another task sees the variable.
        ...     print(sess.run(v))
        3.0
        >>> for server in (*workers, *ps):
        ...     server.stop()
    """
    ports = free_ports(num_workers + num_ps)
    addresses = [f"localhost:{port}" for port in ports]
    jobs = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}
    cluster = ClusterSpec({job: tasks for job, tasks in jobs.items() if tasks})

    def servers(job: str, count: int, config: Any) -> list[Server]:
        return [Server(cluster, job, index, protocol, config) for index in range(count)]

    return servers("worker", num_workers, worker_config), servers("ps", num_ps, ps_config)
