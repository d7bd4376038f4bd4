"""Attention that only moves forward over the memory (Raffel et al., 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.seq2seq.attention import BahdanauAttention, LuongAttention


@export("contrib.seq2seq.safe_cumprod")
def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Products of the numbers so far, of numbers between 0 and 1: as sums of logarithms that do not underflow."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = float(np.finfo(x.dtype.as_numpy_dtype).tiny)
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1.0)), *args, **kwargs))


@export("contrib.seq2seq.monotonic_attention")
def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """Where a reader stops that goes on from where it stopped before.

    Args:
        p_choose_i: `[batch, time]`: the probability of stopping at a position, once the reader is there.
        previous_attention: `[batch, time]`: where it stopped in the step before.
        mode: 'recursive' (exact, step by step), 'parallel' (faster, less exact for small probabilities), or 'hard'
            (probabilities are 0 or 1).

    Returns:
        The probability of stopping at each position.

    Raises:
        ValueError: For another mode.
    """
    p = tf.convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = tf.convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        kept = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)
        zeros = tf.zeros_like(p[:, 0])
        reached = tf.scan(lambda x, yz: yz[0] * x + yz[1], [tf.transpose(kept), tf.transpose(previous)], zeros)
        return p * tf.transpose(reached)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * tf.cumsum(previous / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode == "hard":
        p *= tf.cumsum(previous, axis=1)
        return p * tf.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")


class _Monotonic:
    """What both mechanisms share: a bias of the scores, noise, and probabilities that depend on the state."""

    def _set_monotonic(self, noise: float, seed: Any, bias: float, mode: str) -> None:
        self._noise, self._seed, self._bias, self._mode = noise, seed, bias, mode

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Before the first step the reader is at the first position."""
        here: Any = self
        return tf.one_hot(tf.zeros([batch_size], tf.int32), here.alignments_size, dtype=dtype)

    def _probabilities(self, score: Any, state: Any) -> Any:
        bias = tf.get_variable("attention_score_bias", [], score.dtype, tf.constant_initializer(self._bias))
        here: Any = self
        score = here._masked(score + bias)
        if self._noise > 0:
            score += self._noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=self._seed)
        p = tf.cast(score > 0, score.dtype) if self._mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(p, state, self._mode)


@export("contrib.seq2seq.BahdanauMonotonicAttention")
class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Additive attention that only moves forward."""

    _scope = "bahdanau_monotonic_attention"

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
        score_mask_value: Any = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:  # fmt: skip
        """Takes those of BahdanauAttention, noise and bias of the scores, and the mode of `monotonic_attention`."""
        super().__init__(num_units, memory, memory_sequence_length, normalize, None, score_mask_value, dtype, name=name)
        self._set_monotonic(sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)


@export("contrib.seq2seq.LuongMonotonicAttention")
class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Multiplicative attention that only moves forward."""

    _scope = "luong_monotonic_attention"

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
        score_mask_value: Any = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None, name: str = "LuongMonotonicAttention",
    ) -> None:  # fmt: skip
        """Takes those of LuongAttention, noise and bias of the scores, and the mode of `monotonic_attention`."""
        super().__init__(num_units, memory, memory_sequence_length, scale, None, score_mask_value, dtype, name=name)
        self._set_monotonic(sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)
