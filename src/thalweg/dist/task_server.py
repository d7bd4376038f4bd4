"""TaskServer: a task of a cluster: its devices, what it does for masters and for clients, and its connections.

It carries out what the state machines say (`worker.py`, `master.py`) and answers calls. Steps do not come through here:
the core runs them from frame to frame.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.dist.collective_groups import CollectiveGroups
from thalweg.dist.directory import open_directory
from thalweg.dist.messages import METHODS, PROMPT_METHODS, messages, parsed
from thalweg.dist.names import task_name
from thalweg.dist.peers import Peers
from thalweg.dist.repeated import Repeated
from thalweg.dist.tls import TLSOptions
from thalweg.dist.tls_relay import TLSRelay
from thalweg.dist.worker import DropParts, DropSession, Instruction, OpenSession, WorkerState
from thalweg.placement.place import Device
from thalweg.placement.placer import local_devices
from thalweg.planning.planned_step import PlannedStep
from thalweg.planning.planned_step_bytes import from_bytes
from thalweg.platform import logging
from thalweg.runtime.engine import limit_inter_op_threads
from thalweg.runtime.install import InstalledStep, install, register_python_kernels
from thalweg.runtime.trace import label
from thalweg.train.cluster_spec import ClusterSpec

_REFUSALS_SECONDS = 10.0


class TaskServer:
    """One task. Thread-safe."""

    def __init__(
        self,
        cluster: ClusterSpec,
        job: str,
        index: int,
        key: bytes = b"",
        config: Any = None,
        tcp: bool = False,
        patience_ms: int = 3000,
        limits: Mapping[str, int] | None = None,
        tls: TLSOptions | None = None,
    ) -> None:
        """Makes the task's devices; it listens when it is started.

        Args:
            cluster: All tasks.
            job: The job of this task.
            index: Its index there.
            key: What peers must know to be admitted; empty: anybody is.
            config: A ConfigProto for sessions without one of their own; `device_count` decides the devices.
            tcp: Whether to use TCP also between tasks of one host.
            patience_ms: How long a peer may be silent before it is taken for dead.
            limits: How much one peer can take (core/net/limits.h), by name, for example {"early_bytes": 1 << 30}.
            tls: The certificates with which TCP connections are encrypted; None: they are not.

        Raises:
            ValueError: If the certificates cannot be used.
        """
        self._tls = TLSRelay(tls) if tls is not None else None
        self.name = task_name(job, index)
        self.config = config
        self.incarnation = secrets.randbits(63) | 1
        count = dict(config.device_count) if config is not None else {}
        self.devices = [
            device._replace(name=self.name + "/device:" + device.name.rpartition("/device:")[2],
                            incarnation=self.incarnation)
            for device in local_devices(count)
        ]  # fmt: skip
        self.native_devices = core.ServerDevices([device.name for device in self.devices], self.incarnation)
        self.network = core.NetworkTask(
            self.name,
            self.incarnation,
            "thalweg",
            key,
            _weakly(self._answer),
            _weakly(self._lost),
            not tcp,
            patience_ms,
            dict(limits or {}),
            self._tls.encrypt if self._tls is not None else None,
            _weakly(self._refused),
            PROMPT_METHODS,
        )
        self._refusals = Repeated(_REFUSALS_SECONDS)
        self.directory = open_directory(cluster)
        self.peers = Peers(self.network, self.directory, tcp)
        self.collectives = CollectiveGroups(
            self.name, self.incarnation, self.network, self.native_devices, self.directory, self.peers
        )
        self._lock = threading.Lock()
        self._state = WorkerState()
        self._sessions: dict[str, Any] = {}
        self._loss_listeners: list[Callable[[Any, str], None]] = []
        self._methods: dict[str, Callable[[Any, Any], Any]] = {
            "status": self._status,
            "clock": lambda connection, request: messages()["Clock"](nanoseconds=time.time_ns()),
            "register": self._register,
            "deregister": self._deregister,
            "close_worker_session": self._close_worker_session,
            "reset": self._reset,
            "memory": self._memory,
            "join_group": self.collectives.join_group,
            "join_survivors": self.collectives.open_groups.join_survivors,
            "group_status": self.collectives.open_groups.group_status,
            "summon_member": self.collectives.open_groups.summon_member,
            "check_generation": self.collectives.open_groups.check_generation,
            "finish_group": self.collectives.open_groups.finish_group,
            "leave_group": self.collectives.open_groups.leave_group,
        }
        self.closed = threading.Event()

    def listen(self, host: str, port: int) -> int:
        """Begins to admit peers; the port."""
        return int(self.network.listen(host, port))

    def close(self) -> None:
        """Ends all connections and steps."""
        self.closed.set()
        self.collectives.close()
        self.network.close()
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()
        self.peers.forget()
        if self._tls is not None:
            self._tls.join()

    def __del__(self) -> None:
        network = getattr(self, "network", None)
        if network is not None:
            network.close()

    def add_methods(self, methods: Mapping[str, Callable[[Any, Any], Any]]) -> None:
        """Adds methods that peers can call: from a connection and a request to an answer."""
        self._methods.update(methods)

    def on_loss(self, listener: Callable[[Any, str], None]) -> None:
        """Calls a function with each connection that is lost, and why."""
        with self._lock:
            self._loss_listeners.append(listener)

    def remove_listener(self, listener: Callable[[Any, str], None]) -> None:
        """Takes `on_loss` back."""
        with self._lock:
            if listener in self._loss_listeners:
                self._loss_listeners.remove(listener)

    # Calls of peers.

    def _answer(self, connection: Any, method: str, payload: bytes) -> bytes:
        handle = self._methods.get(method)
        if handle is None:
            raise errors.UnimplementedError(None, None, f"Task {self.name} has no method '{method}'.")
        answer = handle(connection, parsed(METHODS[method][0], payload))
        serialized: bytes = answer.SerializeToString()
        return serialized

    def _lost(self, connection: Any, why: str) -> None:
        if not self.closed.is_set():
            logging.info("%s lost the connection to %s: %s", self.name, connection.task or "a client", why)
        with self._lock:
            instructions = self._state.lost(_number(connection))
            listeners = list(self._loss_listeners)
        self._carry_out(instructions)
        self.collectives.lost(connection)
        for listener in listeners:
            listener(connection, why)

    def _refused(self, host: str, why: str) -> None:
        """A caller has no valid key or certificate."""
        suppressed = self._refusals.suppressed(host)
        if suppressed is not None:
            more = f" ({suppressed} more since the last report)" if suppressed else ""
            logging.warning("%s has refused a caller at %s: %s%s", self.name, host, why, more)

    def _status(self, connection: Any, request: Any) -> Any:
        return self.status_of(self.devices)

    def status_of(self, devices: Sequence[Device], limits: Mapping[str, int] | None = None) -> Any:
        """The message that describes some devices."""
        status = messages()["Status"]()
        own = core.Session(self.native_devices)
        for device in devices:
            limit = (limits or {}).get(device.name)
            if limit is None:
                limit = own.memory_info(device.name)["limit"]
            status.device.add(
                name=device.name, type=device.type, on_request=device.on_request, incarnation=device.incarnation,
                memory_limit=limit,
            )  # fmt: skip
        return status

    def _memory(self, connection: Any, request: Any) -> Any:
        return messages()["MemoryInfo"](value=self.memory_info(request.device))

    def memory_info(self, device: str) -> dict[str, int]:
        """The bytes that the tensors of a device of this task hold."""
        return dict(core.Session(self.native_devices).memory_info(device))

    # Worker sessions.

    def _register(self, connection: Any, request: Any) -> Any:
        try:
            step = from_bytes(request.step)
        except ValueError as e:
            raise errors.InvalidArgumentError(None, None, f"A master sent a step that cannot be read: {e}") from None
        with self._lock:
            self._carry_out_locked(self._state.register(request.session, _number(connection)))
            session = self._sessions[request.session]
        installed = self.install(session, step)
        routes = [
            (peer.task, self.peers.try_connect(peer.task, peer.incarnation, peer.address))
            for peer in request.peer
            if peer.task != self.name
        ]
        registered = core.NetworkStep(
            self.network,
            [(feed.name, feed.dtype, feed.shape) for feed in step.feeds],
            step.num_fetches,
            installed.compiled,
            (list(range(len(step.feeds))), list(range(step.num_fetches))),
            [],
            routes,
            functools.partial(label, installed.compiled, step),
        )
        number = self.network.add(registered)
        with self._lock:
            instructions = self._state.registered(request.session, number)
        self._carry_out(instructions)
        return messages()["Registered"](number=number)

    def install(self, session: Any, step: PlannedStep) -> InstalledStep:
        """Compiles parts for the devices of this task.

        Raises:
            errors.AbortedError: If they were planned for another incarnation, or another task.
        """
        known = {device.name for device in self.devices}
        for device in step.parts:
            if device not in known:
                raise errors.InvalidArgumentError(None, None, f"Task {self.name} has no device {device}.")
        register_python_kernels()
        return install(session, step)

    def _deregister(self, connection: Any, request: Any) -> Any:
        with self._lock:
            instructions = self._state.deregister(request.session, _number(connection), request.number)
        self._carry_out(instructions)
        return messages()["Empty"]()

    def _close_worker_session(self, connection: Any, request: Any) -> Any:
        with self._lock:
            instructions = self._state.close(request.session, _number(connection))
        self._carry_out(instructions)
        return messages()["Empty"]()

    def _reset(self, connection: Any, request: Any) -> Any:
        self.reset(list(request.container), request.forward)
        return messages()["Empty"]()

    def reset(self, containers: list[str], forward: bool) -> None:
        """Forgets the state in containers of this task, and of all others that can be reached."""
        self.native_devices.reset(containers)
        if not forward:
            return
        for task in self.directory.tasks():
            if task == self.name:
                continue
            try:
                peer = self.peers.try_connect(task)
            except errors.UnavailableError:
                continue  # A task that is not there has no state.
            self.peers.call(peer, "reset", container=containers, forward=False)

    # Instructions.

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        with self._lock:
            self._carry_out_locked(instructions)

    def _carry_out_locked(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case OpenSession(session):
                    self._sessions[session] = core.Session(self.native_devices)
                    limit_inter_op_threads(self._sessions[session], self.config)
                case DropParts(numbers):
                    for number in numbers:
                        self.network.remove(number)
                case DropSession(session):
                    dropped = self._sessions.pop(session, None)
                    if dropped is not None:
                        dropped.close()


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a method of an object that is not kept by this: the core keeps what it calls."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        found = reference()
        if found is None:
            raise errors.CancelledError(None, None, "The task is closed.")
        return found(*args)

    return call


def _number(connection: Any) -> int:
    return int(connection.number)
