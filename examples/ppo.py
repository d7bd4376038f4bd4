"""Proximal policy optimization on the cart pole, written eagerly; the update of a minibatch is a tf.function.

An actor and a critic share a hidden layer. Each round plays 64 moves of 16 carts at once, estimates advantages from the
critic's values (Schulman et al., 2016), and goes four times over them in minibatches, with the ratio of new and old
odds clipped (Schulman et al., 2017).

    PYTHONPATH=src python examples/ppo.py

Measured with 60 rounds: the poles stay up for 488, 500 and 457 of 500 steps with the seeds 1, 2 and 3.
"""

from __future__ import annotations

import argparse

import numpy as np
from cart_pole import ACTIONS, OBSERVATIONS, CartPoles

import thalweg as tf

CARTS, MOVES, EPOCHS, MINIBATCH = 16, 64, 4, 256
DISCOUNT, TRACE, CLIP, ENTROPY, RATE = 0.98, 0.95, 0.2, 0.005, 0.003


class Agent(tf.Module):
    """The scores of both pushes, and the value of a state."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Makes the weights."""
        super().__init__()
        self.hidden = tf.Variable(rng.standard_normal([OBSERVATIONS, 64]).astype(np.float32) / 2.0)
        self.bias = tf.Variable(tf.zeros([64]))
        self.push = tf.Variable(tf.zeros([64, ACTIONS]))
        self.worth = tf.Variable(tf.zeros([64, 1]))

    def __call__(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores [batch, pushes] and values [batch]."""
        features = tf.tanh(tf.matmul(states, self.hidden) + self.bias)
        return tf.matmul(features, self.push), tf.matmul(features, self.worth)[:, 0]


def update_of(agent: Agent, optimizer: tf.train.Optimizer) -> tf.function:
    """The function that improves the agent by one minibatch, compiled; returns the loss."""

    @tf.function
    def update(states: tf.Tensor, actions: tf.Tensor, old: tf.Tensor, gains: tf.Tensor, aims: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores, values = agent(states)
            logs = tf.nn.log_softmax(scores)
            ratio = tf.exp(tf.reduce_sum(logs * tf.one_hot(actions, ACTIONS), 1) - old)
            better = tf.minimum(ratio * gains, tf.clip_by_value(ratio, 1.0 - CLIP, 1.0 + CLIP) * gains)
            surprise = tf.reduce_sum(tf.exp(logs) * logs, 1)
            loss = tf.reduce_mean(0.5 * tf.square(values - aims) - better + ENTROPY * surprise)
        weights = agent.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return update


def play(world: CartPoles, agent: Agent, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Some moves of all carts, and how much better each was than the critic had thought."""
    seen: dict[str, list] = {"states": [], "actions": [], "old": [], "values": []}
    ends, falls = [], []
    for _ in range(MOVES):
        scores, values = agent(tf.constant(world.state))
        logs = tf.nn.log_softmax(scores).numpy()
        actions = (rng.random(CARTS) < np.exp(logs[:, 1])).astype(np.int32)
        for key, each in (("states", world.state), ("actions", actions), ("values", values.numpy())):
            seen[key].append(each)
        seen["old"].append(logs[np.arange(CARTS), actions])
        _, fallen, ended, _ = world.step(actions)
        falls.append(fallen)
        ends.append(ended)
    seen["values"].append(agent(tf.constant(world.state))[1].numpy())
    gains, ahead = [], np.zeros(CARTS)
    for i in reversed(range(MOVES)):
        now, following = seen["values"][i], seen["values"][i + 1]
        # A cart whose time is up would have gone on: its last value stands for what follows.
        following = np.where(falls[i], 0.0, np.where(ends[i], now, following))
        ahead = 1.0 + DISCOUNT * following - now + DISCOUNT * TRACE * np.where(ends[i], 0.0, ahead)
        gains.append(ahead)
    found = {key: np.concatenate(values[:MOVES]) for key, values in seen.items()}
    found["gains"] = np.concatenate(gains[::-1]).astype(np.float32)
    return found


def train(rounds: int, seed: int) -> Agent:
    """Plays and learns in turn."""
    rng = np.random.default_rng(seed)
    world, agent = CartPoles(CARTS, seed=seed), Agent(rng)
    update = update_of(agent, tf.train.AdamOptimizer(RATE))
    for _ in range(rounds):
        found = play(world, agent, rng)
        aims = found["gains"] + found["values"]
        gains = (found["gains"] - found["gains"].mean()) / (found["gains"].std() + 1e-6)
        for _ in range(EPOCHS):
            for some in np.split(rng.permutation(len(aims)), len(aims) // MINIBATCH):
                parts = (found["states"], found["actions"], found["old"], gains, aims)
                update(*(tf.constant(part[some]) for part in parts))
    return agent


def balanced(agent: Agent, seed: int) -> float:
    """How long the better push keeps the poles up, on average."""
    world = CartPoles(CARTS, seed=seed + 1000)
    first = np.zeros(CARTS)
    for _ in range(500):
        *_, ended, ages = world.step(np.argmax(agent(tf.constant(world.state))[0].numpy(), 1))
        first = np.where((first == 0) & ended, ages, first)
        if first.all():
            break
    return float(first.mean())


def main() -> None:
    """Trains, and says how long the poles stay up."""
    parser = argparse.ArgumentParser(description="Proximal policy optimization on the cart pole, written eagerly.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tf.eager():
        agent = train(args.rounds, args.seed)
        print(f"Balanced for {balanced(agent, args.seed):.0f} of 500 steps")


if __name__ == "__main__":
    main()
