"""CollectiveGroups: forms the collective groups of a task: asks the leader, connects the members, tells the core.

The leader is a fixed task of the cluster: the first chief, else the first worker, else the first task. It only brings
members together; tensors move directly between them, and runs of collective ops never come through here.
"""

from __future__ import annotations

import threading
import time
import weakref
import zlib
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.dist.directory import Directory
from thalweg.dist.group_agreement import Formed, GroupAgreement, Instruction, Member, Refused
from thalweg.dist.names import job_and_index, short_task
from thalweg.dist.open_groups import OpenGroups, asking_member, formed_of, message_of
from thalweg.dist.peers import Peers
from thalweg.platform import logging

_LOG_SECONDS = 10.0
_SEARCH_SECONDS = 11.0  # long enough to say once whom it waits for
_LEADERS = 1 << 16


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
        self._agreement = GroupAgreement(time.time_ns, zlib.crc32(task.encode()) % _LEADERS, _LEADERS)
        self._waiting: dict[tuple[int, tuple[str, str]], list[_Waiting]] = {}
        own = weakref.ref(self)

        def join(group: int, size: int, device: str) -> None:
            found = own()
            if found is not None:
                found._join(group, size, device)

        lock, agreement = self._lock, self._agreement

        def next_generation(last: int) -> int:
            with lock:
                return agreement.next_generation(last)

        def form(formed: Formed) -> None:
            found = own()
            if found is not None:
                found._form(formed)

        self.native = core.Collectives(network, devices, join, logging.warning)
        self.open_groups = OpenGroups(
            task, incarnation, self.native, directory, peers, next_generation, form, self._closed.is_set
        )

    def close(self) -> None:
        """Ends the waiting for groups."""
        self._closed.set()
        with self._lock:
            waiting = [each for several in self._waiting.values() for each in several]
            self._waiting.clear()
        self.open_groups.close()
        for each in waiting:
            each.decided.set()

    # As a member.

    def _join(self, group: int, size: int, device: str) -> None:
        """Joins a group, on a thread of its own; the core is told how that ends."""
        try:
            self._form(self._ask(group, size, device))
        except errors.OpError as e:
            self.native.refused(group, device, e.error_code, e.message)
        except Exception as e:
            self.native.refused(group, device, errors.INTERNAL, f"Collective group {group} cannot be formed: {e!r}")
            raise

    def _ask(self, group: int, size: int, device: str) -> Formed:
        """Asks the leader, and waits until all members have."""
        leader = self.leader()
        member = self.open_groups.member(device)
        last = self.native.generation(group)
        while True:
            if self.open_groups.is_open(group):
                if self.open_groups.members(group):
                    return self.open_groups.reform(group, device, ())
                running = self.open_groups.join_running(group, member)
                if running is not None:
                    return running
            if leader == self._task:
                formed = self._agree(group, size, member, last)
                if formed is not None:
                    return formed
            else:
                connection = self._reach_leader(leader, group)
                if connection is None:
                    continue
                answer = self._peers.call(
                    connection, "join_group", group=group, size=size, member=member._asdict(), last_generation=last
                )
                return formed_of(group, answer)

    def _reach_leader(self, leader: str, group: int) -> Any:
        """A connection to the leader; None if the group is open and may run without the leader meanwhile."""
        until = time.monotonic() + _SEARCH_SECONDS if self.open_groups.is_open(group) else float("inf")
        try:
            found = self._peers.wait_for([leader], lambda: self._closed.is_set() or time.monotonic() > until)
        except errors.CancelledError:
            if self._closed.is_set():
                raise
            return None
        return found[leader]

    def _form(self, formed: Formed) -> None:
        """Connects to the other members, and gives the group to the core."""
        members: list[tuple[str, str, int, Any, str]] = []
        for each in formed.members:
            peer = None
            if each.task != self._task:
                peer = self._peers.try_connect(each.task, each.incarnation, each.address)
            members.append((each.task, each.device, each.incarnation, peer, each.host))
        self.open_groups.formed(formed)
        self.native.formed(formed.group, formed.generation, members)
        self.open_groups.begun(formed)

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
        member = asking_member(connection, request)
        formed = self._agree(request.group, request.size, member, request.last_generation)
        if formed is None:
            formed = self.open_groups.wait_for_next(connection, request.group, member, request.last_generation)
        return message_of(formed)

    def lost(self, connection: Any) -> None:
        """A connection is lost: its task no longer waits for groups."""
        with self._lock:
            self._agreement.lost(connection.task, connection.incarnation)
            gone = [key for key in self._waiting if key[1][0] == connection.task]
            woken = [each for key in gone for each in self._waiting.pop(key)]
        for each in woken:
            each.decided.set()

    def _agree(self, group: int, size: int, member: Member, last_generation: int) -> Formed | None:
        """Waits until all members have joined; None if the member should look for the group as it runs now."""
        own = _Waiting()
        with self._lock:
            self._waiting.setdefault((group, member.place), []).append(own)
            self._carry_out(self._agreement.join(group, size, member, last_generation))
            self._agreement.validate()
        said = time.monotonic()
        while not own.decided.wait(1.0) and not self._closed.is_set():
            if self.open_groups.is_open(group) and self._goes_elsewhere(group, member, last_generation, own):
                return None
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

    def _goes_elsewhere(self, group: int, member: Member, last_generation: int, own: _Waiting) -> bool:
        """Takes a member of an open group back that waits while the group runs, or may run, without it."""
        if member.task != self._task and self.open_groups.known_generation(group) <= last_generation:
            return False
        with self._lock:
            waiting = self._waiting.get((group, member.place), [])
            if own not in waiting:
                return False  # decided just now
            waiting.remove(own)
            if not waiting:
                self._agreement.withdraw(group, member)
            return True

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            members = instruction.members if isinstance(instruction, Formed) else (instruction.member,)
            for member in members:
                for each in self._waiting.pop((instruction.group, member.place), []):
                    each.answer = instruction
                    each.decided.set()
