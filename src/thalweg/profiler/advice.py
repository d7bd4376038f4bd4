"""tf.profiler.advise: what to look at first in a profiled model, as the checkers of TensorFlow's AdviceProto.

The tensorboard package does not ship AdviceProto, so it is made here with TensorFlow's names and numbers of fields.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from thalweg.devices import plugins
from thalweg.graph.messages.runtime_messages import Field, make_messages
from thalweg.profiler.profile_options import ProfileOptionBuilder
from thalweg.profiler.step_records import is_accelerator

if TYPE_CHECKING:
    from thalweg.profiler.model_profile import ProfileNode, Profiler

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "Checker": (("reports", 2, "*string"),),
    "AdviceProto": (("checkers", 1, "map Checker"),),
}
_TOP: Final = 3  # how many of the most expensive are named
_LEAST_UTILIZATION: Final = 0.5  # of an accelerator's time; below it the checker reports the device


def __getattr__(name: str) -> Any:
    """Makes the message classes when the first of them is asked for: protobuf takes its time to load."""
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = make_messages("thalweg/advice.proto", _FIELDS, "tensorflow.tfprof", own_pool=True)
    globals().update(made)
    return made[name]


def advice(profiler: Profiler, options: Mapping[str, Any] | None) -> Any:
    """The AdviceProto of a profiler; prints it, too."""
    wanted = list(options if options is not None else CHECKERS)
    unknown = [name for name in wanted if name not in CHECKERS]
    if unknown:
        raise ValueError(f"There is no checker {unknown[0]!r}; there are {', '.join(CHECKERS)}.")
    found = sys.modules[__name__].AdviceProto()
    for name in wanted:
        found.checkers[name].reports.extend(CHECKERS[name](profiler))
        print(f"\n{name}:", *found.checkers[name].reports, sep="\n")
    return found


def _check_accelerators(profiler: Profiler) -> Iterable[str]:
    """Devices with memory of their own that computed for less than half of the step.

    Of a plug-in's device a trace knows when kernels were issued, not how long they ran: it says so instead.
    """
    for records in profiler.steps.values():
        start, end = min((r.start for r in records), default=0), max((r.end for r in records), default=0)
        for device in sorted({record.device for record in records if is_accelerator(record.device)}):
            if device.rpartition("/device:")[2].partition(":")[0] in plugins.loaded:
                yield f"device: {device} utilization is not known: its kernels are traced as they are issued"
                continue
            busy = sum(record.own for record in records if record.device == device)
            share = busy / max(1, end - start)
            if share < _LEAST_UTILIZATION:
                yield f"device: {device} low utilization: {share:.2f}"


def _check_operations(profiler: Profiler) -> Iterable[str]:
    """Ops that there are faster ones for."""
    operations = profiler.graph.get_operations()
    used = {record.device for records in profiler.steps.values() for record in records}
    nhwc = [
        op.name for op in operations if op.attrs.get("data_format") in (b"NHWC", "NHWC") and is_accelerator(op.device)
    ]
    if nhwc and (not used or any(map(is_accelerator, used))):
        yield f"Operations on an accelerator use data_format NHWC; NCHW may be faster there: {_some(nhwc)}"
    # The last node of tf.nn.batch_normalization; the fused op takes images.
    small = [
        op.name for op in operations if op.name.endswith("batchnorm/add_1") and op.outputs[0].shape.rank in (None, 4)
    ]
    whole = [op.name for op in operations if op.type == "BatchNormWithGlobalNormalization"]
    if small or whole:
        yield f"Maybe use faster FusedBatchNorm instead of BatchNorm: {_some(small + whole)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_TOP]) + (f" and {len(names) - _TOP} more" if len(names) > _TOP else "")


def _check_expenses(profiler: Profiler) -> Iterable[str]:
    """The op types, nodes and lines of the program that took most of the time."""
    if not any(profiler.steps.values()):
        print("Missing run_meta for ExpensiveOperationChecker", file=sys.stderr)
        return
    options = ProfileOptionBuilder().with_empty_output().build()
    for what, root in (
        ("operation type", profiler.profile_operations(options)),
        ("graph node", profiler.profile_graph(options)),
        ("line", profiler.profile_python(options)),
    ):
        most = sorted((node for node in root.children if node.exec_micros), key=lambda node: -node.exec_micros)[:_TOP]
        if most:
            yield "\n".join(_ranked(number, what, node, root) for number, node in enumerate(most, 1))


def _ranked(number: int, what: str, node: ProfileNode, root: ProfileNode) -> str:
    share = 100 * node.exec_micros / max(1, root.total_exec_micros)
    return (
        f"top {number} {what}: {node.name}, cpu: {node.cpu_exec_micros}us, accelerator: "
        f"{node.accelerator_exec_micros}us, total: {node.exec_micros}us ({share:.2f}%)"
    )


def _check_job(profiler: Profiler) -> Iterable[str]:
    """Nothing, as in TensorFlow's published version: it is about jobs of a cluster."""
    return ()


CHECKERS: Final[dict[str, Callable[[Profiler], Iterable[str]]]] = {
    "AcceleratorUtilizationChecker": _check_accelerators,
    "ExpensiveOperationChecker": _check_expenses,
    "JobChecker": _check_job,
    "OperationChecker": _check_operations,
}
