"""Whole clusters in one process under virtual time: clients, masters and workers as state machines, faults by a seed.

The state machines are those of the product (`dist/master.py`, `dist/worker.py`); what carries their instructions out
there (`master_engine.py`, `task_server.py`, `client_sessions.py`) is modelled here, without sockets and threads. A seed
decides how long messages and compilations take, which connections are cut and who notices when, which processes crash
and when they come back. Calls that arrive in order are handled in any order, as on the threads of a pool. After every
event the states that it concerns are validated. When nothing is left to happen:

- every request of a client that lives has been answered, once;
- no live task keeps a session, parts or steps of a session that has ended;
- no step has run on another incarnation than the one that it was planned for.

    python -m tests.dist.simulation --seeds 1000000
    python -m tests.dist.simulation --seed 1234 --verbose
"""

from __future__ import annotations

from tests.dist.seeds import main_of, run_each
from tests.dist.simulated_client import Client
from tests.dist.simulated_tasks import Task
from tests.dist.simulated_world import World


class Simulation:
    """One run: a few tasks and clients that come and go."""

    def __init__(self, seed: int, verbose: bool = False) -> None:
        """Makes the cluster, and decides what will go wrong when."""
        self.world = World(seed, verbose)
        choice = self.world.random
        self.tasks = [Task(self.world, f"/job:t/replica:0/task:{i}") for i in range(choice.randint(2, 4))]
        for task in self.tasks:
            task.others = {each.name: each for each in self.tasks}
        for _ in range(choice.randint(1, 4)):
            client = Client(self.world, choice.choice(self.tasks), self.tasks)
            self.world.after(choice.uniform(0, 3), client.begin)
        for _ in range(choice.choice([0, 0, 1, 2, 4])):
            self.world.after(choice.uniform(0, 8), self._crash)
        for _ in range(choice.choice([0, 0, 1, 3])):
            self.world.after(choice.uniform(0, 8), self._cut)

    def _crash(self) -> None:
        living = [each for each in self.world.processes if each.alive]
        if not living:
            return
        victim = self.world.random.choice(living)
        self.world.say(f"{victim} crashes")
        victim.crash()
        if isinstance(victim, Task):
            self.world.after(self.world.random.uniform(0.1, 3), victim.restart)

    def _cut(self) -> None:
        if self.world.links:
            link = self.world.random.choice(sorted(self.world.links, key=lambda each: each.number))
            self.world.say(f"{link} is cut")
            link.cut()

    def run(self) -> None:
        """Runs all events, and checks the state of the cluster after them."""
        self.world.run()
        for client in (each for each in self.world.processes if isinstance(each, Client)):
            assert not client.alive or client.done, f"{client} waits for ever for {client.unanswered}"
            assert not client.alive or not client.unanswered, f"{client} has no answer to {client.unanswered}"
        for task in self.tasks:
            assert task.alive, f"{task} has not come back"
            assert not task.client_sessions, f"{task} keeps {task.client_sessions} of clients that are gone"
            assert not task.worker_sessions, f"{task} keeps the sessions {task.worker_sessions}"
            assert not task.parts, f"{task} keeps the parts {task.parts}"
            assert not task.runs, f"{task} runs {task.runs} for ever"
            task.validate()


def run_seeds(first: int, count: int, verbose: bool = False) -> None:
    """Runs simulations; a seed that fails is in the message of the error."""
    run_each(lambda seed: Simulation(seed, verbose).run(), "simulation", first, count)


if __name__ == "__main__":
    main_of(run_seeds, __doc__)
