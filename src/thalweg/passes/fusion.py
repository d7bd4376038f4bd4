"""The passes that make one node of several, and which nodes of a step they would make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities, forwards
from thalweg.passes.fuse_contractions import fuse_contractions
from thalweg.passes.fuse_elementwise import CanRecord, fuse_elementwise
from thalweg.passes.fuse_reductions import fuse_reductions
from thalweg.passes.fuse_updates import fuse_updates
from thalweg.passes.join_products import FEWEST_PRODUCTS, join_products
from thalweg.passes.step_graph import StepGraph, asked_device, members_of

_SUM: Final = "Add"  # among the fused ops of a contraction


def fuse(graph: StepGraph, operands_of: Callable[[str], int], can_record: CanRecord | None = None) -> StepGraph:
    """The step, or one device's part of it, with nodes made one where a kernel does their work together.

    Args:
        graph: The step.
        operands_of: How many operands an op that can be fused element by element has; 0 for all others.
        can_record: Which ops on other types than float32 can be fused; none if None.
    """
    return _fuse_values(fuse_updates(join_products(graph)), operands_of, can_record)


class Fusion(NamedTuple):
    """Nodes that become one if they are on one device.

    Attributes:
        nodes: Their names, or numbers. The last consumes the results of the others.
        is_sum: Whether the last is a sum of products: products on its device become one even if others are elsewhere.
        outside_inputs: Nodes that stay inputs of the fused node on any device: the program asks for other devices for
            them than for the last.
    """

    nodes: list[Any]
    is_sum: bool = False
    outside_inputs: frozenset[Any] = frozenset()

    def together(self, where: Any) -> list[Any]:
        """The nodes that become one if node x is on device where[x]."""
        device = where[self.nodes[-1]]
        here = [node for node in self.nodes if where[node] == device and node not in self.outside_inputs]
        if len(here) == len(self.nodes) or (self.is_sum and len(here) > FEWEST_PRODUCTS):
            return here
        return []

    def left_to_add(self, here: list[Any]) -> float:
        """The fraction of a sum's own work that is left if only the products in `here` are fused into it."""
        return (len(self.nodes) - len(here) + 2) / len(self.nodes)


def fusions(graph: StepGraph, operands_of: Callable[[str], int], can_record: CanRecord | None = None) -> list[Fusion]:
    """The groups of nodes that become one if they are on one device, whatever devices they name now.

    Sums of a product and another tensor are left out: two products that are added may well run on two devices, and the
    bits are the same. So are updates by a product, which need not run where the variable is.
    """
    anywhere = graph.with_nodes(
        {name: node._replace(device="", requested_device="") for name, node in graph.nodes.items()}
    )
    found = []
    known = join_products(merge_common_subexpressions(drop_identities(anywhere)))
    for name, node in _fuse_values(known, operands_of, can_record).nodes.items():
        if _SUM in node.attrs.get("fused_ops", ()) and node.op == "_FusedMatMul":
            continue
        members = [each for each, _ in members_of(node) if each in graph.nodes]
        if len(members) > 1 and name in members:
            others = [each for each in members if each != name]
            is_sum = graph.nodes[name].op == "AddN" and node.op == "MatMul"
            rounds = is_sum or node.op == "_FusedConv2D"
            asked = asked_device(graph.nodes[name])
            outside_inputs = (each for each in others if rounds and asked_device(graph.nodes[each]) != asked)
            found.append(Fusion([*others, name], is_sum, frozenset(outside_inputs)))
    return found


def may_join_sums(graph: StepGraph) -> bool:
    """Whether `fusions` may find a sum of products; without looking for the other fusions."""
    return any(
        sum(_is_product(graph, source) for source, _ in node.inputs) >= FEWEST_PRODUCTS
        for node in graph.nodes.values()
        if node.op == "AddN" and len(node.inputs) >= FEWEST_PRODUCTS
    )


def _is_product(graph: StepGraph, name: str) -> bool:
    node = graph.nodes[name]
    while forwards(node):
        node = graph.nodes[node.inputs[0][0]]
    return node.op == "MatMul"


def _fuse_values(graph: StepGraph, operands_of: Callable[[str], int], can_record: CanRecord | None) -> StepGraph:
    return fuse_reductions(fuse_elementwise(fuse_contractions(graph), operands_of, can_record), operands_of)
