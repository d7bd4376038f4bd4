"""Damaged MetaGraphs, SavedModels and event files raise errors that name the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf

# What a reader may raise for any content whatsoever.
NAMED = (tf.errors.OpError, OSError, ValueError, RuntimeError, TypeError)


def damaged(content: bytes, seed: int) -> bytes:
    chosen = random.Random(seed)
    out = bytearray(content)
    for _ in range(chosen.randrange(1, 6)):
        at = chosen.randrange(len(out))
        out[at : at + chosen.randrange(0, 3)] = bytes(chosen.randrange(256) for _ in range(chosen.randrange(0, 3)))
    return bytes(out)


@pytest.fixture
def meta_graph(tmp_path: Path) -> bytes:
    with tf.Graph().as_default():
        v = tf.Variable([1.0], name="v")
        tf.add_to_collection("outputs", tf.while_loop(lambda x: x[0] < 2.0, lambda x: x + v, [v + 0.0]))
        tf.train.Saver()
        tf.train.export_meta_graph(str(tmp_path / "a.meta"))
    return (tmp_path / "a.meta").read_bytes()


def test_damaged_meta_graphs(meta_graph: bytes, tmp_path: Path) -> None:
    path = tmp_path / "b.meta"
    failures = 0
    for seed in range(300):
        path.write_bytes(damaged(meta_graph, seed))
        with tf.Graph().as_default():
            try:
                tf.train.import_meta_graph(str(path))
            except tf.errors.InvalidArgumentError as e:
                failures += str(path) in e.message
            except NAMED:
                failures += 1
    assert failures > 50


def test_a_name_that_is_not_in_the_graph(tmp_path: Path, meta_graph: bytes) -> None:
    path = tmp_path / "c.meta"
    # The graph element that a saver needs has another name.
    path.write_bytes(meta_graph.replace(b"save/Const:0", b"save/Xonst:0"))
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            saver: Any = tf.train.import_meta_graph(str(path))
        except tf.errors.InvalidArgumentError as e:
            assert str(path) in e.message
        else:
            with pytest.raises((ValueError, TypeError, tf.errors.OpError)):
                saver.restore(session, str(path))


def test_an_event_file_with_a_record_that_is_no_event(tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(tf.errors.DataLossError, match="events has a record that is no Event"):
        list(tf.train.summary_iterator(path))
