"""Seeded random ops in the functions of datasets: every iterator draws the same numbers, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf
from tests.data_pipeline.elements import plain, rest

Range = tf.data.Dataset.range


def _draw(*_: Any) -> Any:
    return tf.random_uniform([], 0, 10**9, tf.int64, seed=7)


def _draw_after_waiting(*_: Any) -> Any:
    # A conditional makes the function run as a step of its own.
    return tf.cond(tf.random_uniform([], seed=3) < 0.5, _draw, lambda: _draw() + 1)


def _nested(_: Any) -> Any:
    return Range(3).map(_draw)


CASES: dict[str, Callable[[], Any]] = {
    "map": lambda: Range(6).map(_draw),
    "prefetched": lambda: Range(6).map(_draw).prefetch(2),
    "repeated": lambda: Range(3).map(_draw).repeat(2),
    "conditional": lambda: Range(6).map(_draw_after_waiting),
    "parallel": lambda: Range(6).map(_draw, num_parallel_calls=1),
    "flat_map": lambda: Range(2).flat_map(_nested),
    "interleave": lambda: Range(2).interleave(_nested, cycle_length=2),
    "filter": lambda: Range(12).filter(lambda i: tf.random_uniform([], seed=3) < 0.5),
    "scan": lambda: Range(6).apply(tf.data.experimental.scan(tf.constant(0, tf.int64), lambda s, _: (s, _draw()))),
    "shuffled": lambda: Range(1).map(lambda _: tf.random_shuffle(tf.range(100), seed=2)),
    "normal": lambda: Range(4).map(lambda _: tf.random_normal([2], seed=2)),
    "multinomial": lambda: Range(4).map(lambda _: tf.multinomial([[1.0, 1.0]], 9, seed=2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_second_iterator_draws_the_same_numbers(case: str) -> None:
    dataset = CASES[case]()
    first, second = dataset.make_initializable_iterator(), dataset.make_initializable_iterator()
    one, other = first.get_next(), second.get_next()
    with tf.Session() as session:
        session.run(first.initializer)
        drawn = plain(rest(session, one))
        session.run(second.initializer)
        assert plain(rest(session, other)) == drawn
        session.run(first.initializer)
        assert plain(rest(session, one)) == drawn, "an iterator that starts over"


def test_within_an_iterator_the_stream_goes_on() -> None:
    iterator = Range(3).map(_draw).repeat(2).make_one_shot_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        drawn = rest(session, element)
    assert len(set(drawn)) == 6, "a second epoch does not repeat the first"


def test_iterators_that_take_turns_do_not_share_a_stream() -> None:
    dataset = Range(4).map(_draw)
    one, other = (dataset.make_one_shot_iterator().get_next() for _ in range(2))
    with tf.Session() as session:
        pairs = [session.run([one, other]) for _ in range(4)]
    assert all(a == b for a, b in pairs) and len({a for a, _ in pairs}) == 4


def test_ops_without_a_seed_differ() -> None:
    dataset = Range(4).map(lambda _: tf.random_uniform([], 0, 10**9, tf.int64))
    one, other = (dataset.make_one_shot_iterator().get_next() for _ in range(2))
    with tf.Session() as session:
        pairs = [session.run([one, other]) for _ in range(4)]
    assert any(a != b for a, b in pairs)


def test_ops_of_the_step_itself_keep_their_own_stream() -> None:
    element = Range(4).map(_draw).make_one_shot_iterator().get_next()
    with tf.control_dependencies([element]):
        own = tf.random_uniform([], 0, 10**9, tf.int64, seed=7)
    with tf.Session() as session:
        drawn = {int(session.run([element, own])[1]) for _ in range(4)}
    assert len(drawn) == 4
