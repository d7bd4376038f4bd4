"""A tree-structured network, written eagerly: the computation recurses over each expression's own parse tree.

Expressions are nested maxima, minima and sums modulo ten of digits, such as (max 3 (sum 4 9)). One vector stands for a
digit; a node's vector comes from those of its two children, by the weights of its operator. No two examples need have
the same graph: Python's recursion is the graph (compare recursive networks of Socher et al., 2011, and TreeLSTMs).

    PYTHONPATH=src python examples/tree_network.py

Measured with the defaults: 0.992 of the values of new expressions of up to four operators are right; guessing has 0.1.
"""

from __future__ import annotations

import argparse

import numpy as np

import thalweg as tf

DIGITS, UNITS, BATCH = 10, 64, 16
OPERATORS = {"max": max, "min": min, "sum": lambda a, b: (a + b) % DIGITS}

Tree = int | tuple


def expression(rng: np.random.Generator, operators: int) -> Tree:
    """A random tree with so many operators."""
    if operators == 0:
        return int(rng.integers(DIGITS))
    left = int(rng.integers(operators))
    name = str(rng.choice(list(OPERATORS)))
    return name, expression(rng, left), expression(rng, operators - 1 - left)


def value(tree: Tree) -> int:
    """What an expression is worth."""
    if isinstance(tree, int):
        return tree
    return OPERATORS[tree[0]](value(tree[1]), value(tree[2]))


class TreeNetwork(tf.Module):
    """A vector for each digit, two layers for each operator, and scores of the ten values."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Makes the weights."""
        super().__init__()

        def weights(*shape: int) -> tf.Variable:
            return tf.Variable((rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

        self.digits = tf.Variable(rng.standard_normal([DIGITS, UNITS]).astype(np.float32))
        self.hidden = {name: weights(2 * UNITS, 2 * UNITS) for name in OPERATORS}
        self.joint = {name: weights(2 * UNITS, UNITS) for name in OPERATORS}
        self.scores = weights(UNITS, DIGITS)

    def vector(self, tree: Tree) -> tf.Tensor:
        """The vector of an expression: the recursion over its tree."""
        if isinstance(tree, int):
            return self.digits[tree : tree + 1]
        name, left, right = tree
        pair = tf.concat([self.vector(left), self.vector(right)], 1)
        return tf.tanh(tf.matmul(tf.nn.relu(tf.matmul(pair, self.hidden[name])), self.joint[name]))

    def __call__(self, trees: list[Tree]) -> tf.Tensor:
        """The scores of the values of expressions."""
        return tf.matmul(tf.concat([self.vector(tree) for tree in trees], 0), self.scores)


def train(network: TreeNetwork, rng: np.random.Generator, steps: int, most: int) -> None:
    """Learns from new expressions, which grow with the steps."""
    optimizer = tf.train.AdamOptimizer(0.002)
    variables = list(network.trainable_variables)
    for step in range(steps):
        longest = 1 + most * step // steps
        trees = [expression(rng, int(rng.integers(1, longest + 1))) for _ in range(BATCH)]
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.constant([value(tree) for tree in trees]), logits=network(trees)
            )
            loss = tf.reduce_mean(losses)
        grads = tape.gradient(loss, variables)
        present = [(grad, v) for grad, v in zip(grads, variables, strict=True) if grad is not None]
        optimizer.apply_gradients(present)


def accuracy(network: TreeNetwork, rng: np.random.Generator, most: int, count: int) -> float:
    """How many values of new expressions are right."""
    trees = [expression(rng, int(rng.integers(1, most + 1))) for _ in range(count)]
    found = np.argmax(network(trees).numpy(), 1)
    return float(np.mean(found == [value(tree) for tree in trees]))


def main() -> None:
    """Trains, and says how many values are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--operators", type=int, default=4, help="the most operators of an expression")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tf.eager():
        network = TreeNetwork(rng)
        train(network, rng, arguments.steps, arguments.operators)
        print(f"right values: {accuracy(network, rng, arguments.operators, 500):.3f}")


if __name__ == "__main__":
    main()
