"""Search: simulated annealing over places of units, judged by the simulator.

The budget is a number of simulated nodes, not a time, and the seed is fixed: the same step always gets the same places.
"""

from __future__ import annotations

import math
import random
from typing import Final

from thalweg.placement.simulator import Schedule, simulate
from thalweg.placement.strategies import Choice, critical_path, depth_first, greedy, heft, single
from thalweg.placement.tasks import Tasks

BUDGET: Final = 400_000  # nodes: some seconds
_SEED: Final = 2016
_TRIALS: Final = 30  # for each unit, at most
_WARMTH: Final = 0.02  # the fraction of the step's time by which the first moves may be worse


def search(tasks: Tasks, budget: int = BUDGET, seed: int = _SEED) -> Choice:
    """Returns the best places that were found, never worse than those of the other strategies.

    Args:
        tasks: The step.
        budget: How many nodes may be simulated.
        seed: The seed of the random moves.
    """
    ranks = tasks.ranks()

    def judged(choice: Choice) -> tuple[float, Schedule]:
        schedule = simulate(tasks, tasks.where(choice), ranks)
        return _badness(tasks, schedule), schedule

    starts = [strategy(tasks) for strategy in (heft, critical_path, greedy, depth_first, single)]
    scored = [(*judged(choice), choice) for choice in starts]
    badness, schedule, current = min(scored, key=lambda each: each[0])
    best, best_badness = list(current), badness
    free = [i for i, unit in enumerate(tasks.units) if len(unit.feasible) > 1]
    rounds = min(budget // max(1, len(tasks.nodes)), _TRIALS * len(free))
    if not free or not math.isfinite(badness):
        return best
    generator = random.Random(seed)
    for i in range(rounds):
        temperature = _WARMTH * best_badness * (1 - i / rounds)
        trial = _moved(tasks, current, schedule, free, generator)
        new_badness, new_schedule = judged(trial)
        worse = new_badness - badness
        if worse <= 0 or (temperature > 0 and generator.random() < math.exp(-worse / temperature)):
            current, badness, schedule = trial, new_badness, new_schedule
            if badness < best_badness:
                best, best_badness = list(current), badness
    return best


def _badness(tasks: Tasks, schedule: Schedule) -> float:
    """The time of the step; one that does not fit into memory is worse than any that does."""
    lacking = schedule.lacking(tasks)
    return schedule.makespan + (1e3 * (1 + lacking / 2**20) if lacking else 0.0)


def _moved(tasks: Tasks, choice: Choice, schedule: Schedule, free: list[int], generator: random.Random) -> Choice:
    """The choice with a unit, or a few neighbours, elsewhere; half of the time a unit on the critical path."""
    on_path = generator.random() < 0.5
    node = generator.choice(schedule.critical) if on_path and schedule.critical else -1
    unit = tasks.unit_of[node] if node >= 0 else generator.choice(free)
    if len(tasks.units[unit].feasible) < 2:
        unit = generator.choice(free)
    elsewhere = [device for device in tasks.units[unit].feasible if device != choice[unit]]
    device = generator.choice(elsewhere)
    trial = list(choice)
    trial[unit] = device
    # Units gain little alone if their producers and readers stay behind.
    for _ in range(generator.randrange(4)):
        near = [tasks.unit_of[tasks.producers[t]] for node in tasks.units[unit].nodes[:8] for t in tasks.inputs[node]]
        near += [tasks.unit_of[reader] for node in tasks.units[unit].nodes[:8] for t in tasks.outputs[node]
                 for reader in tasks.readers[t][:4]]  # fmt: skip
        near = [each for each in near if device in tasks.units[each].feasible and len(tasks.units[each].feasible) > 1]
        if not near:
            break
        unit = generator.choice(near)
        trial[unit] = device
    return trial
