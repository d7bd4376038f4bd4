"""The compiled steps that a session keeps: bounded, the last used ones."""

from __future__ import annotations

import pytest

import thalweg as tf


def test_steps_that_were_not_run_longest_are_forgotten() -> None:
    x = tf.placeholder(tf.float32, [])
    sums = [x + float(n) for n in range(40)]
    with tf.Session(max_compiled_steps=8) as session:
        for n, total in enumerate(sums):
            assert session.run(total, {x: 1.0}) == 1.0 + n
            assert session.run([sums[0]], {x: 1.0}) == [1.0]  # stays
            assert len(session._steps) <= 8
            assert len(session._steps_by_call) <= 16
        kept = {tensor.name for signature in session._steps for tensor in signature[0]}
        assert sums[0].name in kept and sums[39].name in kept
        assert sums[1].name not in kept
        assert session.run(sums[1], {x: 1.0}) == 2.0


def test_a_session_keeps_at_least_one_step() -> None:
    with pytest.raises(ValueError, match="max_compiled_steps must be positive, got 0"):
        tf.Session(max_compiled_steps=0)


def test_a_step_that_cannot_be_compiled_for_lack_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.runtime import session as sessions

    def exhausted(*_: object) -> None:
        raise MemoryError

    with tf.Session() as session:
        one = tf.constant(1.0)
        monkeypatch.setattr(sessions.BaseSession, "_installed", exhausted)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="compiled"):
            session.run(one)
