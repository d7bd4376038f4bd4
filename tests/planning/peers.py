"""Processes that install and run parts of planned steps, with tensors carried between them over pipes.

Only bytes cross: a planned step as `to_bytes` writes it, and pickled arrays. The processes know nothing of the graph.
"""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

import thalweg as tf
from thalweg._native import core
from thalweg.passes.options import PassOptions
from thalweg.placement.place import Device
from thalweg.placement.placer import Placer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step import PlannedStep
from thalweg.planning.planned_step_bytes import from_bytes, to_bytes
from thalweg.runtime.install import evaluate, install, local_kernels, register_python_kernels, supports

_TIMEOUT_MS = 60_000


class _Peer:
    """The side of the process: a session, and the steps that were installed in it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()  # Steps send from several threads.
        self._rendezvous: dict[int, Any] = {}
        self._early: dict[int, list[tuple[str, Any]]] = {}
        self._session: Any = None
        self._devices: list[str] = []
        self._steps: dict[int, Any] = {}

    def serve(self) -> None:
        register_python_kernels()
        while True:
            request, *arguments = self._pipe.recv()
            if request == "end":
                return
            try:
                getattr(self, request)(*arguments)
            except Exception:
                self._send("failed", traceback.format_exc())

    def _send(self, *message: Any) -> None:
        with self._lock:
            self._pipe.send(message)

    def begin(self, devices: list[str]) -> None:
        self._devices = devices
        self._steps.clear()
        self._session = core.Session(devices)
        self._send("devices", [core.device_incarnation(name) for name in devices])

    def install(self, number: int, data: bytes) -> None:
        self._steps[number] = install(self._session, from_bytes(data)).compiled

    def run(self, number: int, step_id: int, feeds: list[Any]) -> None:
        def outgoing(transfer: str, value: Any, is_dead: bool) -> None:
            self._send("transfer", step_id, transfer, value)

        rendezvous = self._rendezvous[step_id] = core.PeerRendezvous(step_id, self._devices, outgoing)
        for transfer, value in self._early.pop(step_id, ()):
            self.deliver(step_id, transfer, value)
        threading.Thread(target=self._run, args=(self._steps[number], rendezvous, step_id, feeds), daemon=True).start()

    def _run(self, compiled: Any, rendezvous: Any, step_id: int, feeds: list[Any]) -> None:
        try:
            self._send("done", compiled.run_with_peers(feeds, rendezvous, _TIMEOUT_MS))
        except Exception:
            self._send("failed", traceback.format_exc())

    def deliver(self, step_id: int, transfer: str, value: Any) -> None:
        if step_id not in self._rendezvous:
            self._early.setdefault(step_id, []).append((transfer, value))  # This process has not begun the step yet.
            return
        dtype = tf.as_dtype(value.dtype).as_datatype_enum if value is not None else 0
        self._rendezvous[step_id].deliver(transfer, dtype, value)

    def forget(self, step_id: int) -> None:
        self._rendezvous.pop(step_id, None)


def _main(pipe: Connection) -> None:
    _Peer(pipe).serve()


class Peers:
    """Some processes with some devices each, and the planner of steps on them."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        self._numbers = itertools.count(1)
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_main, args=(there,), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(("end",))
            pipe.close()
        for process in self._processes:
            process.join(5)
            process.kill()  # A step of this process may still wait for a tensor that another process will not send.
            process.join()

    def begin(self, per_process: int) -> None:
        """Gives each process this many devices and a new session."""
        self._owner: dict[str, int] = {}
        devices = []
        for task, pipe in enumerate(self._pipes):
            names = [f"/job:worker/replica:0/task:{task}/device:CPU:{i}" for i in range(per_process)]
            pipe.send(("begin", names))
            kind, incarnations = pipe.recv()
            assert kind == "devices", incarnations
            for name, incarnation in zip(names, incarnations, strict=True):
                signed = incarnation - (1 << 64) if incarnation >> 63 else incarnation
                devices.append(Device(name, "CPU", incarnation=signed))
                self._owner[name] = task
        self._planner = Planner(Placer(devices, soft=True), PassOptions(), evaluate, local_kernels, supports)

    def plan(self, graph: tf.Graph, fetches: list[Any], targets: list[Any], feeds: list[Any]) -> PlannedStep:
        return self._planner.plan(graph, feeds, fetches, targets)

    def run(self, step: PlannedStep, feeds: list[Any] | None = None) -> list[np.ndarray]:
        """Installs and runs a step: each process gets the bytes of its own parts."""
        number = next(self._numbers)
        tasks = sorted({self._owner[device] for device in step.parts})
        mine = {task: [device for device in step.parts if self._owner[device] == task] for task in tasks}
        feeds = feeds or []
        for task in tasks:
            self._pipes[task].send(("install", number, to_bytes(step.restricted(mine[task]))))
        for task in tasks:
            used = sorted({i for device in mine[task] for i in step.parts[device].feeds})
            self._pipes[task].send(("run", number, number, [feeds[i] for i in used]))
        results: list[Any] = [None] * step.num_fetches
        left = set(tasks)
        while left:
            for pipe in wait([self._pipes[task] for task in tasks], timeout=_TIMEOUT_MS / 1e3):
                assert isinstance(pipe, Connection)
                task = self._pipes.index(pipe)
                kind, *message = pipe.recv()
                if kind == "transfer":
                    _, transfer, _ = message
                    self._pipes[self._owner[transfer.split(";")[2]]].send(("deliver", *message))
                elif kind == "done":
                    fetched = sorted(i for device in mine[task] for i in step.parts[device].fetches)
                    for i, value in zip(fetched, message[0], strict=True):
                        results[i] = value
                    left.discard(task)
                else:
                    raise AssertionError(f"task {task}: {message[0]}")
        for task in tasks:
            self._pipes[task].send(("forget", number))
        return results
