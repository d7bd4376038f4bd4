"""`tensorflow.python.ops.control_flow_util`: questions about the loops and branches that an operation is in."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf

ENABLE_CONTROL_FLOW_V2 = False


def IsSwitch(op: Any) -> bool:
    """Whether an operation is a Switch."""
    return op.type in ("Switch", "RefSwitch")


def IsMerge(op: Any) -> bool:
    """Whether an operation is a Merge."""
    return op.type in ("Merge", "RefMerge")


def IsLoopEnter(op: Any) -> bool:
    """Whether an operation is an Enter."""
    return op.type in ("Enter", "RefEnter")


def IsLoopExit(op: Any) -> bool:
    """Whether an operation is an Exit."""
    return op.type in ("Exit", "RefExit")


def GetContainingWhileContext(ctxt: Any, stop_ctxt: Any = None) -> Any:
    """The innermost loop around a context, or None; None too if it is `stop_ctxt`."""
    found = None if ctxt is None else ctxt.enclosing_while()
    return None if found is stop_ctxt else found


def IsInWhileLoop(op: Any) -> bool:
    """Whether an operation is in a loop."""
    return GetContainingWhileContext(op._get_control_flow_context()) is not None


def IsInCond(op: Any) -> bool:
    """Whether an operation is in a branch."""
    context = op._get_control_flow_context()
    return context is not None and context is not GetContainingWhileContext(context)


def IsInXLAContext(op: Any) -> bool:
    """Whether an operation is compiled by XLA: none is."""
    return False


def InXlaContext(graph: Any) -> bool:
    """Whether operations that are added to a graph are compiled by XLA: none is."""
    return False


def GraphOrParentsInXlaContext(graph: Any) -> bool:
    """Whether operations that are added to a graph are compiled by XLA: none is."""
    return False


def EnableControlFlowV2(graph: Any) -> bool:
    """Whether conditionals and loops become calls of functions in a graph."""
    return bool(tf.control_flow_v2_enabled())
