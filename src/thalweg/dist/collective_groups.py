"""CollectiveGroups: forms the collective groups of a task: asks the leader, connects the members, tells the core.

The leader is a fixed task of the cluster: the first chief, else the first worker, else the first task. It only brings
members together; tensors move directly between them, and runs of collective ops never come through here.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.dist.directory import Directory
from thalweg.dist.group_agreement import Formed, GroupAgreement, Instruction, Member, Refused
from thalweg.dist.messages import messages
from thalweg.dist.names import job_and_index, short_task
from thalweg.dist.peers import Peers
from thalweg.platform import logging

_LOG_SECONDS = 10.0


class _Waiting:
    """A member that waits for its group."""

    def __init__(self) -> None:
        self.decided = threading.Event()
        self.answer: Instruction | None = None


class CollectiveGroups:
    """The collective groups that devices of one task are members of, and those that it leads. Thread-safe."""

    def __init__(
        self, task: str, incarnation: int, network: Any, devices: Any, directory: Directory, peers: Peers
    ) -> None:
        """Takes the parts of a TaskServer."""
        self._task = task
        self._incarnation = incarnation
        self._directory = directory
        self._peers = peers
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._agreement = GroupAgreement(time.time_ns)
        self._waiting: dict[tuple[int, tuple[str, str]], list[_Waiting]] = {}
        own = weakref.ref(self)

        def join(group: int, size: int, device: str) -> None:
            found = own()
            if found is not None:
                found._join(group, size, device)

        self.native = core.Collectives(network, devices, join, logging.warning)

    def close(self) -> None:
        """Ends the waiting for groups."""
        self._closed.set()
        with self._lock:
            waiting = [each for several in self._waiting.values() for each in several]
            self._waiting.clear()
        for each in waiting:
            each.decided.set()

    # As a member.

    def _join(self, group: int, size: int, device: str) -> None:
        """Joins a group, on a thread of its own; the core is told how that ends."""
        try:
            self._form(group, self._ask(group, size, device))
        except errors.OpError as e:
            self.native.refused(group, device, e.error_code, e.message)
        except Exception as e:
            self.native.refused(group, device, errors.INTERNAL, f"Collective group {group} cannot be formed: {e!r}")
            raise

    def _ask(self, group: int, size: int, device: str) -> Formed:
        """Asks the leader, and waits until all members have."""
        leader = self.leader()
        member = Member(self._task, device, self._incarnation, self._directory.address(self._task))
        if leader == self._task:
            return self._agree(group, size, member)
        connection = self._peers.wait_for([leader], self._closed.is_set)[leader]
        answer = self._peers.call(connection, "join_group", group=group, size=size, member=member._asdict())
        members = (Member(each.task, each.device, each.incarnation, each.address) for each in answer.member)
        return Formed(group, answer.generation, tuple(members))

    def _form(self, group: int, formed: Formed) -> None:
        """Connects to the other members, and gives the group to the core."""
        members: list[tuple[str, str, int, Any]] = []
        for each in formed.members:
            peer = None
            if each.task != self._task:
                peer = self._peers.try_connect(each.task, each.incarnation, each.address)
            members.append((each.task, each.device, each.incarnation, peer))
        self.native.formed(group, formed.generation, members)

    def address(self, task: str) -> str:
        """The present address of a task."""
        return self._directory.address(task)

    def leader(self) -> str:
        """The task that brings members together."""
        tasks = list(self._directory.tasks())
        for job in ("chief", "worker"):
            of_job = [task for task in tasks if job_and_index(task)[0] == job]
            if of_job:
                return min(of_job, key=lambda task: job_and_index(task)[1])
        return min(tasks, key=job_and_index)

    # As the leader.

    def join_group(self, connection: Any, request: Any) -> Any:
        """A member asks to join; answers when the group is complete."""
        asked = request.member
        if asked.task != connection.task or asked.incarnation != connection.incarnation:
            raise errors.InvalidArgumentError(None, None, f"{connection.task} cannot join as {asked.task}.")
        member = Member(asked.task, asked.device, asked.incarnation, asked.address)
        formed = self._agree(request.group, request.size, member)
        return messages()["GroupFormed"](
            generation=formed.generation, member=[each._asdict() for each in formed.members]
        )  # fmt: skip

    def lost(self, connection: Any) -> None:
        """A connection is lost: its task no longer waits for groups."""
        with self._lock:
            self._agreement.lost(connection.task, connection.incarnation)
            gone = [key for key in self._waiting if key[1][0] == connection.task]
            woken = [each for key in gone for each in self._waiting.pop(key)]
        for each in woken:
            each.decided.set()

    def _agree(self, group: int, size: int, member: Member) -> Formed:
        own = _Waiting()
        with self._lock:
            self._waiting.setdefault((group, member.place), []).append(own)
            self._carry_out(self._agreement.join(group, size, member))
            self._agreement.validate()
        said = time.monotonic()
        while not own.decided.wait(1.0) and not self._closed.is_set():
            if member.task == self._task and time.monotonic() - said > _LOG_SECONDS:
                said = time.monotonic()
                with self._lock:
                    joined = [short_task(each.task) for each in self._agreement.waiting(group)]
                logging.info(
                    "Collective group %s waits for %s more members; so far: %s",
                    group, size - len(joined), ", ".join(joined),
                )  # fmt: skip
        match own.answer:
            case Formed():
                return own.answer
            case Refused(message=message):
                raise errors.InvalidArgumentError(None, None, message)
        raise errors.CancelledError(None, None, f"Task {self._task} was closed, or has lost the member that asked.")

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            members = instruction.members if isinstance(instruction, Formed) else (instruction.member,)
            for member in members:
                for each in self._waiting.pop((instruction.group, member.place), []):
                    each.answer = instruction
                    each.decided.set()
