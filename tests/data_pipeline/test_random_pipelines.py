"""Random pipelines of transformations against the same on Python lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings

import thalweg as tf
from tests.data_pipeline.elements import plain, rest


class Stage(NamedTuple):
    """A transformation of int64 scalars to int64 scalars, and the same transformation of a list."""

    text: str
    dataset: Callable[[Any], Any]
    model: Callable[[list[int]], list[int]]


def _interleaved(items: list[int], cycle: int, block: int, length: int) -> list[int]:
    pending = [[x * 10 + i for i in range(length)] for x in items]
    places: list[list[int] | None] = [None] * cycle
    out: list[int] = []
    at = 0
    while pending or any(place is not None for place in places):
        place = places[at]
        if place is None and pending:
            place = places[at] = pending.pop(0)
        if place is not None:
            out += place[:block]
            finished = len(place) < block
            places[at] = place[block:]
            # A dataset of the cycle is found to be at its end only at the next pull.
            if finished or (not places[at] and block > len(place)):
                places[at] = None
        at = (at + 1) % cycle
    return out


def _windows(items: list[int], size: int, shift: int, stride: int, drop: bool) -> list[int]:
    out = []
    for start in range(0, len(items), shift):
        window = items[start : start + (size - 1) * stride + 1 : stride]
        span = items[start : start + (size - 1) * stride + 1]
        if drop and len(span) < (size - 1) * stride + 1:
            break
        out.append(sum(window))
    return out


def _batches(items: list[int], size: int, drop: bool) -> list[int]:
    batches = [items[i : i + size] for i in range(0, len(items), size)]
    return [sum(batch) for batch in batches if not drop or len(batch) == size]


def _scan(items: list[int]) -> list[int]:
    total, out = 0, []
    for x in items:
        total += x
        out.append(total)
    return out


_small = st.integers(1, 5)
_few = st.integers(-1, 9)
_calls = st.sampled_from([None, 1, 3, tf.data.experimental.AUTOTUNE])

STAGES = st.one_of(
    st.builds(lambda n: Stage(f"take({n})", lambda d: d.take(n), lambda x: x[:n] if n >= 0 else x), _few),
    st.builds(lambda n: Stage(f"skip({n})", lambda d: d.skip(n), lambda x: [] if n < 0 else x[n:]), _few),
    st.builds(
        lambda n, i: Stage(f"shard({n}, {i % n})", lambda d: d.shard(n, i % n), lambda x: x[i % n :: n]),
        _small, st.integers(0, 9),
    ),
    st.builds(lambda n: Stage(f"repeat({n})", lambda d: d.repeat(n), lambda x: x * n), st.integers(0, 2)),
    st.builds(lambda n: Stage(f"prefetch({n})", lambda d: d.prefetch(n), lambda x: x), st.integers(-1, 3)),
    st.just(Stage("cache", lambda d: d.cache(), lambda x: x)),
    st.builds(
        lambda p: Stage(f"map({p})", lambda d: d.map(lambda v: v * 3 - 1, p), lambda x: [v * 3 - 1 for v in x]), _calls
    ),
    st.just(Stage("filter", lambda d: d.filter(lambda v: tf.equal(v % 2, 0)), lambda x: [v for v in x if v % 2 == 0])),
    st.builds(
        lambda n: Stage(
            f"flat_map({n})",
            lambda d: d.flat_map(lambda v: tf.data.Dataset.range(v, v + n)),
            lambda x: [v + i for v in x for i in range(n)],
        ),
        st.integers(0, 3),
    ),
    st.builds(
        lambda c, b, n, p: Stage(
            f"interleave({c}, {b}, {n}, {p})",
            lambda d: d.interleave(lambda v: tf.data.Dataset.range(v * 10, v * 10 + n), c, b, p),
            lambda x: _interleaved(x, c, b, n),
        ),
        _small, _small, st.integers(1, 4), st.sampled_from([None, 1, 2]),
    ),
    st.builds(
        lambda n, drop: Stage(
            f"batch({n}, {drop})", lambda d: d.batch(n, drop).map(tf.reduce_sum), lambda x: _batches(x, n, drop)
        ),
        _small, st.booleans(),
    ),
    st.builds(
        lambda n: Stage(f"unbatch({n})", lambda d: d.batch(n).unbatch(), lambda x: x), _small,
    ),
    st.builds(
        lambda n, s, k, drop: Stage(
            f"window({n}, {s}, {k}, {drop})",
            lambda d: d.window(n, s, k, drop).flat_map(lambda w: w.batch(n).map(tf.reduce_sum)),
            lambda x: _windows(x, n, s, k, drop),
        ),
        _small, _small, st.integers(1, 3), st.booleans(),
    ),
    st.just(Stage("shuffle(1)", lambda d: d.shuffle(1), lambda x: x)),
    st.just(
        Stage(
            "enumerate",
            lambda d: d.enumerate().map(lambda i, v: i * 100 + v),
            lambda x: [i * 100 + v for i, v in enumerate(x)],
        )
    ),
    st.just(Stage("concatenate", lambda d: d.concatenate(d.take(2)), lambda x: x + x[:2])),
    st.just(
        Stage(
            "zip",
            lambda d: tf.data.Dataset.zip((d, d.skip(1))).map(lambda a, b: a - b),
            lambda x: [a - b for a, b in itertools.pairwise(x)],
        )
    ),
    st.just(
        Stage(
            "scan",
            lambda d: d.apply(tf.data.experimental.scan(np.int64(0), lambda s, v: (s + v, s + v))),
            _scan,
        )
    ),
    st.just(Stage("unique", lambda d: d.apply(tf.data.experimental.unique()), lambda x: list(dict.fromkeys(x)))),
    st.just(
        Stage(
            "take_while",
            lambda d: d.apply(tf.data.experimental.take_while(lambda v: v < 20)),
            lambda x: x[: next((i for i, v in enumerate(x) if v >= 20), len(x))],
        )
    ),
)  # fmt: skip

PIPELINES = st.lists(STAGES, min_size=1, max_size=4)
_SETTINGS = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def build(length: int, stages: list[Stage]) -> tuple[Any, list[int]]:
    """The dataset, and the list that it should give."""
    dataset, model = tf.data.Dataset.range(length), list(range(length))
    for stage in stages:
        if len(model) > 200:
            break
        dataset, model = stage.dataset(dataset), stage.model(model)
    return dataset, model


@_SETTINGS
@given(length=st.integers(0, 12), stages=PIPELINES)
def test_a_pipeline_gives_what_lists_give(length: int, stages: list[Stage]) -> None:
    with tf.Graph().as_default():
        dataset, model = build(length, stages)
        element = dataset.make_one_shot_iterator().get_next()
        with tf.Session() as session:
            assert plain(rest(session, element)) == model, [stage.text for stage in stages]


@_SETTINGS
@given(length=st.integers(0, 12), stages=PIPELINES, taken=st.integers(0, 6))
def test_a_restored_position_goes_on_as_if_nothing_had_happened(length: int, stages: list[Stage], taken: int) -> None:
    with tf.Graph().as_default():
        dataset, model = build(length, stages)
        iterator = dataset.make_initializable_iterator()
        element = iterator.get_next()
        resource = iterator._iterator_resource
        position = tf.raw_ops._IteratorPosition(resource_handle=resource)
        fed = tf.placeholder(tf.string, [])
        restore = tf.raw_ops._RestoreIteratorPosition(resource_handle=resource, position=fed)
        with tf.Session() as session:
            session.run(iterator.initializer)
            before = plain(rest(session, element, taken))
            saved = session.run(position)
            after = plain(rest(session, element))
        with tf.Session() as session:
            session.run(iterator.initializer)
            session.run(restore, {fed: saved})
            again = plain(rest(session, element))
    assert before + after == model, [stage.text for stage in stages]
    assert again == after, [stage.text for stage in stages]


@_SETTINGS
@given(length=st.integers(0, 12), stages=PIPELINES)
def test_a_known_cardinality_is_the_length(length: int, stages: list[Stage]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        dataset, model = build(length, stages)
        count = int(session.run(tf.data.experimental.cardinality(dataset)))
    assert count in (len(model), tf.data.experimental.UNKNOWN_CARDINALITY), [stage.text for stage in stages]
