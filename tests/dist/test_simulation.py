"""Simulated clusters by seeds, and whether the simulation would notice defects of the state machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dist.simulated_client import Client
from tests.dist.simulated_tasks import MasterSession, Task
from tests.dist.simulation import Simulation, run_seeds
from thalweg.dist.master import CloseWorkerSession, Deregister, MasterState
from thalweg.dist.worker import WorkerState


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_clusters_come_to_rest_and_keep_nothing(first: int) -> None:
    run_seeds(first, 500)


def test_a_seed_decides_everything() -> None:
    def history(seed: int) -> list[Any]:
        simulation = Simulation(seed)
        simulation.run()
        return [simulation.world.now, simulation.world.num_events, *(each.life for each in simulation.world.processes)]

    for seed in range(20):
        assert history(seed) == history(seed)


def test_seeds_bring_about_crashes_errors_and_results() -> None:
    outcomes = {"crash": 0, "error": 0, "result": 0, "client": 0}
    run = MasterSession.run

    def counted(self: MasterSession, step: int, done: Callable[[Any], None]) -> None:
        def finished(value: Any) -> None:
            outcomes["error" if isinstance(value, Exception) else "result"] += 1
            done(value)

        run(self, step, finished)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MasterSession, "run", counted)
        for seed in range(300):
            simulation = Simulation(seed)
            simulation.run()
            outcomes["crash"] += sum(each.life for each in simulation.tasks)
            outcomes["client"] += sum(isinstance(each, Client) and each.alive for each in simulation.world.processes)
    assert min(outcomes.values()) > 20, outcomes


def _closes_only_where_parts_are(self: MasterState) -> list[Any]:
    used = {task for step in self._steps.values() for task in step.numbers}
    self._closed = True
    self._steps.clear()
    return [CloseWorkerSession(task) for task in sorted(used & set(self._incarnations))]


def _ignores_late_registrations(self: MasterState, step: int, task: str, number: int) -> list[Any]:
    known = self._steps.get(step)
    if known is None or known.broken is not None:
        return [Deregister(task, (number,))]
    known.numbers[task] = number
    return []


def _keeps_parts_of_closed_sessions(self: WorkerState, session: str, number: int) -> list[Any]:
    if session in self._sessions:
        self._sessions[session].numbers.add(number)
    return []


def _forgets_losses(self: WorkerState, connection: int) -> list[Any]:
    gone = [name for name, session in self._sessions.items() if session.connection == connection]
    return [instruction for name in gone for instruction in self.close(name, connection)]


def _keeps_incarnations(self: MasterState, task: str, incarnation: int, why: str) -> None:
    self._lost[task] = why


def _never_ends(self: Task, link: Any, session: str, number: int, incarnation: int, answer: Any) -> None:
    if number in self.parts:
        self.runs[self.world.number()] = answer


@pytest.mark.parametrize(
    ("owner", "method", "defect"),
    [
        (MasterState, "close", _closes_only_where_parts_are),
        (MasterState, "registered", _ignores_late_registrations),
        (MasterState, "lost", _keeps_incarnations),
        (WorkerState, "registered", _keeps_parts_of_closed_sessions),
        (WorkerState, "lost", _forgets_losses),
        (Task, "run_parts", _never_ends),
    ],
)
def test_the_simulation_notices_a_defect(
    owner: type, method: str, defect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, defect)
    with pytest.raises(AssertionError, match=r"The simulation with seed \d+ failed.*Replay it"):
        run_seeds(0, 3000)
