"""The whole idea of Thalweg in some 200 lines: a dataflow graph, state, control flow, gradients and a session.

Read it top to bottom; each part names the file where the real thing lives. Run it: `python docs/tiny.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

DEAD = object()  # "This value will never come": what a Switch sends down the branch not taken.

# --- The registry of ops: kernel and gradient (graph/definitions/op_registry.py, core/kernel/registry.h) ---

KERNELS: dict[str, Callable[..., Any]] = {}
GRADIENTS: dict[str, Callable[..., Any]] = {}


def kernel(op_type: str) -> Callable[[Any], Any]:
    """Registers the function that computes an op from its inputs and attributes."""
    return lambda function: KERNELS.setdefault(op_type, function)


def gradient(op_type: str) -> Callable[[Any], Any]:
    """Registers the function that builds an op's gradient: from (node, grad) to one gradient per input."""
    return lambda function: GRADIENTS.setdefault(op_type, function)


# --- The graph: nodes are operations, edges are tensors (graph/graph.py) ------------------------------------


class Node:
    """An operation with one output; its tensor and the node itself are the same thing here."""

    ids = itertools.count()

    def __init__(self, op: str, inputs: tuple[Node, ...] = (), **attrs: Any) -> None:
        """Adds a node; nothing is computed now."""
        self.op, self.inputs, self.attrs, self.id = op, inputs, attrs, next(Node.ids)

    def __add__(self, other: Any) -> Node:
        return Node("Add", (self, tensor(other)))

    def __mul__(self, other: Any) -> Node:
        return Node("Mul", (self, tensor(other)))

    def __sub__(self, other: Any) -> Node:
        return self + tensor(other) * -1.0

    def __matmul__(self, other: Node) -> Node:
        return Node("MatMul", (self, other))


def tensor(value: Any) -> Node:
    """A value as a node: constants enter the graph here (graph/conversion.py)."""
    return value if isinstance(value, Node) else Node("Const", value=np.asarray(value, dtype=np.float64))


# --- Kernels (core/kernels/) and gradients (beside each op in ops/) -----------------------------------------

kernel("Const")(lambda attrs: attrs["value"])
kernel("Add")(lambda attrs, a, b: a + b)
kernel("Mul")(lambda attrs, a, b: a * b)
kernel("MatMul")(lambda attrs, a, b: a @ b)
kernel("Transpose")(lambda attrs, a: a.T)
kernel("Tanh")(lambda attrs, a: np.tanh(a))
kernel("Sum")(lambda attrs, a: np.sum(a))
kernel("Like")(lambda attrs, a, b: np.broadcast_to(a, np.shape(b)))  # a, stretched to the shape of b
kernel("Unlike")(lambda attrs, a, b: _unbroadcast(a, np.shape(b)))  # its opposite: sums to the shape of b
kernel("Less")(lambda attrs, a, b: a < b)


def _unbroadcast(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    grad = np.sum(grad, axis=tuple(range(np.ndim(grad) - len(shape))))
    return np.sum(grad, axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


def unlike(grad: Node, x: Node) -> Node:
    """Undoes broadcasting (ops/math/math_gradients.py)."""
    return Node("Unlike", (grad, x))


gradient("Add")(lambda n, g: [unlike(g, n.inputs[0]), unlike(g, n.inputs[1])])
gradient("Mul")(lambda n, g: [unlike(g * n.inputs[1], n.inputs[0]), unlike(g * n.inputs[0], n.inputs[1])])
gradient("MatMul")(lambda n, g: [g @ Node("Transpose", (n.inputs[1],)), Node("Transpose", (n.inputs[0],)) @ g])
gradient("Tanh")(lambda n, g: [g * (tensor(1.0) - n * n)])
gradient("Sum")(lambda n, g: [Node("Like", (g, n.inputs[0]))])
gradient("Unlike")(lambda n, g: [Node("Like", (g, n.inputs[0])), None])
gradient("Like")(lambda n, g: [unlike(g, n.inputs[0]), None])


# --- State: a variable is a node whose value outlives the step (core/resource/, state/variable.py) ----------


def variable(initial: Any) -> Node:
    """A node that reads a mutable cell of the session."""
    return Node("Variable", initial=np.asarray(initial, dtype=np.float64))


def assign(target: Node, value: Node) -> Node:
    """A node that writes the cell when it runs."""
    return Node("Assign", (value,), target=target)


# --- Conditionals: Switch sends its input one way and DEAD the other, Merge takes what is alive (control_flow/)


def cond(pred: Node, x: Node, if_true: Callable[[Node], Node], if_false: Callable[[Node], Node]) -> Node:
    """`if_true(x)` or `if_false(x)`, decided when the step runs; only the chosen branch computes anything."""
    branches = [Node("Switch", (x, pred), side=side) for side in (True, False)]
    return Node("Merge", (if_true(branches[0]), if_false(branches[1])))


kernel("Switch")(lambda attrs, x, pred: x if bool(pred) is attrs["side"] else DEAD)
kernel("Merge")(lambda attrs, *values: next((v for v in values if v is not DEAD), DEAD))


# --- Differentiation: the graph, extended by its own gradient (autodiff/gradients.py) -----------------------


def ancestors(roots: list[Node]) -> list[Node]:
    """What the roots need, inputs first. Pruning a step to this is `passes/prune.py`."""
    order: dict[Node, None] = {}
    stack = [(node, False) for node in roots]
    while stack:
        node, inputs_done = stack.pop()
        if inputs_done:
            order[node] = None
        elif node not in order:
            stack.append((node, True))
            stack.extend((source, False) for source in node.inputs)
    return list(order)


def gradients(y: Node, xs: list[Node]) -> list[Node]:
    """Nodes for dy/dx: walks backwards from y and adds up what reaches each node along its paths."""
    reached: dict[Node, Node] = {y: Node("Like", (tensor(1.0), y))}
    for node in sorted(ancestors([y]), key=lambda n: -n.id):
        if node not in reached or node.op not in GRADIENTS:
            continue
        for source, grad in zip(node.inputs, GRADIENTS[node.op](node, reached[node]), strict=True):
            if grad is not None:
                reached[source] = reached[source] + grad if source in reached else grad
    return [reached[x] for x in xs]


# --- The session: runs the part of the graph that the fetches need (runtime/session.py, core/executor/) -----


class Session:
    """Executes steps, and owns the state that variables name."""

    def __init__(self) -> None:
        """No state yet."""
        self.cells: dict[Node, np.ndarray] = {}

    def run(self, fetches: list[Node], feeds: dict[Node, Any] | None = None) -> list[Any]:
        """One step: computes the fetches, with some tensors replaced by the feeds. Any tensor can be fed."""
        values: dict[Node, Any] = dict(feeds or {})
        for node in ancestors([f for f in fetches if f not in values]):
            if node not in values:
                values[node] = self._compute(node, [values[source] for source in node.inputs])
        return [values[fetch] for fetch in fetches]

    def _compute(self, node: Node, inputs: list[Any]) -> Any:
        if node.op != "Merge" and any(value is DEAD for value in inputs):
            return DEAD
        if node.op == "Variable":
            return self.cells.setdefault(node, node.attrs["initial"])
        if node.op == "Assign":
            self.cells[node.attrs["target"]] = inputs[0]
            return inputs[0]
        return KERNELS[node.op](node.attrs, *inputs)


# --- A training loop ----------------------------------------------------------------------------------------


def main() -> float:
    """Fits a small network to XOR by gradient descent; returns the last loss."""
    rng = np.random.default_rng(1)
    x, y = tensor([[0, 0], [0, 1], [1, 0], [1, 1]]), tensor([[0], [1], [1], [0]])
    weights = [variable(rng.normal(size=(2, 8))), variable(np.zeros(8)), variable(rng.normal(size=(8, 1)))]
    hidden = Node("Tanh", (x @ weights[0] + weights[1],))
    error = hidden @ weights[2] - y
    loss = Node("Sum", (error * error,))
    # Large losses take a smaller step: a conditional inside the graph.
    rate = cond(Node("Less", (loss, tensor(0.5))), tensor(1.0), lambda t: t * 0.1, lambda t: t * 0.03)
    updates = [assign(w, w - g * rate) for w, g in zip(weights, gradients(loss, weights), strict=True)]
    session = Session()
    for step in range(2001):
        value = float(session.run([loss, *updates])[0])
        if step % 500 == 0:
            print(f"step {step:4d}  loss {value:.6f}")
    return value


if __name__ == "__main__":
    assert main() < 1e-3
