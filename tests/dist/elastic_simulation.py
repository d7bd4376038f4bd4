"""Elastic all-reduce training in one process under virtual time: members as state machines, faults by a seed.

The state machine is that of the product (`dist/survivor_agreement.py`); what carries its instructions out there
(`open_groups.py`, `collective_groups.py`, the core) is modelled here, without sockets and threads. A seed decides how
long everything takes, how far clocks are off, which members crash and come back, are stopped and go on, and which
links are cut for a while, in one direction or both. After every event:

- no two members believe in the same generation with different members;
- a generation consists of members that asked for it, and its number is larger than all that they know;
- a member never goes back to an older generation;
- all members of a generation train the same model; state is taken from a member that is furthest;
- while all members live, no two generations train at the same time.

When faults have stopped, every member that has trained comes to the last step and ends; a newcomer joins the others,
if there are any.

    python -m tests.dist.elastic_simulation --seeds 1000000
    python -m tests.dist.elastic_simulation --seed 1234 --verbose
"""

from __future__ import annotations

from tests.dist.seeds import main_of, run_each
from tests.dist.simulated_history import History
from tests.dist.simulated_members import Trainer
from tests.dist.simulated_world import World

_FAULTS_UNTIL = 12.0
_FAULTS_END = 30.0  # the last cut is healed, the last crashed member is back
_LAST = 300.0


class ElasticSimulation:
    """One training: a few members that come and go."""

    def __init__(self, seed: int, verbose: bool = False) -> None:
        """Makes the members, and decides what will go wrong when."""
        self.world = World(seed, verbose)
        choice = self.world.random
        self.history = History(choice.choice([2, 6, 20]))
        size = choice.choice([2, 2, 3, 3, 3, 4, 5])
        errors = choice.choice([0.0, 0.5, 100.0])
        ticks = 0 if seed % 2 else 10  # in a second: clocks that stand still do not tell generations apart
        self.trainers = [
            Trainer(self.world, f"/job:worker/replica:0/task:{i}", self.history, choice.uniform(0, errors), ticks)
            for i in range(size)
        ]
        for each in self.trainers:
            each.others = {other.name: other for other in self.trainers}
            self.world.after(choice.uniform(0, choice.choice([0.1, 0.1, 3])), each.begin)
        kinds = choice.choice([[self._crash], [self._stop], [self._cut], [self._crash, self._stop, self._cut]])
        for _ in range(choice.choice([0, 1, 1, 2, 3, 5])):
            self.world.after(choice.uniform(0.2, _FAULTS_UNTIL), choice.choice(kinds))

    def _living(self) -> list[Trainer]:
        return [each for each in self.trainers if each.alive]

    def _crash(self) -> None:
        choice = self.world.random
        if not (living := self._living()):
            return
        victim = choice.choice(living)
        self.world.say(f"{victim} crashes")
        if victim.state is not None:
            self.history.has_lost_members = True
        victim.crash()
        if choice.random() < 0.6:
            self.world.after(choice.uniform(0.1, 6), victim.begin)

    def _stop(self) -> None:
        choice = self.world.random
        if living := [each for each in self._living() if not each.is_stopped]:
            victim = choice.choice(living)
            self.world.say(f"{victim} is stopped")
            victim.stop(choice.choice([choice.uniform(0.01, 1), choice.uniform(1, 10)]))

    def _cut(self) -> None:
        """Cuts a task off from another, or from all, in one direction or both."""
        choice = self.world.random
        one = choice.choice(self.trainers)
        rest = [each for each in self.trainers if each is not one]
        others = rest if choice.random() < 0.4 else [choice.choice(rest)]
        directions = choice.choice([[0], [1], [0, 1]])
        pairs = [((one, other), (other, one))[i] for other in others for i in directions]
        self.world.say(f"cut: {pairs}")
        self.history.cuts.update((source.name, destination.name) for source, destination in pairs)
        for link in sorted(self.world.links, key=lambda each: each.number):
            towards = [end for end in link.ends if (link.other(end), end) in pairs]
            if towards:
                link.cut(towards)

        def heal() -> None:
            self.world.say(f"healed: {pairs}")
            self.history.cuts.difference_update((source.name, destination.name) for source, destination in pairs)

        self.world.after(choice.choice([choice.uniform(0.01, 2), choice.uniform(1, 10)]), heal)

    def _is_settled(self) -> bool:
        """Whether all have ended, but for newcomers that find nobody: the first generation needs all tasks."""
        living = self._living()
        if any(each.state is not None for each in living):
            return False
        return len(living) < len(self.trainers) or any(each.has_ended for each in self.trainers)

    def run(self) -> None:
        """Lets everything happen, and checks what is left."""
        until = _FAULTS_END
        self.world.run(until)
        while not self._is_settled():
            for each in self._living():
                assert until < _LAST, f"{each} waits for ever after step {each.step}: {each.survivors.status()}"
            until += 10.0
            self.world.run(until)
        for each in self.trainers:
            assert not each.has_ended or each.step == self.history.last_step


def run_seeds(first: int, count: int, verbose: bool = False) -> None:
    """Runs simulations; a seed that fails is in the message of the error."""
    run_each(lambda seed: ElasticSimulation(seed, verbose).run(), "elastic_simulation", first, count)


if __name__ == "__main__":
    main_of(run_seeds, __doc__)
