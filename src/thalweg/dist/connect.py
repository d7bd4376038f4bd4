"""From a session's target to its engine: a task of this process, a master elsewhere, or a TensorFlow server."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from thalweg import errors
from thalweg.dist.client import ClientNetwork, OtherProtocolError
from thalweg.dist.client_engine import ClientEngine
from thalweg.dist.keys import cluster_key
from thalweg.dist.master_engine import MasterEngine
from thalweg.dist.tensorflow_channel import TensorFlowChannel
from thalweg.dist.tensorflow_engine import TensorFlowEngine
from thalweg.dist.tls import TLSOptions, tls_options
from thalweg.runtime.engine import Engine
from thalweg.runtime.targets import Connector

if TYPE_CHECKING:
    from thalweg.dist.task_server import TaskServer

_TENSORFLOW = "tensorflow+grpc"
_PROTOCOLS = ("grpc", "thalweg", "thalweg+tcp", _TENSORFLOW)
_lock = threading.Lock()
_servers: dict[str, TaskServer] = {}
_networks: dict[tuple[bytes, TLSOptions | None], ClientNetwork] = {}


def add_server(target: str, server: TaskServer) -> None:
    """Makes a task of this process known under its target."""
    with _lock:
        _servers[target] = server


def remove_server(target: str) -> None:
    """Takes `add_server` back."""
    with _lock:
        _servers.pop(target, None)


def _address(target: str) -> str:
    protocol, separator, address = target.partition("://")
    if not separator or protocol not in _PROTOCOLS:
        raise errors.NotFoundError(
            None, None, f"No session factory registered for the given session options: {{target: \"{target}\"}}. "
            f"Targets look like {', '.join(f'{each}://host:port' for each in _PROTOCOLS)}."
        )  # fmt: skip
    return address


def _is_tensorflow(target: str) -> bool:
    return target.startswith(f"{_TENSORFLOW}://")


def _is_tcp(target: str) -> bool:
    """Whether the program asks for TCP also on this host."""
    return target.startswith("thalweg+tcp://")


def _check_without_key(error: OtherProtocolError) -> None:
    """Refuses to go on without a proof of the key, unless the program has said that it means a TensorFlow server."""
    if cluster_key():
        raise errors.UnauthenticatedError(
            None, None, f"{error.message} There is a cluster's key, which TensorFlow's protocol has no place for: "
            f"write {_TENSORFLOW}://host:port if a TensorFlow server is meant."
        ) from None  # fmt: skip


def _local(target: str) -> TaskServer | None:
    with _lock:
        return _servers.get(target)


def _network() -> ClientNetwork:
    proofs = cluster_key(), tls_options()
    with _lock:
        if proofs not in _networks:
            _networks[proofs] = ClientNetwork(*proofs)
        return _networks[proofs]


def connect(target: str, config: Any) -> Engine:
    """The engine for a session with this target."""
    address = _address(target)
    server = _local(target)
    if server is not None:
        return MasterEngine(server, config)
    if not _is_tensorflow(target):
        try:
            return ClientEngine(_network(), address, config, _is_tcp(target))
        except OtherProtocolError as e:
            _check_without_key(e)
    return TensorFlowEngine(address, config)


def reset(target: str, containers: list[str], config: Any) -> None:
    """Forgets the state in containers of the cluster that the target is a task of."""
    address = _address(target)
    server = _local(target)
    if server is not None:
        server.reset(containers, forward=True)
        return
    if not _is_tensorflow(target):
        network = _network()
        try:
            connection = network.connect(address, _is_tcp(target))
        except OtherProtocolError as e:
            _check_without_key(e)
        else:
            try:
                network.call(connection, "reset", container=containers, forward=True)
            finally:
                network.release(connection)
            return
    with contextlib.closing(TensorFlowChannel(address)) as channel:
        channel.call("Reset", container=containers)


CONNECTOR = Connector(connect, reset)
