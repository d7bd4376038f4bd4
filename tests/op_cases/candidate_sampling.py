"""Cases of the candidate samplers; their streams are checked in tests/nn/test_sampled_losses.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case
from thalweg.graph.apply import apply


def _classes(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int64)


_ONE = _classes([0], [3])
_COMMON = [
    Bad(Args(np.zeros(3, np.int64), 1, 2, False, 9), match="matrix"),
    Bad(Args(_ONE, 2, 2, False, 9), match="num_true"),
    Bad(Args(_classes([9]), 1, 2, False, 9), match="not in [0, 9)"),
    Bad(Args(_classes([-1]), 1, 2, False, 9), match="not in [0, 9)"),
    Bad(Args(_ONE, 1, 10, True, 9), match="range is too small"),
]
_SAMPLES = [
    Args(_ONE, 1, 5, True, 9),
    Args(_ONE, 1, 9, True, 9),
    Args(_classes([0, 1], [2, 8], [8, 8]), 2, 20, False, 9),
    Args(np.zeros((0, 1), np.int64), 1, 3, True, 4),
    Args(_classes([0]), 1, 1, True, 1),
]
for _op, _function in (
    ("UniformCandidateSampler", tf.nn.uniform_candidate_sampler),
    ("LogUniformCandidateSampler", tf.nn.log_uniform_candidate_sampler),
    ("LearnedUnigramCandidateSampler", tf.nn.learned_unigram_candidate_sampler),
    (
        "ThreadUnsafeUnigramCandidateSampler",
        lambda classes, num_true, num_sampled, unique, range_max: apply(
            "ThreadUnsafeUnigramCandidateSampler",
            classes,
            num_true=num_true,
            num_sampled=num_sampled,
            unique=unique,
            range_max=range_max,
        ),
    ),
):
    _huge = [Bad(Args(_ONE, 1, 2, False, 2**40), match="2^31")] if "Unigram" in _op else []
    case(_op, _function, None, samples=_SAMPLES, bad=[*_COMMON, *_huge], dtypes="float32")


def _fixed(classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, **options: Any) -> Any:
    options.setdefault("unigrams", [1.0] * range_max)
    return tf.nn.fixed_unigram_candidate_sampler(classes, num_true, num_sampled, unique, range_max, **options)


case(
    "FixedUnigramCandidateSampler",
    _fixed,
    None,
    samples=[
        *_SAMPLES,
        Args(_classes([0]), 1, 3, True, 5, unigrams=[0.0, 1.0, 2.0], num_reserved_ids=2, distortion=0.0),
        Args(_classes([0]), 1, 3, False, 2, unigrams=[1.0, 2.0, 3.0, 4.0], num_shards=2, shard=1),
    ],
    bad=[
        *_COMMON,
        Bad(Args(_ONE, 1, 2, False, 9, unigrams=[1.0] * 8), match="range_max is 9"),
        Bad(Args(_ONE, 1, 2, False, 4, unigrams=[1.0, -1.0, 1.0, 1.0]), match="not negative"),
        Bad(Args(_ONE, 1, 2, False, 4, unigrams=[1.0, float("nan"), 1.0, 1.0]), match="finite"),
        Bad(Args(_ONE, 1, 2, False, 4, unigrams=[0.0] * 4), match="positive"),
        Bad(Args(_ONE, 1, 2, True, 4, unigrams=[0.0, 0.0, 1.0, 0.0]), match="range is too small"),
        Bad(Args(_ONE, 1, 2, False, 4, unigrams=[]), match="exactly one"),
        Bad(Args(_ONE, 1, 2, False, 4, vocab_file="there"), match="exactly one"),
        Bad(Args(_ONE, 1, 2, False, 4, unigrams=[], vocab_file="/nowhere/at/all"), match="cannot open"),
        Bad(Args(_ONE, 1, 2, False, 4, num_shards=2, shard=2), match="shard"),
        Bad(Args(_ONE, 1, 2, False, 4, num_reserved_ids=-1), match="num_reserved_ids"),
    ],
    dtypes="float32",
)
case(
    "AllCandidateSampler",
    tf.nn.all_candidate_sampler,
    lambda classes, num_true, n, unique: [np.arange(n), np.ones(classes.shape, "f"), np.ones(n, "f")],
    samples=[Args(_ONE, 1, 5, True), Args(np.zeros((0, 2), np.int64), 2, 1, False)],
    bad=[Bad(Args(np.zeros(3, np.int64), 1, 2, False), match="matrix"), Bad(Args(_ONE, 2, 2, False), match="num_true")],
    dtypes="float32",
)


def _hits(classes: np.ndarray, sampled: np.ndarray, num_true: int) -> list[np.ndarray]:
    last = {int(v): i for i, v in enumerate(sampled)}
    found = [(row, last[int(v)]) for row, values in enumerate(classes) for v in values if int(v) in last]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return [pairs[:, 0].astype(np.int32), pairs[:, 1], np.full(len(pairs), np.finfo("f").min, "f")]


case(
    "ComputeAccidentalHits",
    tf.nn.compute_accidental_hits,
    _hits,
    samples=[
        Args(_classes([0, 1], [3, 2], [3, 3]), np.array([3, 1, 3, 9]), 2),
        Args(_classes([5], [6]), np.array([1, 2]), 1),
        Args(np.zeros((0, 1), np.int64), np.array([1, 2]), 1),
        Args(_classes([5], [-6]), np.zeros(0, np.int64), 1),
    ],
    bad=[
        Bad(Args(np.zeros(3, np.int64), np.array([1]), 1), match="matrix"),
        Bad(Args(_ONE, np.array([1]), 2), match="num_true"),
        Bad(Args(_ONE, np.array([[1]]), 1), match="vector"),
    ],
    dtypes="float32",
)
