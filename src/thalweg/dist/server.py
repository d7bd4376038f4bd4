"""tf.train.Server: this process as a task of a cluster."""

from __future__ import annotations

import atexit
import ipaddress
import socket
import threading
import weakref
from typing import Any

from thalweg import errors
from thalweg.dist import connect
from thalweg.dist.client_sessions import ClientSessions
from thalweg.dist.collective_groups import CollectiveGroups
from thalweg.dist.keys import cluster_key
from thalweg.dist.task_server import TaskServer
from thalweg.dist.tensorflow_clients import TensorFlowClients
from thalweg.dist.tensorflow_master import TensorFlowMaster
from thalweg.dist.tls import TLSOptions, tls_options
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.train.cluster_spec import ClusterSpec

_running: weakref.WeakSet[Server] = weakref.WeakSet()


_TRAFFIC = ("messages_sent", "messages_received", "bytes_sent", "bytes_received", "bytes_lent", "bytes_borrowed")


@export("train.Server")
class Server:
    """A task of a cluster: it runs parts of steps for any master, and is a master for sessions with its `target`.

    Example:
        >>> server = tf.train.Server.create_local_server()
        >>> with tf.Session(server.target) as sess:
        ...     print(sess.run(tf.constant("Hello from a cluster of one task")).decode())
        Hello from a cluster of one task
        >>> server.stop()
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
        tensorflow_clients: bool | TensorFlowClients = False,
        tls: TLSOptions | None = None,
    ) -> None:
        """Describes a task, and starts it.

        Args:
            server_or_cluster_def: A ServerDef, ClusterDef, ClusterSpec, or a dictionary of jobs.
            job_name: The job of this task; may be left out if the cluster has only one.
            task_index: Its index there; may be left out if the job has only one task.
            protocol: "grpc" (default) or "thalweg": both are Thalweg's own protocol; "thalweg+tcp": the same without
                shared memory and Unix sockets between tasks of one host.
            config: A ConfigProto for sessions without one; its `device_count` decides how many devices the task has.
            start: Whether to begin at once.
            tensorflow_clients: Whether TensorFlow's own sessions may connect, too: `tf.compat.v1.Session(target)` of a
                TensorFlow 2 program. Their protocol has no key: whoever reaches the port can run graphs. A
                `tf.distribute.TensorFlowClients` limits their sessions otherwise than by default.
            tls: The certificates with which TCP connections of the task are encrypted and its peers are admitted; None:
                those of `tf.distribute.set_tls_options`, or of the environment; if there are none, no encryption.

        Raises:
            ValueError: If it is not clear which task this is, or the certificates cannot be used.
            errors.UnavailableError: If the task cannot listen at its address.
        """
        self._definition = _definition(server_or_cluster_def, job_name, task_index, protocol, config)
        cluster = ClusterSpec(self._definition.cluster)
        job, index = self._definition.job_name, self._definition.task_index
        self._address = cluster.task_address(job, index)
        given = self._definition.default_session_config if self._definition.HasField("default_session_config") else None
        if tensorflow_clients and self._definition.protocol != "grpc":
            raise ValueError(f"TensorFlow clients need the protocol 'grpc', got '{self._definition.protocol}'.")
        tls = tls if tls is not None else tls_options()
        if tensorflow_clients and tls is not None:
            raise ValueError("TensorFlow clients have no certificates: a server with TLS cannot admit them.")
        self._is_guarded = bool(cluster_key()) or tls is not None
        self._task = TaskServer(
            cluster, job, index, cluster_key(), given, tcp=self._definition.protocol == "thalweg+tcp", tls=tls
        )
        self._clients = ClientSessions(self._task)
        self._tensorflow_clients = TensorFlowClients() if tensorflow_clients is True else tensorflow_clients or None
        self._tensorflow: TensorFlowMaster | None = None
        self._lock = threading.Lock()
        self._target = ""
        if start:
            self.start()

    def start(self) -> None:
        """Begins to listen; nothing happens if it does already.

        Raises:
            errors.UnavailableError: If the address is in use, or not one of this host.
        """
        with self._lock:
            if self._target:
                return
            host, _, port = self._address.rpartition(":")
            host = host.strip("[]")
            if not host or not port.isdigit():
                raise errors.InvalidArgumentError(None, None, f"The address {self._address!r} is not host:port.")
            if self._tensorflow_clients is not None and self._tensorflow is None:
                self._tensorflow = TensorFlowMaster(self._task, self._tensorflow_clients)
            bound = self._task.listen(host, int(port))
            if not _is_loopback(host) and not self._is_guarded:
                logging.warning(
                    "Task %s is open to whoever reaches %s: it runs any graph that it is sent. Give the cluster a key "
                    "(THALWEG_CLUSTER_KEY) or certificates (THALWEG_TLS_CERTIFICATE), or listen at localhost.",
                    self._task.name, self._address,
                )  # fmt: skip
            self._target = f"{self._definition.protocol}://{self._address.rpartition(':')[0]}:{bound}"
            self._task.directory.move(self._task.name, self._target.partition("://")[2])
            connect.add_server(self._target, self._task)
            if self._tensorflow is not None:
                self._tensorflow.start(self._target)
                logging.warning(
                    "Task %s is open to TensorFlow clients at %s without a key.", self._task.name, self._target
                )
            _running.add(self)

    def join(self) -> None:
        """Blocks until the server has been stopped: a process that is only a task ends its program with this."""
        while not self._task.closed.wait(1.0):  # A wait without a limit could not be interrupted by Ctrl-C.
            pass

    def stop(self) -> None:
        """Ends all steps and connections of the task; its variables are gone."""
        with self._lock:
            if self._target:
                connect.remove_server(self._target)
            if self._tensorflow is not None:
                self._tensorflow.close()
            self._task.close()
        _running.discard(self)

    @property
    def server_def(self) -> Any:
        """The ServerDef that describes the task."""
        return self._definition

    @property
    def collective_groups(self) -> CollectiveGroups:
        """The collective groups of the task."""
        return self._task.collectives

    def traffic(self) -> dict[str, dict[str, int]]:
        """What this task has sent to and received from each other task over connections that are open.

        Returns:
            By the name of the task: "messages_sent" and "messages_received", the frames with tensors of steps;
            "bytes_sent" and "bytes_received", all that went through sockets; "bytes_lent" and "bytes_borrowed", tensors
            that one side has read in the memory of the other, on one host. Clients are counted under "".
        """
        found: dict[str, dict[str, int]] = {}
        for connection in self._task.network.connections():
            counts = found.setdefault(connection.task, dict.fromkeys(_TRAFFIC, 0))
            for name in _TRAFFIC:
                counts[name] += getattr(connection, name)
        return found

    @property
    def target(self) -> str:
        """What a `tf.Session` connects to in order to use this task as its master."""
        if not self._target:
            raise errors.FailedPreconditionError(None, None, "The server has not been started.")
        return self._target

    @staticmethod
    def create_local_server(
        config: Any = None, start: bool = True, tensorflow_clients: bool | TensorFlowClients = False
    ) -> Server:
        """A cluster of one task in this process, at a free port of the loopback interface."""
        return Server({"local": ["localhost:0"]}, None, None, "grpc", config, start, tensorflow_clients)


def _definition(given: Any, job: str | None, index: int | None, protocol: str | None, config: Any) -> Any:
    from thalweg.graph.messages.cluster_messages import ServerDef  # Start-up time: protobuf is slow to import.

    definition = ServerDef()
    if isinstance(given, ServerDef):
        definition.CopyFrom(given)
    else:
        definition.cluster.CopyFrom(ClusterSpec(given).as_cluster_def())
    cluster = ClusterSpec(definition.cluster)
    if job is not None:
        definition.job_name = job
    if index is not None:
        definition.task_index = index
    if protocol is not None:
        definition.protocol = protocol
    if config is not None:
        definition.default_session_config.MergeFrom(config)
    if not definition.job_name:
        if len(cluster.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`.")
        definition.job_name = cluster.jobs[0]
    if definition.job_name not in cluster.jobs:
        raise ValueError(f"The cluster has no job '{definition.job_name}': its jobs are {', '.join(cluster.jobs)}.")
    indices = cluster.task_indices(definition.job_name)
    if index is None and not isinstance(given, ServerDef):
        if len(indices) != 1:
            raise ValueError("Must specify an explicit `task_index`.")
        definition.task_index = indices[0]
    if definition.task_index not in indices:
        raise ValueError(f"Job '{definition.job_name}' has no task {definition.task_index}: its tasks are {indices}.")
    definition.protocol = definition.protocol or "grpc"
    if definition.protocol not in ("grpc", "thalweg", "thalweg+tcp"):
        raise ValueError(
            f"The protocol '{definition.protocol}' is not known: use 'grpc', 'thalweg' or 'thalweg+tcp'."
        )  # fmt: skip
    return definition


def _is_loopback(host: str) -> bool:
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
        return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses)
    except (OSError, ValueError):
        return False


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()
