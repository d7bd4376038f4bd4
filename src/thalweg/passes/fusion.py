"""The passes that make one node of several, and which nodes of a step they would make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.fuse_contractions import fuse_contractions
from thalweg.passes.fuse_elementwise import fuse_elementwise
from thalweg.passes.fuse_updates import UPDATE, fuse_updates
from thalweg.passes.join_products import join_products
from thalweg.passes.step_graph import StepGraph, members_of

_SUM: Final = "Add"  # among the fused ops of a contraction


def fuse(graph: StepGraph, operands_of: Callable[[str], int]) -> StepGraph:
    """The step, or what one device does of it, with nodes made one where a kernel does their work together.

    Args:
        graph: The step.
        operands_of: How many operands an op that can be fused element by element has; 0 for all others.
    """
    return fuse_elementwise(fuse_contractions(fuse_updates(join_products(graph))), operands_of)


def fusions(graph: StepGraph, operands_of: Callable[[str], int]) -> list[list[str]]:
    """The groups of nodes that become one if they are on one device, whatever devices they name now.

    The last of a group is where the others' results come together: the node that is made of them has its name. Sums of
    a product and another tensor are left out: two products that are added may well run on two devices. So are updates
    by a product, which need not run where the variable is.
    """
    anywhere = graph.with_nodes({name: node._replace(device="") for name, node in graph.nodes.items()})
    found = []
    for name, node in fuse(merge_common_subexpressions(drop_identities(anywhere)), operands_of).nodes.items():
        if _SUM in node.attrs.get("fused_ops", ()) or node.op == UPDATE:
            continue
        members = [each for each, _ in members_of(node) if each in graph.nodes]
        if len(members) > 1 and name in members:
            found.append([*(each for each in members if each != name), name])
    return found
