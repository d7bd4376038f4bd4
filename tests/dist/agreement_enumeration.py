"""Every order of events in which a few members of an open group can agree on its next generation, with one fault.

The members are the state machines of the product; time is not modelled: whatever can happen next may do so, in any
order, however long it takes. All states that can be reached are visited once. In each of them no two members believe
in one generation with different members, and while all live, no two generations are complete at once; from each of them
the members can still come to one generation of all that live. A member that must wait for ever is so found as well as
two that wait for each other.

It is one file of more than 500 lines, because the events of the model share its states.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.dist.agreement_steps import (
    Ask,
    AskStatus,
    Check,
    Dissolve,
    Form,
    Instruction,
    Pause,
    Phase,
    Reach,
    Reachable,
    Summon,
    Tell,
    TurnAway,
)
from thalweg.dist.group_agreement import Formed, Member
from thalweg.dist.survivor_agreement import SurvivorAgreement

_FIRST = 1000  # Generations are larger than all other numbers in a state.


@dataclass
class Request:
    """A member asks another."""

    source: int
    target: int
    own: Member
    other: Member
    last: int
    has_arrived: bool = False
    is_lost: bool = False  # at the target
    answer: Formed | None = None
    is_answered: bool = False
    was_told: bool = False


@dataclass
class Node:
    """A task."""

    state: SurvivorAgreement
    own: Member
    is_alive: bool = True
    is_stopped: bool = False
    whole: int = 0  # the generation that the core runs; 0 if it is broken
    step: Any = None
    begun: set[int] = field(default_factory=set)
    told: tuple[int, ...] = ()  # requests that its last attempt has answered


@dataclass
class Cluster:
    """All tasks, and what is under way between them."""

    nodes: list[Node]
    requests: dict[int, Request] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)  # generations that a member has dissolved
    cut: tuple[int, int] | None = None
    faults: tuple[str, ...] = ()  # one of these is still to come
    to_heal: str = ""
    has_crashed: bool = False

    def clone(self) -> Cluster:
        """A copy that shares what never changes."""
        nodes = [replace(each, state=_clone(each.state), begun=set(each.begun)) for each in self.nodes]
        requests = {number: replace(each) for number, each in self.requests.items()}
        return replace(self, nodes=nodes, requests=requests, over=set(self.over))

    def key(self) -> str:
        """Tells states apart, but for how large the numbers of generations and requests are."""
        told = {number for node in self.nodes for number in node.told}
        for number, request in list(self.requests.items()):
            if request.source == -1 and request.is_answered and number not in told:
                del self.requests[number]  # Nobody will hear the answer.
        self._number_requests()
        used = {each.state.generation for each in self.nodes}
        used |= {each.step.formed.generation for each in self.nodes if isinstance(each.step, Form)}
        used |= {each.answer.generation for each in self.requests.values() if each.answer is not None}
        self.over &= used
        for node in self.nodes:
            node.begun &= used
        parts = [self.requests, sorted(self.over), self.cut, self.faults, self.to_heal, self.has_crashed]
        for node in self.nodes:
            if not node.is_alive:
                parts.append((node.own, sorted(node.begun)))  # What it knew is gone with it.
                continue
            _forget(node.state)
            state = {name: value for name, value in vars(node.state).items() if name != "_next_generation"}
            state["_departed"] = sorted(state["_departed"])
            parts.append((node.is_stopped, node.whole, node.step, sorted(node.begun), node.told, state))
        text = repr(parts)
        numbers: dict[str, str] = {}
        last = _FIRST
        for number in sorted({int(each) for each in re.findall(r"\d{4,}", text)}):
            last += 1
            last += (number - last) % len(self.nodes)
            numbers[str(number)] = str(last)
        return re.sub(r"\d{4,}", lambda found: numbers[found[0]], text)

    def _number_requests(self) -> None:
        """Numbers requests in an order of their contents: a number that is free again is not that of an old request."""
        ordered = sorted(self.requests, key=lambda number: repr(self.requests[number]))
        numbers = {number: i + 1 for i, number in enumerate(ordered)}
        self.requests = {numbers[number]: self.requests[number] for number in ordered}
        for node in self.nodes:
            node.told = tuple(sorted(numbers[each] for each in node.told if each in numbers))
            if node.is_alive:
                _renumber(node.state, numbers)

    def can_reach(self, source: int, target: int) -> bool:
        """Whether a new connection could be made."""
        node = self.nodes[target]
        return node.is_alive and not node.is_stopped and self.cut not in ((source, target), (target, source))

    def is_noticed(self, source: int, target: int) -> bool:
        """Whether a connection may be lost, as one end sees it."""
        return not self.can_reach(source, target)


def _clone(state: SurvivorAgreement) -> SurvivorAgreement:
    made = copy.copy(state)
    made._asking = dict(state._asking)
    made._bases = list(state._bases)
    made._departed = set(state._departed)
    if state._attempt is not None:
        attempt = state._attempt
        made._attempt = replace(
            attempt, left=list(attempt.left), present=list(attempt.present), ended=list(attempt.ended)
        )
    return made


def _renumber(state: SurvivorAgreement, numbers: dict[int, int]) -> None:
    """Gives requests that are still under way other numbers."""
    asking = {task: each._replace(asker=numbers[each.asker]) for task, each in state._asking.items()}
    state._asking = dict(sorted(asking.items()))
    if state._attempt is not None:
        told = (each._replace(asker=numbers.get(each.asker, 0)) for each in state._attempt.told)
        state._attempt.told = tuple(sorted(told))


def _forget(state: SurvivorAgreement) -> None:
    """Drops what no decision depends on."""
    attempt = state._attempt
    if attempt is not None:
        attempt.why = ""
        if attempt.phase in (Phase.HEED, Phase.ASK, Phase.FORM, Phase.CHECK, Phase.PAUSE):
            attempt.left, attempt.present, attempt.ended = [], [], []
        if attempt.phase in (Phase.PAUSE, Phase.ASK):
            attempt.told = ()


def _numbers_of(index: int, size: int) -> Callable[[int], int]:
    return lambda last: last + 1 + (index - last - 1) % size


def cluster_of(size: int, faults: tuple[str, ...]) -> Cluster:
    """Members of a generation that has just broken, for a reason that is gone."""
    members = tuple(Member(f"/job:w/task:{i}", "d:0", 1) for i in range(size))
    formed = Formed(1, _FIRST, members)
    cluster = Cluster([], over={_FIRST}, faults=faults)
    for i, own in enumerate(members):
        state = SurvivorAgreement(1, own.task, 1, _numbers_of(i, size))
        state.open([each.task for each in members])
        state.formed(formed)
        state.begun(_FIRST)
        state.established(_FIRST)
        cluster.nodes.append(Node(state, own, whole=_FIRST, begun={_FIRST}))
    return cluster


def successors(cluster: Cluster) -> Iterator[tuple[str, Cluster]]:
    """What can happen next."""

    def after(name: str, event: Callable[[Cluster], None]) -> tuple[str, Cluster]:
        made = cluster.clone()
        event(made)
        for node in made.nodes:
            node.state.validate()
        return name, made

    yield from (after(f"fault: {each}", _fault(each)) for each in cluster.faults)
    if cluster.to_heal:
        yield after("heal", _heal)
    for i, node in enumerate(cluster.nodes):
        if not node.is_alive or node.is_stopped:
            continue
        if node.whole and (node.whole in cluster.over or _has_lost_a_member(cluster, i)):
            yield after(f"{i} breaks", lambda made, i=i: _dissolve(made, i, made.nodes[i].whole))
        if node.whole and len(node.state._bases) > 1 and _all_have_begun(cluster, node):
            yield after(f"{i} runs", lambda made, i=i: made.nodes[i].state.established(made.nodes[i].whole))
        if not node.whole and node.step is None:
            yield after(f"{i} begins", _begin(i))
        if node.step is not None:
            for name, event in _steps(cluster, i, node.step):
                yield after(f"{i}: {name}", event)
    for number, request in cluster.requests.items():
        for name, event in _deliveries(cluster, number, request):
            yield after(f"request {request.source} to {request.target}: {name}", event)


def _has_lost_a_member(cluster: Cluster, i: int) -> bool:
    for other in cluster.nodes[i].state.members:
        j = _index(other)
        if j != i and (not cluster.can_reach(i, j) or cluster.nodes[j].own != other):
            return True
    return False


def _all_have_begun(cluster: Cluster, node: Node) -> bool:
    return all(
        cluster.nodes[_index(each)].own == each and node.whole in cluster.nodes[_index(each)].begun
        for each in node.state.members
    )


def _index(member: Member) -> int:
    return int(member.task.rpartition(":")[2])


def _fault(name: str) -> Callable[[Cluster], None]:
    kind, _, where = name.partition(" ")

    def happen(cluster: Cluster) -> None:
        cluster.faults = ()
        if kind == "cut":
            i, j = where
            cluster.cut, cluster.to_heal = (int(i), int(j)), name
            return
        node = cluster.nodes[int(where)]
        if kind == "stop":
            node.is_stopped, cluster.to_heal = True, name
            return
        node.is_alive, node.step, node.whole = False, None, 0
        cluster.has_crashed = True
        if kind == "restart":
            cluster.to_heal = name

    return happen


def _heal(cluster: Cluster) -> None:
    kind, _, where = cluster.to_heal.partition(" ")
    cluster.to_heal = ""
    cluster.cut = None
    if kind == "stop":
        cluster.nodes[int(where)].is_stopped = False
    elif kind == "restart":
        i = int(where)
        size = len(cluster.nodes)
        own = cluster.nodes[i].own._replace(incarnation=2)
        state = SurvivorAgreement(1, own.task, 2, _numbers_of(i, size))
        state.open([each.own.task for each in cluster.nodes])
        cluster.nodes[i] = Node(state, own)


def _begin(i: int) -> Callable[[Cluster], None]:
    def happen(cluster: Cluster) -> None:
        node = cluster.nodes[i]
        _carry_out(cluster, i, node.state.begin(node.own, (), 0.0, 1.0, not node.state.members))

    return happen


def _dissolve(cluster: Cluster, i: int, generation: int) -> None:
    cluster.over.add(generation)
    if cluster.nodes[i].whole == generation:
        cluster.nodes[i].whole = 0


def _carry_out(cluster: Cluster, i: int, instructions: list[Instruction]) -> None:
    node = cluster.nodes[i]
    told = []
    for each in instructions:
        match each:
            case Dissolve(generation):
                _dissolve(cluster, i, generation)
            case Tell(asker, formed):
                request = cluster.requests[asker]
                request.answer, request.is_answered, request.was_told = formed, True, True
                told.append(asker)
            case TurnAway(asker):
                cluster.requests[asker].is_answered = True
            case Reach() | AskStatus() | Summon() | Check() | Ask() | Form() | Pause():
                node.step = each
                if isinstance(each, Form):
                    node.told = tuple(told)
                elif isinstance(each, Ask):
                    number = min(set(range(1, 100)) - cluster.requests.keys())
                    cluster.requests[number] = Request(i, _index(each.member), each.own, each.member, each.last)
            case _:
                node.step = None


def _steps(cluster: Cluster, i: int, step: Any) -> Iterator[tuple[str, Callable[[Cluster], None]]]:
    """How the step of a member can end; that of an Ask is a matter of its request."""

    def ends(event: str, *args: Any) -> Callable[[Cluster], None]:
        def happen(made: Cluster) -> None:
            _sweep(made, i)
            _carry_out(made, i, getattr(made.nodes[i].state, event)(*args))

        return happen

    match step:
        case Reach(member):
            j = _index(member)
            other = cluster.nodes[j]
            if not other.is_alive or member.incarnation not in (0, other.own.incarnation):
                yield "ended", ends("reached", Reachable.ENDED)
            else:
                # While a member is stopped or cut off, a connection to it may still seem to be there.
                yield "present", ends("reached", Reachable.PRESENT)
                if not cluster.can_reach(i, j):

                    def silent(made: Cluster) -> None:
                        _sever(made, i, j)
                        ends("reached", Reachable.SILENT)(made)

                    yield "silent", silent
        case AskStatus(member) | Summon(member) | Check(member):
            j = _index(member)
            if not cluster.can_reach(i, j) or member.incarnation not in (0, cluster.nodes[j].own.incarnation):
                yield "no status", ends("found", None)
                return

            def ask(made: Cluster) -> None:
                other = made.nodes[j]
                if isinstance(step, Summon):
                    _carry_out(made, j, other.state.summoned(made.nodes[i].own, step.last))
                elif isinstance(step, Check):
                    other.state.checked(made.nodes[i].own, step.last)
                ends("found", other.state.status())(made)

            yield f"status of {j}", ask
        case Form(formed):
            yield "forms", lambda made: _form(made, i, formed)
        case Pause():
            yield "wakes", ends("woken", 0.0)


def _form(cluster: Cluster, i: int, formed: Formed) -> None:
    node = cluster.nodes[i]
    for each in formed.members:
        j = _index(each)
        if j != i and (not cluster.can_reach(i, j) or cluster.nodes[j].own != each):
            node.told = ()
            _sever(cluster, i, j)
            _carry_out(cluster, i, node.state.form_ended(False, ()))
            return
    _carry_out(cluster, i, node.state.formed(formed))
    node.whole = 0 if formed.generation in cluster.over else formed.generation
    node.begun.add(formed.generation)
    _carry_out(cluster, i, node.state.begun(formed.generation))
    lost = [number for number in node.told if number in cluster.requests and cluster.requests[number].is_lost]
    _carry_out(cluster, i, node.state.form_ended(True, lost))
    for number in node.told:
        if number in cluster.requests and cluster.requests[number].is_lost:
            del cluster.requests[number]
    node.told = ()


def _sever(cluster: Cluster, i: int, j: int) -> None:
    """The connection of two members is lost: when they can, both notice, and break the generation that they run."""
    for one, other in ((i, j), (j, i)):
        node = cluster.nodes[one]
        if node.whole and other in map(_index, node.state.members):
            cluster.over.add(node.whole)


def _sweep(cluster: Cluster, i: int) -> None:
    for number, request in list(cluster.requests.items()):
        if request.target == i and request.is_lost and not request.is_answered:
            cluster.nodes[i].state.withdrawn(number)
            request.is_answered = True


def _deliveries(
    cluster: Cluster, number: int, request: Request
) -> Iterator[tuple[str, Callable[[Cluster], None]]]:  # fmt: skip
    """What can become of a request."""
    source, target = cluster.nodes[request.source], cluster.nodes[request.target]
    is_waiting = source.is_alive and source.own == request.own and isinstance(source.step, Ask)
    is_gone = request.source == -1 or not source.is_alive or source.own != request.own
    is_there = request.other.incarnation in (0, target.own.incarnation)

    def arrive(made: Cluster) -> None:
        made.requests[number].has_arrived = True
        _sweep(made, request.target)
        node = made.nodes[request.target]
        _carry_out(made, request.target, node.state.asked(number, request.own, request.last, bool(node.whole)))

    def answer(made: Cluster) -> None:
        del made.requests[number]
        state = made.nodes[request.source].state
        _sweep(made, request.source)
        if request.answer is None:
            _carry_out(made, request.source, state.turned_away("turned away"))
        else:
            _carry_out(made, request.source, state.answered(request.answer))

    def lose(made: Cluster) -> None:
        """The one that asks gives up; the other one does not know yet."""
        _sever(made, request.source, request.target)
        lost = made.requests[number]
        lost.source = -1
        is_told = number in made.nodes[request.target].told
        rest = [each for each in made.requests.values() if each is not lost and each.own == lost.own]
        # What piles up in the sockets of a stopped member does not differ.
        is_repeated = not lost.has_arrived and any(each.source == -1 and not each.has_arrived for each in rest)
        if is_repeated or (lost.is_answered and not is_told):
            del made.requests[number]
        _carry_out(made, request.source, made.nodes[request.source].state.turned_away("lost"))

    def notice(made: Cluster) -> None:
        made.requests[number].is_lost = True
        _sweep(made, request.target)
        if number not in made.nodes[request.target].told:
            del made.requests[number]

    if is_gone:
        if not target.is_alive or not is_there:
            yield "is gone", lambda made: made.requests.pop(number) and None
            return
        if target.is_alive and not target.is_stopped:
            if not request.has_arrived and not request.is_lost:
                yield "arrives late", arrive
            if not request.is_lost:
                yield "loss is noticed", notice
        return
    can_pass = cluster.can_reach(request.source, request.target) and is_there
    if is_waiting and not source.is_stopped:
        if can_pass and not request.has_arrived:
            yield "arrives", arrive
        if can_pass and request.is_answered:
            yield "is answered", answer
        if not can_pass:
            yield "is lost", lose


def explore(first: Cluster, limit: int) -> int:
    """Visits all states that can be reached, and returns how many there are.

    Raises:
        AssertionError: If an invariant does not hold, with the events that led there.
    """
    keys: dict[str, int] = {first.key(): 0}
    origin: list[tuple[int, str]] = [(0, "")]
    before: list[list[int]] = [[]]
    good: list[int] = []
    waiting = [(0, first)]
    while waiting:
        number, cluster = waiting.pop()
        try:
            for name, made in successors(cluster):
                key = made.key()
                found = keys.get(key)
                if found is None:
                    found = keys[key] = len(origin)
                    assert found < limit, f"more than {limit} states"
                    origin.append((number, name))
                    before.append([])
                    _check(made)
                    if _is_good(made):
                        good.append(found)
                    waiting.append((found, made))
                before[found].append(number)
        except (AssertionError, KeyError) as e:
            raise AssertionError(f"{e}\n" + "\n".join(_path(origin, number))) from e
    reached = set(good)
    while good:
        for number in before[good.pop()]:
            if number not in reached:
                reached.add(number)
                good.append(number)
    stuck = [number for number in range(len(origin)) if number not in reached]
    assert not stuck, f"{len(stuck)} states lead to no agreement:\n" + "\n".join(_path(origin, stuck[0]))
    return len(origin)


def _path(origin: list[tuple[int, str]], number: int) -> list[str]:
    path = []
    while number:
        number, name = origin[number]
        path.append(name)
    return path[::-1]


def _check(cluster: Cluster) -> None:
    beliefs: dict[int, tuple[Member, ...]] = {}
    complete = set()
    for node in cluster.nodes:
        if node.is_alive and node.state.members:
            members = beliefs.setdefault(node.state.generation, node.state.members)
            assert members == node.state.members, f"two lists of one generation: {members} and {node.state.members}"
        is_whole = node.is_alive and node.whole and node.whole not in cluster.over
        if is_whole and all(cluster.nodes[_index(each)].whole == node.whole for each in node.state.members):
            complete.add(node.whole)
    assert cluster.has_crashed or len(complete) <= 1, f"generations {complete} run at once"


def _is_good(cluster: Cluster) -> bool:
    """All that live are in one generation."""
    living = [node for node in cluster.nodes if node.is_alive]
    generations = {node.whole for node in living}
    own = [node.own for node in living]
    return (
        not cluster.to_heal and len(generations) == 1 and 0 not in generations
        and not generations & cluster.over and list(living[0].state.members) == own
    )  # fmt: skip
