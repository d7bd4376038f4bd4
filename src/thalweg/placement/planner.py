"""The strategies by name, and the one that a session uses: it spreads a step only where that pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from thalweg.passes.step_graph import StepGraph
from thalweg.placement.costs import CostModel
from thalweg.placement.machine import Machine
from thalweg.placement.place import Device, Group
from thalweg.placement.search import search
from thalweg.placement.simulator import Schedule, simulate
from thalweg.placement.strategies import Choice, Chooser, critical_path, depth_first, greedy, hash_, heft, single
from thalweg.placement.tasks import Tasks, tasks_of

# A step is spread over devices only if that is predicted to save this fraction of its time.
MARGIN: Final = 0.1
STRATEGIES: Final[dict[str, Chooser]] = {
    "single": single,
    "hash": hash_,
    "depth_first": depth_first,
    "greedy": greedy,
    "critical_path": critical_path,
    "heft": heft,
    "search": search,
}
DEFAULT: Final = "heft"


def chooser(name: str) -> Chooser:
    """The strategy of this name.

    Raises:
        ValueError: If there is none.
    """
    if name not in STRATEGIES:
        raise ValueError(f"There is no placement strategy {name!r}; there are {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]


def if_it_pays(tasks: Tasks, choice: Choice, margin: float = MARGIN) -> tuple[Choice, Schedule]:
    """The choice if the simulator says that it beats one device by a margin, or that one device lacks memory."""
    ranks = tasks.ranks()
    alone = single(tasks)
    joint, spread = simulate(tasks, tasks.where(alone), ranks), simulate(tasks, tasks.where(choice), ranks)
    lacking = joint.lacking(tasks), spread.lacking(tasks)
    better = lacking[1] < lacking[0] or (lacking[1] == lacking[0] and spread.makespan < joint.makespan * (1 - margin))
    return (choice, spread) if better else (alone, joint)


class Planner:
    """A strategy in the form that `place` asks for."""

    def __init__(
        self, machine: Machine, costs: CostModel, strategy: str = DEFAULT, margin: float | None = MARGIN
    ) -> None:
        """Takes the machine, costs, the name of a strategy, and the fraction that it must save; None: any or none."""
        self._machine = machine
        self._costs = costs
        self._choose = chooser(strategy)
        self._margin = margin

    def __call__(self, graph: StepGraph, groups: Sequence[Group], decided: Mapping[str, Device]) -> list[Device]:
        """A device for each group."""
        if not groups:
            return []
        tasks = tasks_of(graph, self._machine, self._costs, groups, decided)
        choice = self._choose(tasks)
        if self._margin is not None:
            choice, _ = if_it_pays(tasks, choice, self._margin)
        devices = [processor.device for processor in self._machine.processors]
        chosen = [devices[0]] * len(groups)
        for unit, device in zip(tasks.units, choice, strict=True):
            for group in unit.groups:
                chosen[group] = devices[device]
        return chosen
