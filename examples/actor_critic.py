"""Advantage actors on the cart pole in the manner of A3C (Mnih and others, 2016): threads that share variables.

Each actor is a thread with carts of its own. It plays some moves, computes a gradient with a tape, and applies it to
the variables that all share, without waiting for the others and without locks.

    PYTHONPATH=src python examples/actor_critic.py

Measured with its defaults (4 actors, 1,000 gradients each): the poles stay up for 500 of 500 steps, seeds 1 to 3.
"""

from __future__ import annotations

import argparse
import threading

import numpy as np
from cart_pole import ACTIONS, OBSERVATIONS, CartPoles

import thalweg as tf

CARTS, MOVES, DISCOUNT, ENTROPY = 8, 20, 0.99, 0.01


class Network(tf.Module):
    """A policy and a critic on one hidden layer."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Makes the variables, which exist before the threads begin."""
        super().__init__()
        sizes = {"hidden": (OBSERVATIONS, 64), "policy": (64, ACTIONS), "value": (64, 1)}
        for name, (rows, columns) in sizes.items():
            scale = 0.01 if name == "policy" else 1 / np.sqrt(rows)
            setattr(self, name, tf.Variable((scale * rng.standard_normal([rows, columns])).astype(np.float32)))
            setattr(self, f"{name}_bias", tf.Variable(np.zeros(columns, np.float32)))

    def __call__(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The scores of both pushes, and how much is still to come."""
        hidden = tf.tanh(tf.matmul(states, self.hidden) + self.hidden_bias)
        values = tf.matmul(hidden, self.value) + self.value_bias
        return tf.matmul(hidden, self.policy) + self.policy_bias, 100.0 * values[:, 0]


class Actor:
    """Plays, and teaches the network that it shares."""

    def __init__(self, network: Network, seed: int) -> None:
        """Sets up a world."""
        self.network = network
        self.world = CartPoles(CARTS, seed=seed)
        self.rng = np.random.default_rng(seed)
        self.optimizer = tf.train.AdamOptimizer(2e-3)

    def play(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some moves: what was seen, what was done, and what came of it."""
        seen, done, fallen = [], [], []
        for _ in range(MOVES):
            state = self.world.state
            odds = tf.nn.softmax(self.network(tf.constant(state))[0]).numpy()
            actions = (self.rng.random(CARTS) < odds[:, 1]).astype(np.int32)
            seen.append(state)
            done.append(actions)
            fallen.append(self.world.step(actions)[1])
        gains, after = [], self.network(tf.constant(self.world.state))[1].numpy()
        for each in reversed(fallen):
            after = np.where(each, 0.0, 1.0 + DISCOUNT * after)
            gains.append(after)
        return np.concatenate(seen), np.concatenate(done), np.concatenate(gains[::-1]).astype(np.float32)

    def learn(self, states: np.ndarray, actions: np.ndarray, gains: np.ndarray) -> None:
        """Applies one gradient to the shared variables."""
        with tf.GradientTape() as tape:
            scores, values = self.network(tf.constant(states))
            advantages = tf.stop_gradient(gains - values)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=scores)
            logs = tf.nn.log_softmax(scores)
            entropy = -tf.reduce_sum(tf.exp(logs) * logs, 1)
            loss = tf.reduce_mean(losses * advantages / 10.0 + 1e-3 * (gains - values) ** 2 - ENTROPY * entropy)
        weights = self.network.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 1.0)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))

    def run(self, rounds: int) -> None:
        """The thread."""
        with tf.eager():
            for _ in range(rounds):
                self.learn(*self.play())


def balanced(network: Network, seed: int) -> float:
    """How long the better push keeps 16 poles up, on average."""
    world = CartPoles(16, seed=seed + 1000)
    first = np.zeros(16)
    for _ in range(500):
        *_, ended, ages = world.step(np.argmax(network(tf.constant(world.state))[0].numpy(), 1))
        first = np.where((first == 0) & ended, ages, first)
        if first.all():
            break
    return float(first.mean())


def main() -> None:
    """Lets the actors play, and says how long the poles stay up."""
    parser = argparse.ArgumentParser(description="Advantage actors that share variables, written eagerly.")
    parser.add_argument("--actors", type=int, default=4, help="threads")
    parser.add_argument("--rounds", type=int, default=1000, help="gradients of each actor")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tf.eager():
        network = Network(np.random.default_rng(args.seed))
        actors = [Actor(network, args.seed * 100 + number) for number in range(args.actors)]
        threads = [threading.Thread(target=actor.run, args=(args.rounds,)) for actor in actors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"Balanced for {balanced(network, args.seed):.0f} of 500 steps")


if __name__ == "__main__":
    main()
