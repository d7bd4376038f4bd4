"""The clients of a simulated cluster."""

from __future__ import annotations

from typing import Any

from tests.dist.simulated_tasks import Done, Task
from tests.dist.simulated_world import Link, Process, World


class Client(Process):
    """A client: it makes a session with a master, and steps, runs them, and tries again when something is lost."""

    def __init__(self, world: World, master: Task, tasks: list[Task]) -> None:
        """Takes its master, and all tasks that its steps may use."""
        super().__init__(world, f"client{world.number()}")
        self.master = master
        self.tasks = tasks
        self.done = False
        self.unanswered: set[str] = set()
        self._sessions_left = world.random.randint(1, 4)
        self._link: Link | None = None

    def begin(self) -> None:
        """Connects, and makes a session; again and again until the master is there."""
        if not self.alive:
            return
        choice = self.world.random
        if self._sessions_left == 0:
            self._hang_up()
            self.done = True
            return
        if self._link is None or self._link.is_lost_at[self]:
            if not self.master.alive:
                self.after(choice.uniform(0.1, 0.5), self.begin)
                return
            self._link = Link(self, self.master)
        self._sessions_left -= 1
        self._ask("create_session", self._created)

    def _hang_up(self) -> None:
        if self._link is not None and not self._link.is_lost_at[self]:
            self._link.close(self)

    def _ask(self, method: str, then: Done, *args: Any) -> None:
        request = f"{method} {self.world.number()}"
        self.unanswered.add(request)
        link = self._link
        assert link is not None

        def answered(value: Any) -> None:
            self.world.say(f"{self}: {request} {args} -> {value!r}")
            assert request in self.unanswered, f"{request} was answered twice"
            self.unanswered.remove(request)
            if isinstance(value, ConnectionError):
                self.after(self.world.random.uniform(0.01, 0.2), self.begin)
            else:
                then(value)

        handle = getattr(self.master, method)
        link.call(self, lambda answer: handle(link, *args, answer), answered)

    def _created(self, session: str) -> None:
        self._step(session, self.world.random.randint(0, 5))

    def _step(self, session: str, left: int) -> None:
        choice = self.world.random
        if left == 0:
            if choice.random() < 0.3:  # A client may also just go on with another session, or hang up.
                self._hang_up()
                self.begin()
            else:
                self._ask("close_session", lambda answer: self.begin(), session)
                if choice.random() < 0.3:
                    self._ask("make_step", lambda answer: None, session, self._some_tasks())
            return
        runs = choice.randint(0, 3)

        def made(value: Any) -> None:
            if isinstance(value, Exception):
                self._step(session, 0 if choice.random() < 0.5 else left - 1)
                return
            waiting = [None] * runs

            def ended(value: Any) -> None:
                waiting.pop()
                if not waiting:
                    self._step(session, left - 1)

            for _ in range(runs):
                self._ask("run_step", ended, session, value)
            if choice.random() < 0.3:
                self._ask("release_step", lambda answer: None, session, value)
            if runs == 0:
                self._step(session, left - 1)

        self._ask("make_step", made, session, self._some_tasks())

    def _some_tasks(self) -> list[str]:
        choice = self.world.random
        return sorted(each.name for each in choice.sample(self.tasks, choice.randint(1, len(self.tasks))))
