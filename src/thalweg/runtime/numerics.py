"""Numeric checks of a step: a run option that finds the first operations whose results are NaN or infinite.

    options = tf.debugging.check_numerics_options()
    metadata = tf.RunMetadata()
    session.run(train_op, options=options, run_metadata=metadata)
    tf.debugging.non_finite_origins(metadata)  # [Origin(node='Log', what='output 0, float32[3]: 1 NaN of 3 elements')]

The option is a watch of TensorFlow's DebugOptions, so that it passes through everything that carries RunOptions; the
findings are a DeviceStepStats of their own in the RunMetadata. Without a RunMetadata the step raises instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg import errors
from thalweg.graph.definitions.op_registry import export

_DEBUG_OP = "CheckNumerics"
# The suffix of the device's name in the DeviceStepStats with the findings.
_SUFFIX = "/numerics"


class Origin(NamedTuple):
    """An operation that made NaN or infinity out of finite inputs, or read one that was fed.

    Attributes:
        node: Its name.
        what: What is wrong, as in 'output 0, float32[3]: 1 NaN of 3 elements'.
    """

    node: str
    what: str


@export("debugging.check_numerics_options")
def check_options(options: Any = None) -> Any:
    """Adds the request for a numeric check to a RunOptions, or to a new one.

    A step with it finds the operations that make NaN or infinity out of finite inputs. With a RunMetadata, they are
    recorded there, for `tf.debugging.non_finite_origins`; without one, the step raises InvalidArgumentError, which
    names the first of them.

    Example:
        >>> x = tf.placeholder(tf.float32)
        >>> metadata = tf.RunMetadata()
        >>> with tf.Session() as sess:
        ...     _ = sess.run(tf.log(x) * 2.0, {x: -1.0}, tf.debugging.check_numerics_options(), metadata)
        >>> tf.debugging.non_finite_origins(metadata)
        [Origin(node='Log', what='output 0, float32[]: 1 NaN of 1 elements')]
    """
    if options is None:
        from tensorboard.compat.proto.config_pb2 import RunOptions  # Start-up time: protobuf is slow to import.

        options = RunOptions()
    if not is_requested(options):
        options.debug_options.debug_tensor_watch_opts.add(node_name="*", output_slot=-1, debug_ops=[_DEBUG_OP])
    return options


def is_requested(options: Any) -> bool:
    """Whether a RunOptions asks for the check."""
    if options is None or not options.HasField("debug_options"):
        return False
    return any(_DEBUG_OP in watch.debug_ops for watch in options.debug_options.debug_tensor_watch_opts)


def fill(run_metadata: Any, found: list[Origin], device: str) -> None:
    """Adds the findings of a step to a RunMetadata."""
    if not found:
        return
    stats = run_metadata.step_stats.dev_stats.add(device=device + _SUFFIX)
    for origin in found:
        stats.node_stats.add(node_name=origin.node, timeline_label=origin.what)


@export("debugging.non_finite_origins")
def origins(run_metadata: Any) -> list[Origin]:
    """The findings of a checked step, in the order in which the operations ran."""
    return [
        Origin(node.node_name, node.timeline_label)
        for stats in run_metadata.step_stats.dev_stats
        if is_findings(stats)
        for node in stats.node_stats
    ]


def is_findings(device_stats: Any) -> bool:
    """Whether a DeviceStepStats holds the findings of a check, and no device's trace."""
    return bool(device_stats.device.endswith(_SUFFIX))


def error(origin: Origin, graph: Any) -> errors.OpError:
    """The error of a checked step without a RunMetadata for the findings."""
    op = graph._operations_by_name.get(origin.node)
    return errors.InvalidArgumentError(None, op, f"{origin.node} is not finite: {origin.what}.")
