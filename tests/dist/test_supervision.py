"""Which processes a launcher starts, restarts and stops, and with which exit code a launch ends: without processes."""

from __future__ import annotations

import random
import signal

import pytest

from thalweg.dist.launch.plan import LaunchPlan, Task
from thalweg.dist.launch.supervision import LONGEST_PAUSE, Note, Signal, Start, State, Supervision, shell_code

PS, FIRST, SECOND = Task("ps", 0), Task("worker", 0), Task("worker", 1)
TASKS = [PS, FIRST, SECOND]


def begun(restarts: int = 2) -> Supervision:
    supervision = Supervision(TASKS, restarts, grace=5.0)
    assert supervision.begin() == [Start(task) for task in TASKS]
    return supervision


def test_ps_tasks_are_stopped_when_all_workers_have_ended() -> None:
    supervision = begun()
    assert supervision.exited(FIRST, 0, 1.0) == []
    assert supervision.exited(SECOND, 0, 2.0) == [Signal(PS, signal.SIGTERM)]
    assert supervision.exit_code is None
    assert supervision.exited(PS, -signal.SIGTERM, 3.0) == []
    assert supervision.exit_code == 0
    assert supervision.tasks[PS].state is State.STOPPED


def test_a_task_that_does_not_stop_is_killed() -> None:
    supervision = begun()
    supervision.exited(FIRST, 0, 1.0)
    supervision.exited(SECOND, 0, 2.0)
    assert supervision.next_due() == 7.0
    assert supervision.tick(6.9) == []
    assert supervision.tick(7.0) == [Signal(PS, signal.SIGKILL)]


def test_a_crashed_task_is_started_again_after_pauses_that_grow() -> None:
    supervision = begun(restarts=20)
    now, pauses = 0.0, []
    for _ in range(20):
        (note,) = supervision.exited(FIRST, -signal.SIGKILL, now)
        assert isinstance(note, Note) and "worker 0 was ended by SIGKILL" in note.text
        due = supervision.next_due()
        assert due is not None
        assert supervision.tick(due - 0.01) == []
        assert supervision.tick(due) == [Start(FIRST)]
        pauses.append(round(due - now, 6))
        now = due
    assert pauses == sorted(pauses) and pauses[0] < 0.1 and pauses[-1] == LONGEST_PAUSE


def test_a_worker_that_fails_too_often_ends_the_launch_with_its_exit_code() -> None:
    supervision = begun(restarts=1)
    supervision.exited(FIRST, 3, 0.0)
    supervision.tick(1.0)
    note, *stops = supervision.exited(FIRST, 3, 2.0)
    assert note == Note("worker 0 ended with exit code 3 after 1 restarts: ending the launch.")
    assert stops == [Signal(PS, signal.SIGTERM), Signal(SECOND, signal.SIGTERM)]
    supervision.exited(PS, -15, 3.0)
    supervision.exited(SECOND, 1, 3.0)
    assert supervision.exit_code == 3


def test_an_interrupt_stops_all_and_a_second_one_kills() -> None:
    supervision = begun()
    supervision.exited(FIRST, 1, 0.0)  # It is to be restarted, which now does not happen.
    assert supervision.interrupt(130, 0.01) == [Signal(PS, signal.SIGTERM), Signal(SECOND, signal.SIGTERM)]
    assert supervision.tasks[FIRST].state is State.STOPPED
    assert supervision.interrupt(130, 0.02) == [Signal(PS, signal.SIGKILL), Signal(SECOND, signal.SIGKILL)]
    for task in (PS, SECOND):
        supervision.exited(task, -9, 1.0)
    assert supervision.exit_code == 130


def test_a_signal_as_exit_code_is_that_of_shells() -> None:
    assert shell_code(-signal.SIGKILL) == 137
    assert shell_code(4) == 4


@pytest.mark.parametrize("seed", range(200))
def test_every_history_ends_and_keeps_the_invariants(seed: int) -> None:
    chance = random.Random(seed)
    plan = LaunchPlan(chance.randrange(3), chance.randrange(1, 4), chance.random() < 0.5)
    supervision = Supervision(plan.tasks, chance.randrange(4), grace=1.0)
    alive: set[Task] = set()
    pending = supervision.begin()
    now, final_code = 0.0, None
    for _ in range(10_000):
        for instruction in pending:
            if isinstance(instruction, Start):
                assert instruction.task not in alive, "started twice"
                alive.add(instruction.task)
            elif isinstance(instruction, Signal):
                assert instruction.task in alive, "a signal for a process that has ended"
        supervision.validate()
        if supervision.exit_code is not None:
            final_code = supervision.exit_code
            break
        now += chance.random()
        event = chance.random()
        if event < 0.4 and alive:
            task = chance.choice(sorted(alive))
            alive.discard(task)
            pending = supervision.exited(task, chance.choice([0, 0, 1, -9]), now)
        elif event < 0.42:
            pending = supervision.interrupt(130, now)
        else:
            pending = supervision.tick(now)
    assert final_code is not None and not alive
    ended_well = all(supervision.tasks[task].exit_code == 0 for task in plan.tasks if task.job != "ps")
    assert final_code or ended_well
