"""What an op does beside computing its outputs (Effect), and how tensors move through it (Flow).

Each definition says both once; passes, placement, functions and gradients ask the registry (`effect_of`, `flow_of`)
instead of keeping lists of op names.
"""

from __future__ import annotations

import enum


class Effect(enum.Enum):
    """What a run of a node does beside computing its outputs."""

    NONE = "none"
    """Nothing: the outputs depend on inputs and attributes only."""
    FED = "fed"
    """Nothing, but the value is given to the step from outside: placeholders."""
    READS = "reads"
    """Looks at a resource (variable, queue, table, iterator) and leaves it as it is. Must run after earlier writes."""
    WRITES = "writes"
    """Changes a resource: assigns, adds or takes elements, initializes, closes, destroys."""
    CREATES = "creates"
    """Returns the handle of a resource, or a dataset, that it makes or finds by name; of no use without its readers."""
    RANDOM = "random"
    """Draws random numbers: needs not run if its outputs are not read, but running it again gives other numbers."""
    STEP = "step"
    """Uses state that lives within one step (TensorArrays, stacks, temporary variables); flows keep the order."""
    EXTERNAL = "external"
    """Acts on or depends on the world outside: prints, uses files or the clock, runs Python code, ends the step."""
    CALLS = "calls"
    """Does whatever the functions do that it calls."""
    UNKNOWN = "unknown"
    """Stateful, and nothing more is said: may do any of the above. For op libraries of users; ours say what they do."""

    @property
    def is_stateful(self) -> bool:
        """Whether ops with this effect are stateful in TensorFlow's sense, unless their definition says otherwise."""
        return self not in (Effect.NONE, Effect.FED)

    @property
    def must_run(self) -> bool:
        """Whether a node must run, in the order of the program, even if its outputs have no readers."""
        return self in _MUST_RUN


class Flow(enum.Enum):
    """How tensors get from the inputs of a node to its outputs."""

    NONE = "none"
    """A kernel computes outputs of inputs, when all inputs are ready."""
    FORWARD = "forward"
    """The only output is the first input as it is: Identity and its kin."""
    SWITCH = "switch"
    """The first input goes to one of the outputs, the others are dead."""
    MERGE = "merge"
    """The first input that is not dead goes on; does not wait for the others."""
    ENTER = "enter"
    """The input goes into a frame (a loop)."""
    EXIT = "exit"
    """The input leaves its frame."""
    NEXT_ITERATION = "next iteration"
    """The input goes to the next iteration of its frame: the source of the only back edges."""
    LOOP_COND = "loop condition"
    """The input decides whether its loop goes on."""
    CALL = "call"
    """The outputs are those of the function in the attribute 'f'."""
    BRANCH = "branch"
    """The outputs are those of one of several functions."""
    LOOP = "loop"
    """The outputs are those of a function that is called any number of times."""

    @property
    def is_primitive(self) -> bool:
        """Whether it is one of the control-flow primitives, which need frames and dead tokens."""
        return self in _PRIMITIVES

    @property
    def passes_input(self) -> bool:
        """Whether outputs are the first input itself, so that a resource handle can be followed through the node."""
        return self in _PASSING

    @property
    def calls(self) -> bool:
        """Whether the node calls functions, which its attributes name."""
        return self in (Flow.CALL, Flow.BRANCH, Flow.LOOP)


_MUST_RUN = frozenset((Effect.WRITES, Effect.EXTERNAL, Effect.CALLS, Effect.UNKNOWN))
_PRIMITIVES = frozenset((Flow.SWITCH, Flow.MERGE, Flow.ENTER, Flow.EXIT, Flow.NEXT_ITERATION, Flow.LOOP_COND))
_PASSING = frozenset((Flow.FORWARD, Flow.SWITCH, Flow.MERGE, Flow.ENTER, Flow.EXIT, Flow.NEXT_ITERATION))
