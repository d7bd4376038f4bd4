"""Attempts of SurvivorAgreement to find the next generation, their steps and other instructions, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from thalweg.dist.group_agreement import Formed, Member


class Reachable(Enum):
    """What is known of a member after an attempt to reach it."""

    PRESENT = "present"
    SILENT = "silent"  # It may be cut off, and go on.
    ENDED = "ended"  # Nothing, or another incarnation, answers at its address.


# The steps of an attempt. Each ends with the event that it names.


class Reach(NamedTuple):
    """Try to reach a member; `reached`."""

    member: Member


class AskStatus(NamedTuple):
    """Ask a member, in any incarnation if its own is 0, for the newest generation that it knows; `found`."""

    member: Member


class Summon(NamedTuple):
    """Tell a member that this task leads, and ask for the newest generation that it knows; `found`."""

    member: Member
    last: int  # the newest generation that this task knows


class Check(NamedTuple):
    """Tell a member that its generation has begun here, and ask for the newest that it knows; `found`."""

    member: Member
    last: int  # that generation


class Ask(NamedTuple):
    """Ask a member for the next generation; `answered` or `turned_away`."""

    member: Member
    own: Member
    last: int  # the newest generation that this task knows


class Form(NamedTuple):
    """Connect to the members of a generation, and begin it; `form_ended`."""

    formed: Formed


class Pause(NamedTuple):
    """Wait, if it says so only until another member asks; `woken`."""

    seconds: float
    ends_when_asked: bool


class Agreed(NamedTuple):
    """The attempt has ended: the generation has begun."""

    formed: Formed


class NotRunning(NamedTuple):
    """The attempt has ended: nobody knows of a generation that this newcomer could join."""


class Failed(NamedTuple):
    """The attempt has ended: it took too long."""

    message: str


Step = Reach | AskStatus | Summon | Check | Ask | Form | Pause
End = Agreed | NotRunning | Failed

# For members that ask this one, and for the core.


class Tell(NamedTuple):
    """Answer a member that asks."""

    asker: int
    formed: Formed


class TurnAway(NamedTuple):
    """Let a member that asks look for the leader again."""

    asker: int


class Dissolve(NamedTuple):
    """End the runs of a generation, on all members, if it is the present one."""

    generation: int
    message: str


Instruction = Step | End | Tell | TurnAway | Dissolve


class Asking(NamedTuple):
    """A member that waits for the next generation."""

    asker: int  # the number of the request
    member: Member
    last: int  # the newest generation that it knows


class Phase(Enum):
    """What an attempt does, and by which steps."""

    HEED = "asks for the list of a newer generation that it has heard of", AskStatus
    SEARCH = "as a newcomer, asks around for a group", AskStatus
    REACH = "goes through the list", Reach
    SUMMON = "leads, and summons members that have not asked", Summon
    LOOK = "leads a minority, and asks around whether others have gone on", AskStatus
    ASK = "waits for the answer of another member", Ask
    FORM = "has agreed, and begins the generation", Form
    CHECK = "has begun the generation, and asks the leader whether it is still the newest", Check
    PAUSE = "waits before it begins again", Pause

    def __init__(self, meaning: str, step: type) -> None:
        """Takes what the docstring says."""
        self.meaning = meaning
        self.step = step


@dataclass
class Attempt:
    """An attempt that is under way."""

    own: Member
    until: float
    fallback: tuple[Member, ...]  # the list if no generation is known
    is_newcomer: bool
    step: Step | None = None
    phase: Phase = Phase.PAUSE
    adopted: Formed | None = None  # a newer generation than that of this member
    left: list[Member] = field(default_factory=list)  # to be reached or asked in this phase
    present: list[Member] = field(default_factory=list)
    ended: list[Member] = field(default_factory=list)
    told: tuple[Asking, ...] = ()
    leader: Member | None = None  # if another one leads
    why: str = ""
