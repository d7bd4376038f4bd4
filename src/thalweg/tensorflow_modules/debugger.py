"""`tensorflow.python.debug`: its filter of tensors, and names whose use says what there is instead of the debugger."""

from __future__ import annotations

from typing import Any

import numpy as np


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether a dumped tensor has infinities or NaNs."""
    array = np.asarray(tensor)
    return array.dtype.kind in "fc" and not bool(np.all(np.isfinite(array)))


class _Missing:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__}: Thalweg has no tfdbg. Use tf.print, tf.add_check_numerics_ops, tf.profiler.record "
            "or tf.debugging.dump_steps."
        )


class LocalCLIDebugWrapperSession(_Missing):
    """The debugger's session for a terminal."""


class DumpingDebugWrapperSession(_Missing):
    """The debugger's session that writes all tensors into a folder."""


class TensorBoardDebugWrapperSession(_Missing):
    """The debugger's session for TensorBoard."""


class LocalCLIDebugHook(_Missing):
    """The debugger's hook for a terminal."""


class DumpingDebugHook(_Missing):
    """The debugger's hook that writes all tensors into a folder."""


class TensorBoardDebugHook(_Missing):
    """The debugger's hook for TensorBoard."""


class DebugDumpDir(_Missing):
    """A folder of dumped tensors."""
