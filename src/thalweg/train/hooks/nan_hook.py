"""NanTensorHook: stops when the loss is NaN, and says which operation made the first NaN or infinity."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from thalweg.errors import creation_line
from thalweg.graph.definitions.op_registry import effect_of, export
from thalweg.graph.op_effects import Effect
from thalweg.platform import logging
from thalweg.runtime import numerics
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues


@export("train.NanLossDuringTrainingError", "estimator.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """The loss was NaN.

    Attributes:
        origins: The operations that made the first NaN or infinity, as far as known, in the order in which they ran.
    """

    def __init__(
        self, message: str = "NaN loss during training.", origins: list[numerics.Origin] | None = None
    ) -> None:
        """Takes the message and the origins."""
        super().__init__(message)
        self.origins = origins or []

    def __str__(self) -> str:
        return str(self.args[0])


# The effects of ops whose NaN is older than the step: reads of resources, and reference variables.
_READS: Final = frozenset({Effect.READS, Effect.CREATES})
# The arguments of updates that are gradients.
_GRADIENTS: Final = frozenset({"grad", "delta"})


@export("train.NanTensorHook", "estimator.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """Stops the training when a tensor is NaN.

    The results of every operation are checked in every step, which costs some percent of its time, and the error
    names the operations that made NaN or infinity out of finite inputs: usually the first one is the cause. If
    variables were NaN before this step, those of the step before are named: its loss was finite, but not its gradients.

    Example:
        >>> x = tf.placeholder(tf.float32)
        >>> loss = tf.reduce_sum(tf.log(x, name="root_of_evil"))
        >>> try:
        ...     with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session:
        ...         session.run(loss, {x: [1.0, -1.0]})
        ... except tf.train.NanLossDuringTrainingError as error:
        ...     print(error.origins[0].node)
        root_of_evil
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True, find_origin: bool = True) -> None:
        """Takes the tensor to watch.

        Args:
            loss_tensor: The tensor, or its name.
            fail_on_nan_loss: Whether to raise NanLossDuringTrainingError, or only to stop.
            find_origin: Whether to find the operation that made the first NaN; otherwise only the loss is checked.
        """
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss
        self._find_origin = find_origin
        self._options = numerics.check_options() if find_origin else None
        self._last_origins: list[numerics.Origin] = []  # of the step before

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the loss, and asks for the check."""
        return SessionRunArgs(self._loss_tensor, options=self._options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Checks the loss."""
        loss = run_values.results
        origins = numerics.origins(run_values.run_metadata) if self._find_origin else []
        # Usually a scalar, for which numpy.isnan is ten times slower than math.isnan.
        if not (math.isnan(loss) if isinstance(loss, (float, np.floating)) else np.isnan(loss).any()):
            self._last_origins = origins
            return
        graph = run_context.session.graph
        before = []
        if not origins:
            before = self._last_origins
        elif effect_of(_type(graph, origins[0].node)) in _READS:
            before = self._last_origins or _updates(graph, origins[0].node)
        origins = before or origins
        message = self._message(graph, origins, " in the step before" if before else "")
        if self._fail_on_nan_loss:
            logging.error("%s", message)
            raise NanLossDuringTrainingError(message, origins)
        logging.warning("%s", message)
        # The training ends without an error: the loss may be NaN on purpose.
        run_context.request_stop()

    def _message(self, graph: Any, origins: list[numerics.Origin], when: str) -> str:
        start = "NaN loss during training."
        if not self._find_origin:
            return f"{start} With find_origin=True, tf.train.NanTensorHook says which operation made the first NaN."
        if not origins:
            return f"{start} No operation of this step, or of the one before, made it out of finite inputs."
        lines = [start, f"The first operations with NaN or infinity{when}:"]
        for node, what in origins[:3]:
            op = graph._operations_by_name.get(node)
            where = creation_line(op) if op is not None else None
            kind = _type(graph, node)
            lines.append(f"  {node}{f' ({kind})' if kind else ''}: {what}{f', created at {where}' if where else ''}")
        return "\n".join(lines)


def _type(graph: Any, node: str) -> str:
    op = graph._operations_by_name.get(node)
    return op.type if op is not None else ""


def _updates(graph: Any, read: str) -> list[numerics.Origin]:
    """The updates of the variable that is read: an update that is fused with its gradient records no result."""
    variable = graph._operations_by_name[read]
    source = variable.inputs[0] if variable.inputs else variable.outputs[0]
    found = []
    for op in source.consumers():
        arguments = op.op_def.inputs
        if len(arguments) != len(op.inputs):
            continue
        for argument, tensor in zip(arguments, op.inputs, strict=True):
            if argument.name in _GRADIENTS:
                what = f"the gradient of '{source.op.name}', or its update '{op.name}'"
                found.append(numerics.Origin(tensor.op.name, what))
    return found
