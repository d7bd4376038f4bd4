"""A click log without end, for examples: 26 features with ids by a power law, and clicks that follow from them.

All features together have `distinct` ids (a hundred million by default). The most frequent id of a feature is in a few
percent of all lines, and most ids are never seen twice: so is it in the logs of advertisements and of recommendations.
Each id has a hidden weight, and some pairs of features interact by hidden vectors; all of these are computed from the
id by a hash, so that nothing is stored, and every task can draw lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

FEATURES = 26
_HIDDEN = 4  # the length of the hidden vectors
_PAIRS = tuple((k, (7 * k + 3) % FEATURES) for k in range(0, FEATURES, 2))


class Lines(NamedTuple):
    """Some lines of the log.

    Attributes:
        ids: int64 `[lines, FEATURES]`.
        clicks: float32 `[lines]`: 1.0 for a click.
        scores: float32 `[lines]`: the logits that the clicks were drawn with. No model ranks lines better.
    """

    ids: np.ndarray
    clicks: np.ndarray
    scores: np.ndarray


def mix(x: np.ndarray) -> np.ndarray:
    """Hashes numbers of 64 bits (the last steps of MurmurHash3)."""
    x = x.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    return x ^ (x >> np.uint64(33))


def _number(ids: np.ndarray, salt: int) -> np.ndarray:
    """A number from -1 to 1 for each id."""
    mixed = mix(ids.astype(np.uint64) ^ np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % (1 << 64)))
    return (mixed >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1.0)


def draw(lines: int, random: np.random.Generator, distinct: int = 100_000_000) -> Lines:
    """Draws lines of the log.

    Args:
        lines: How many.
        random: Where the chance comes from.
        distinct: The number of different ids of all features together.
    """
    # Features have different sizes: some have a hundred ids, the largest a fifth of all.
    shares = np.geomspace(1.0, 1e6, FEATURES)
    sizes = np.maximum(100, distinct * shares / shares.sum())
    # A power law: the rank r is drawn with a density of about r to the power of -1.1.
    exponent = -0.1
    u = random.random((lines, FEATURES))
    ranks = np.floor((1.0 + u * ((sizes + 1.0) ** exponent - 1.0)) ** (1.0 / exponent)).astype(np.uint64)
    feature = np.arange(FEATURES, dtype=np.uint64) << np.uint64(48)
    ids = (mix(ranks + feature) >> np.uint64(1)).astype(np.int64)
    scores = -1.0 + 0.9 * _number(ids, 0).sum(1) / np.sqrt(FEATURES) * 1.7
    for a, b in _PAIRS:
        for d in range(_HIDDEN):
            scores += 0.5 * _number(ids[:, a], d + 1) * _number(ids[:, b], d + 1)
    clicks = random.random(lines) < 1.0 / (1.0 + np.exp(-scores))
    return Lines(ids, clicks.astype(np.float32), scores.astype(np.float32))


def batches(size: int, seed: int, distinct: int = 100_000_000) -> Iterator[Lines]:
    """Batches without end; different seeds are different days."""
    random = np.random.default_rng(seed)
    while True:
        yield draw(size, random, distinct)
