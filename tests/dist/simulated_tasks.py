"""The tasks of a simulated cluster, each a worker and a master."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.dist.simulated_world import Link, Process, World
from thalweg import errors
from thalweg.dist import worker
from thalweg.dist.master import CloseWorkerSession, Deregister, MasterState, Register
from thalweg.dist.worker import DropParts, DropSession, OpenSession, WorkerState

Done = Callable[[Any], None]


class Task(Process):
    """A task: it keeps parts for masters, and is a master for clients."""

    def __init__(self, world: World, name: str) -> None:
        """Starts it."""
        super().__init__(world, name)
        self.others: dict[str, Task] = {}
        self._begin()

    def _begin(self) -> None:
        self.incarnation = self.world.random.getrandbits(60)
        self.worker = WorkerState()
        self.worker_sessions: set[str] = set()
        self.parts: dict[int, tuple[str, int]] = {}  # session, and the incarnation that they were planned for
        self.runs: dict[int, Callable[[Any], None]] = {}  # runs of parts that are going on, and their ends
        self.client_sessions: dict[str, MasterSession] = {}
        self.engines: list[MasterSession] = []  # that want to know of losses

    def restart(self) -> None:
        """Comes back as another incarnation."""
        self.world.say(f"{self} comes back")
        self.alive = True
        self.life += 1
        self._begin()

    def validate(self) -> None:
        """Asserts the invariants."""
        self.worker.validate()
        for engine in self.engines:
            engine.state.validate()

    def lost(self, link: Link) -> None:
        """Event: a connection is lost: sessions of its master or client end."""
        self._carry_out(self.worker.lost(link.number))
        for engine in list(self.engines):
            engine.lost(link)
        for name in [name for name, session in self.client_sessions.items() if session.client is link]:
            self.client_sessions.pop(name).close()

    def link_to(self, task: str) -> Link | None:
        """A connection to another task, made if there is none; None if the task is not there."""
        other = self.others[task]
        for link in sorted(self.links, key=lambda each: each.number):
            if link.other(self) is other and not link.is_lost_at[self]:
                return link
        return Link(self, other) if other.alive else None

    def _carry_out(self, instructions: list[worker.Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case OpenSession(session):
                    assert session not in self.worker_sessions
                    self.worker_sessions.add(session)
                case DropParts(numbers):
                    for number in numbers:
                        del self.parts[number]
                case DropSession(session):
                    self.worker_sessions.remove(session)

    # Calls of masters.

    def register(self, link: Link, session: str, incarnation: int, answer: Done) -> None:
        """Registers parts, after they have been compiled: the answer is their number."""
        try:
            self._carry_out(self.worker.register(session, link.number))
        except errors.OpError as e:
            answer(e)
            return

        def compiled() -> None:
            if self.world.random.random() < 0.05:
                answer(errors.InvalidArgumentError(None, None, "these parts cannot be compiled"))
                return
            number = self.world.random.getrandbits(60)
            self.parts[number] = (session, incarnation)
            self._carry_out(self.worker.registered(session, number))
            answer(number)

        self.after(self.world.random.expovariate(50), compiled)

    def deregister(self, link: Link, session: str, numbers: tuple[int, ...], answer: Done) -> None:
        """Forgets parts."""
        self._carry_out(self.worker.deregister(session, link.number, numbers))
        answer(None)

    def close_worker_session(self, link: Link, session: str, answer: Done) -> None:
        """Forgets a session."""
        self._carry_out(self.worker.close(session, link.number))
        answer(None)

    def run_parts(self, link: Link, session: str, number: int, incarnation: int, answer: Done) -> None:
        """Runs parts, which takes a while."""
        if number not in self.parts:
            answer(errors.AbortedError(None, None, "no such step"))
            return
        assert self.parts[number] == (session, self.incarnation), "a step runs on another incarnation"
        assert incarnation == self.incarnation, "a step runs on another incarnation"
        run = self.world.number()
        self.runs[run] = answer

        def ended() -> None:
            self.runs.pop(run)(None)

        self.after(self.world.random.expovariate(20), ended)

    # Calls of clients.

    def create_session(self, link: Link, answer: Done) -> None:
        """Makes a session for a client."""
        name = f"s{self.world.number()}"

        def created() -> None:
            self.client_sessions[name] = MasterSession(self, name, link)
            if link.is_lost_at[self]:
                self.client_sessions.pop(name).close()
            answer(name)

        self.after(self.world.random.expovariate(100), created)

    def _session(self, link: Link, name: str) -> MasterSession | None:
        found = self.client_sessions.get(name)
        return found if found is not None and found.client is link else None

    def make_step(self, link: Link, name: str, tasks: list[str], answer: Done) -> None:
        """Registers a step of a client's session."""
        session = self._session(link, name)
        if session is None:
            answer(errors.AbortedError(None, None, "no such session"))
        else:
            session.make_step(tasks, answer)

    def run_step(self, link: Link, name: str, step: int, answer: Done) -> None:
        """Runs a step of a client's session."""
        session = self._session(link, name)
        if session is None or step not in session.steps:
            answer(errors.AbortedError(None, None, "no such step"))
        else:
            session.run(step, answer)

    def release_step(self, link: Link, name: str, step: int, answer: Done) -> None:
        """Drops a step of a client's session."""
        session = self._session(link, name)
        if session is not None:
            session.drop(step)
        answer(None)

    def close_session(self, link: Link, name: str, answer: Done) -> None:
        """Ends a client's session."""
        if self._session(link, name) is not None:
            self.client_sessions.pop(name).close()
        answer(None)


class MasterSession:
    """A session of a master: what `MasterEngine` does with a MasterState."""

    def __init__(self, task: Task, name: str, client: Link) -> None:
        """Begins without steps."""
        self.task = task
        self.name = name
        self.client = client
        self.state = MasterState(task.name)
        self.links: dict[str, Link] = {}
        self.steps: dict[int, dict[str, tuple[Link, int]]] = {}  # connections and numbers of parts
        task.engines.append(self)

    def __repr__(self) -> str:
        return self.name

    def lost(self, link: Link) -> None:
        """Event: a connection of the task is lost."""
        name = link.other(self.task).name
        if self.links.get(name) is link:
            self.state.lost(name, link.incarnations[name], "lost")
            del self.links[name]

    def make_step(self, tasks: list[str], done: Done) -> None:
        """Registers a step with its tasks: `done` gets its number or an error."""
        others = [name for name in tasks if name != self.task.name]
        try:
            for name in others:
                self._join(name)
            step, instructions = self.state.begin_step(tasks)
        except errors.OpError as e:
            done(e)
            return
        links = {name: self.links[name] for name in others}
        left = {each.task for each in instructions if isinstance(each, Register)}
        failures: list[Exception] = []
        parts: dict[str, tuple[Link, int]] = {}

        def registered(name: str, value: Any) -> None:
            left.discard(name)
            if isinstance(value, Exception):
                failures.append(value)
                error = value if isinstance(value, errors.OpError) else errors.UnavailableError(None, None, str(value))
                self._carry_out(self.state.refused(step, name, error))
            else:
                parts[name] = (links[name], value)
                self._carry_out(self.state.registered(step, name, value))
            if not left:
                finished()

        def finished() -> None:
            self.steps[step] = parts
            done(failures[0] if failures else step)

        for name in sorted(left):
            call = functools.partial(registered, name)
            self._call(links[name], "register", call, links[name].incarnations[name])
        if not others:
            finished()

    def _join(self, name: str) -> None:
        self.state.check_task(name)
        if self.state.incarnation(name) is not None:
            return
        link = self.task.link_to(name)
        if link is None:
            raise errors.UnavailableError(None, None, f"{name} is not there")
        self.state.found(name, link.incarnations[name])
        self.links[name] = link

    def _call(self, link: Link, method: str, done: Done, *args: Any) -> None:
        handle = getattr(link.other(self.task), method)
        link.call(self.task, lambda answer: handle(link, self.name, *args, answer), done)

    def _carry_out(self, instructions: list[Any]) -> None:
        for instruction in instructions:
            link = self.links.get(instruction.task)
            if link is None:
                continue
            match instruction:
                case Deregister(_, numbers):
                    self._call(link, "deregister", lambda answer: None, numbers)
                case CloseWorkerSession(_):
                    self._call(link, "close_worker_session", lambda answer: None)

    def run(self, step: int, done: Done) -> None:
        """Runs a step: `done` is called once every task has ended its parts, or is lost."""
        parts = self.steps[step]
        if any(link.is_lost_at[self.task] for link, _ in parts.values()):
            done(errors.UnavailableError(None, None, "a task of the step is lost"))
            return
        left = set(parts)
        failures: list[Exception] = []

        def ended(name: str, value: Any) -> None:
            left.discard(name)
            if isinstance(value, Exception):
                failures.append(value)
            if not left:
                done(failures[0] if failures else None)

        for name, (link, number) in parts.items():
            call = functools.partial(ended, name)
            self._call(link, "run_parts", call, number, link.incarnations[name])
        if not parts:
            done(None)

    def drop(self, step: int) -> None:
        """Drops a step."""
        self.steps.pop(step, None)
        self._carry_out(self.state.drop_step(step))

    def close(self) -> None:
        """Ends the session."""
        self._carry_out(self.state.close())
        self.state.validate()
        self.task.engines.remove(self)
