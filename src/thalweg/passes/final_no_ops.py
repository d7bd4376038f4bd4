"""Final NoOps: a step that is asked for a group of operations runs these, and not the NoOp that waits for them.

`tf.group` of updates on several tasks is a NoOp on one of them, for which each other task would send a message when its
updates are done. But a step ends when all of its parts have ended: nothing else has to wait.
"""

from __future__ import annotations

from collections import Counter

from thalweg.passes.step_graph import StepGraph


def drop_final_no_ops(graph: StepGraph) -> StepGraph:
    """Returns the step with the operations that its targets wait for in the place of targets that are NoOps."""
    readers = Counter(name for node in graph.nodes.values() for name in node.controls)
    readers.update(name for name, _ in graph.fetches)
    nodes, targets = dict(graph.nodes), dict.fromkeys(graph.targets)
    waiting = [name for name in targets if nodes[name].op == "NoOp" and not readers[name]]
    while waiting:
        gone = nodes.pop(waiting.pop())
        del targets[gone.name]
        readers.subtract(gone.controls)
        for name in gone.controls:
            if name not in targets:
                targets[name] = None
            if nodes[name].op == "NoOp" and not readers[name]:
                waiting.append(name)
    if len(nodes) == len(graph.nodes):
        return graph
    return StepGraph(nodes, graph.feeds, graph.fetches, tuple(targets))
