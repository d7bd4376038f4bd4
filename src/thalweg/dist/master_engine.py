"""MasterEngine: plans the steps of a session over the tasks of a cluster, in the process of one of them."""

from __future__ import annotations

import functools
import secrets
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from thalweg import errors
from thalweg._native import core
from thalweg.dist.master import CloseWorkerSession, Deregister, Instruction, MasterState, Register
from thalweg.dist.names import job_and_index, may_ask_for, short_task, task_of
from thalweg.dist.task_server import TaskServer
from thalweg.graph.dtypes import DType
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.options import pass_options
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph
from thalweg.placement.costs import CostModel
from thalweg.placement.options import placement_options
from thalweg.placement.place import Device
from thalweg.placement.placer import Placer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step import PlannedStep
from thalweg.planning.planned_step_bytes import to_bytes
from thalweg.runtime import partition_graphs
from thalweg.runtime.devices import DeviceAttributes
from thalweg.runtime.engine import EngineStep, limit_inter_op_threads
from thalweg.runtime.install import evaluate, local_kernels, supports
from thalweg.runtime.trace import label

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

# How long a new session waits for tasks that no step has asked for.
_GREETING_SECONDS: Final = 0.5


class MasterEngine:
    """The steps of one session, with this process's task as their master."""

    def __init__(self, server: TaskServer, config: Any) -> None:
        """Takes the task, and the session's ConfigProto, or None for that of the task."""
        self._server = server
        config = config if config is not None else server.config
        self._filters = tuple(config.device_filters) if config is not None else ()
        self._session = secrets.token_hex(8)
        self._native = core.Session(server.native_devices)
        limit_inter_op_threads(self._native, config)
        options = placement_options(config)
        # Unless the program or a strategy says otherwise, operations run on the master's own task.
        if not options.strategy:
            options = options._replace(strategy="single")
        self._placer = Placer(
            list(server.devices),
            bool(config.allow_soft_placement) if config is not None else False,
            bool(config.log_device_placement) if config is not None else False,
            options,
            bool(config.graph_options.enable_bfloat16_sendrecv) if config is not None else False,
        )
        self._planner = Planner(self._placer, pass_options(config), evaluate, local_kernels, supports)
        self._lock = threading.Lock()  # guards everything below
        self._state = MasterState(server.name)
        self._connections: dict[str, Any] = {}
        self._memory: dict[str, int] = {}
        self._closed = threading.Event()
        server.on_loss(self._lost)
        self._greet()

    # Tasks.

    def _wanted(self, task: str) -> bool:
        """Whether the session's device filters admit a task."""
        if task == self._server.name or not self._filters:
            return True
        return any(may_ask_for(each, *job_and_index(task)) for each in self._filters)

    def _others(self) -> list[str]:
        tasks = [task for task in self._server.directory.tasks() if task != self._server.name]
        return [task for task in tasks if self._wanted(task)]

    def _greet(self) -> None:
        """Connects to the tasks that are there already, so that `list_devices` shows them.

        One that is stopped or cut off does not answer, and must not keep the session from those that are there.
        """
        threads = [threading.Thread(target=self._try_join, args=(task,), daemon=True) for task in self._others()]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _GREETING_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _try_join(self, task: str) -> None:
        try:
            self._join(task, self._server.peers.try_connect(task, attempt_ms=1000))
        except errors.OpError:
            pass  # It is waited for when a step needs it; an error that is not of the moment comes again then.

    def _join(self, task: str, connection: Any) -> None:
        with self._lock:
            if self._state.incarnation(task) is not None:
                return
        status = self._server.peers.call(connection, "status")
        self._server.peers.measure_clock(connection)
        with self._lock:
            if self._state.incarnation(task) is not None:
                return
            self._state.found(task, connection.incarnation)
            self._connections[task] = connection
            for each in status.device:
                self._placer.devices.append(Device(each.name, each.type, each.on_request, each.incarnation))
                self._memory[each.name] = each.memory_limit
            # In the order of the cluster, whoever came first: a partial name means the same device in every session.
            order = [self._server.name, *(each for each in self._server.directory.tasks() if each != self._server.name)]
            self._placer.devices.sort(key=lambda device: order.index(task_of(device.name)))
            self._state.validate()
        if connection.is_lost:
            self._lost(connection, f"{short_task(task)} is gone.")

    def _require(self, tasks: Collection[str]) -> None:
        """Sees to it that tasks are connected; waits for those that are not there yet."""
        missing = []
        with self._lock:
            for task in tasks:
                self._state.check_task(task)
                if task != self._server.name and self._state.incarnation(task) is None:
                    missing.append(task)
        if missing:
            found = self._server.peers.wait_for(missing, self._closed.is_set)
            for task, connection in found.items():
                self._join(task, connection)

    def _asked_for(self, graph: StepGraph) -> set[str]:
        """The tasks that the nodes of a step ask for."""
        constraints = {node.device for node in graph.nodes.values() if node.device}
        return {
            task for task in self._others() for each in constraints if may_ask_for(each, *job_and_index(task))
        }  # fmt: skip

    def _lost(self, connection: Any, why: str) -> None:
        with self._lock:
            task = connection.task
            # Two tasks may have two connections, made by either side. The session is concerned by the loss of that over
            # which it has registered parts: while it is open, the other task keeps them.
            own = self._connections.get(task)
            if own is not None and own.number == connection.number:
                self._state.lost(task, connection.incarnation, f"{why.rstrip('.')}.")
                self._connections.pop(task, None)

    # Steps.

    def install(
        self,
        graph: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> EngineStep:
        """Plans a step, and registers its parts with their tasks."""
        self._require(self._asked_for(prune(feeds, fetches, targets)))
        planned = self._planner.plan(graph, feeds, fetches, targets, precision, piecewise)
        return self._installed(planned)

    def _installed(self, planned: PlannedStep) -> EngineStep:
        by_task: dict[str, list[str]] = {}
        for device in planned.parts:
            by_task.setdefault(task_of(device), []).append(device)
        with self._lock:
            number, instructions = self._state.begin_step(by_task)
            connections = {task: self._connections[task] for task in by_task if task != self._server.name}
        try:
            numbers = self._register(planned, by_task, connections, instructions)
            local = by_task.get(self._server.name)
            own = None
            share: tuple[list[int], list[int]] = ([], [])
            if local is not None:
                share = _share(planned, local)
                own = self._server.install(self._native, planned.restricted(local))
        except errors.OpError as e:
            with self._lock:
                instructions = self._state.refused(number, self._server.name, e)
            self._carry_out(instructions)
            raise
        remotes = [(connections[task], numbers[task], *_share(planned, by_task[task])) for task in connections]
        compiled = core.NetworkStep(
            self._server.network,
            [(feed.name, feed.dtype, feed.shape) for feed in planned.feeds],
            planned.num_fetches,
            own.compiled if own is not None else None,
            share,
            remotes,
            list(connections.items()),
            functools.partial(label, own.compiled, planned) if own is not None else None,
        )
        parts = {device: part.graph for device, part in planned.parts.items()}
        return EngineStep(compiled, planned, {**parts, **(own.parts if own else {})})

    def _register(
        self,
        planned: PlannedStep,
        by_task: dict[str, list[str]],
        connections: dict[str, Any],
        instructions: Sequence[Instruction],
    ) -> dict[str, int]:
        """Registers parts with all other tasks at once: the numbers that they give."""
        directory = self._server.directory
        peers = [
            {"task": self._server.name, "incarnation": self._server.incarnation,
             "address": directory.address(self._server.name)},
            *({"task": task, "incarnation": connection.incarnation, "address": directory.address(task)}
              for task, connection in connections.items()),
        ]  # fmt: skip
        numbers: dict[str, int] = {}
        failures: list[errors.OpError] = []

        def register(instruction: Register) -> None:
            task = instruction.task
            try:
                part = to_bytes(planned.restricted(by_task[task]))
                answer = self._server.peers.call(
                    connections[task], "register", session=self._session, step=part,
                    peer=[each for each in peers if each["task"] != task],
                )  # fmt: skip
            except errors.OpError as e:
                failures.append(e)
                with self._lock:
                    more = self._state.refused(instruction.step, task, e)
                self._carry_out(more)
                return
            numbers[task] = answer.number
            with self._lock:
                more = self._state.registered(instruction.step, task, answer.number)
            self._carry_out(more)

        wanted = [each for each in instructions if isinstance(each, Register)]
        _in_parallel([functools.partial(register, each) for each in wanted])
        if failures:
            raise failures[0]
        return numbers

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            with self._lock:
                connection = self._connections.get(instruction.task)
            if connection is None:
                continue
            try:
                match instruction:
                    case Deregister(_, numbers):
                        self._server.peers.call(connection, "deregister", session=self._session, number=numbers)
                    case CloseWorkerSession(_):
                        self._server.peers.call(connection, "close_worker_session", 5000, session=self._session)
                    case _:
                        raise AssertionError(instruction)
            except errors.OpError:
                pass  # A task that is gone keeps nothing.

    def partial_step(self, step: EngineStep) -> Any:
        """Starts a step that is fed and fetched through its rendezvous."""
        return step.compiled.start_partial()

    # What a session asks about.

    def fill_partition_graphs(self, run_metadata: Any, step: EngineStep) -> None:
        """Adds the graphs that the devices of a step run to a RunMetadata."""
        partition_graphs.fill(run_metadata, step.parts)

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices of all tasks that are connected."""
        with self._lock:
            devices = list(self._placer.devices)
        return [
            DeviceAttributes(device.name, device.type, self._limit(device), device.incarnation) for device in devices
        ]

    def _limit(self, device: Device) -> int:
        known = self._memory.get(device.name)
        return known if known is not None else self._server.memory_info(device.name)["limit"]

    def memory_info(self, device: str) -> dict[str, int]:
        """The bytes that the tensors of a device hold, on whatever task it is."""
        task = task_of(device)
        if task == self._server.name:
            return self._server.memory_info(device)
        with self._lock:
            self._state.check_task(task)
            connection = self._connections[task]
        return dict(self._server.peers.call(connection, "memory", device=device).value)

    def costs(self) -> CostModel:
        """The costs that were measured: none, on a cluster."""
        return CostModel()

    def measured_graph(self, compiled: Any) -> StepGraph | None:
        """Steps on a cluster are not measured."""
        return None

    def close(self) -> None:
        """Ends running steps, and what the tasks keep for the session. Variables and other state on them stays."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._native.close()
        with self._lock:
            instructions = self._state.close()
        self._carry_out(instructions)
        self._server.remove_listener(self._lost)

    def __del__(self) -> None:
        closed = getattr(self, "_closed", None)
        if closed is not None and not sys.is_finalizing():
            self.close()


def _share(planned: PlannedStep, devices: Collection[str]) -> tuple[list[int], list[int]]:
    """Which of a step's feeds and fetches are those of the parts of some devices, in order (`restricted`)."""
    parts = [part for device, part in planned.parts.items() if device in devices]
    feeds = sorted({feed for part in parts for feed in part.feeds})
    return feeds, sorted({fetch for part in parts for fetch in part.fetches})


def _in_parallel(work: Sequence[Callable[[], None]]) -> None:
    """Runs functions at the same time, and waits for all of them."""
    threads = [threading.Thread(target=each, daemon=True) for each in work[1:]]
    for thread in threads:
        thread.start()
    if work:
        work[0]()
    for thread in threads:
        thread.join()
