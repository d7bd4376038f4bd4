"""A benchmark case: the same work written for each framework, and the targets of Thalweg.

The graph side is written once and runs on both Thalweg and TensorFlow (compat.v1): the module is passed in as `tf`.
A builder returns the *step*, a function without arguments that does the work once. The mean of its
result is compared between frameworks before anything is timed; a step that measures itself has no result.
A step may carry the number of its floating-point operations (`with_flops`) or of the bytes that it has to move
(`with_bytes`): the table then shows GFLOP/s or GB/s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

Step = Callable[[], Any]


@dataclass(frozen=True)
class Setting:
    """The settings of a run, the same for all frameworks."""

    threads: int
    quick: bool = False


Builder = Callable[[ModuleType, Setting], Step]


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        about: The measurement, in one line.
        graph: Builds the step for Thalweg and TensorFlow.
        torch: Builds it for PyTorch, if there is a counterpart.
        jax: Builds it for JAX, if there is a counterpart.
        torch_compiled: Builds it for PyTorch with torch.compile, where that is worth a column of its own.
        targets: For a framework, how many times better than it Thalweg has to be.
        at_most: A bound on Thalweg's own value, in `unit`.
        unit: "s" (a time), "B" (memory) or "%" (a fraction).
        self_measured: The step returns its measurement, in `unit`, instead of being timed.
        fresh_process: Every round gets a new process.
        ends_workers: The worker processes of all frameworks end after the case: its step has processes of its own.
        programs: Instead of builders: for a framework, a statement that is timed in a new process.
    """

    about: str
    graph: Builder | None = None
    torch: Builder | None = None
    jax: Builder | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    at_most: float | None = None
    unit: str = "s"
    self_measured: bool = False
    fresh_process: bool = False
    ends_workers: bool = False
    programs: Mapping[str, str] = field(default_factory=dict)
    torch_compiled: Builder | None = None

    def builder(self, framework: str) -> Builder | None:
        """The builder for a framework, or None if it takes no part."""
        return self.graph if framework in ("thalweg", "before", "tensorflow") else getattr(self, framework)

    def program(self, framework: str) -> str | None:
        """The statement for a framework, or None if it takes no part."""
        return self.programs.get("thalweg" if framework == "before" else framework)

    def takes_part(self, framework: str) -> bool:
        """Whether there is a builder or a statement for a framework."""
        return (self.program(framework) if self.programs else self.builder(framework)) is not None


def session(tf: ModuleType, setting: Setting, graph: Any) -> Any:
    """A session on `graph` with the run's number of threads, in either implementation."""
    config = tf.ConfigProto(intra_op_parallelism_threads=setting.threads, inter_op_parallelism_threads=setting.threads)
    return tf.Session(graph=graph, config=config)


def with_flops(step: Step, flops: float) -> Step:
    """The step, with the number of floating-point operations of one call."""
    return _Counted(step, flops=flops)


def with_bytes(step: Step, bytes_moved: float) -> Step:
    """The step, with the number of bytes that one call has to read from and write to memory."""
    return _Counted(step, bytes_moved=bytes_moved)


@dataclass(frozen=True)
class _Counted:
    step: Step
    flops: float | None = None
    bytes_moved: float | None = None

    def __call__(self) -> Any:
        return self.step()
