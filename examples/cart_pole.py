"""A pole on a cart, to be balanced by pushing the cart left or right: many of them at once, in NumPy.

The equations of motion are those of Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve
difficult learning control problems", without friction, in SI units.
"""

from __future__ import annotations

import numpy as np

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FAR, FALLEN = 2.4, np.deg2rad(12.0)
OBSERVATIONS, ACTIONS = 4, 2


class CartPoles:
    """Carts that move independently. Each observation is position, speed, angle and angular speed.

    An episode ends when the pole has fallen, the cart has gone too far, or `limit` steps were survived; the cart then
    begins a new one by itself.
    """

    def __init__(self, count: int, limit: int = 500, seed: int = 0) -> None:
        """Sets every cart somewhere near the middle, its pole nearly upright."""
        self._rng = np.random.default_rng(seed)
        self._limit = limit
        self.state = self._rng.uniform(-0.05, 0.05, [count, OBSERVATIONS]).astype(np.float32)
        self.age = np.zeros(count, np.int64)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Pushes each cart left (0) or right (1).

        Returns:
            The state that follows, whether the pole has fallen there, whether the episode has ended, its length so far.
        """
        dx, angle, spin = self.state[:, 1:].T.astype(np.float64)
        force = np.where(np.asarray(actions) == 1, FORCE, -FORCE)
        sine, cosine, mass = np.sin(angle), np.cos(angle), CART_MASS + POLE_MASS
        pull = (force + POLE_MASS * HALF_LENGTH * spin**2 * sine) / mass
        twist = (GRAVITY * sine - cosine * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / mass))
        push = pull - POLE_MASS * HALF_LENGTH * twist * cosine / mass
        change = np.stack([dx, push, spin, twist], 1)
        following = (self.state + SECONDS * change).astype(np.float32)
        self.age += 1
        fallen = (np.abs(following[:, 0]) > FAR) | (np.abs(following[:, 2]) > FALLEN)
        ended = fallen | (self.age >= self._limit)
        ages = self.age.copy()
        fresh = self._rng.uniform(-0.05, 0.05, following.shape).astype(np.float32)
        self.state = np.where(ended[:, None], fresh, following)
        self.age[ended] = 0
        return following, fallen, ended, ages
