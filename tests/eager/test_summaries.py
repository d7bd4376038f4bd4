"""Summaries where ops run at once: written by the call, within a writer's block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

summary = tf.contrib.summary


def events(folder: Path) -> list[tuple[int, str]]:
    """Step and tag of each value in the event file of a folder."""
    (path,) = folder.iterdir()
    return [(e.step, value.tag) for e in tf.train.summary_iterator(str(path)) for value in e.summary.value]


def test_values_are_written_by_the_call(tmp_path: Path) -> None:
    step = tf.train.create_global_step()
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default(), summary.always_record_summaries():
        for i in range(2):
            step.assign_add(1)
            summary.scalar("loss", tf.constant(0.5) * i)
            summary.histogram("weights", tf.ones([3]), family="layer")
        summary.image("pixels", np.zeros([1, 4, 4, 3], np.float32), step=7)
        with summary.never_record_summaries():
            summary.scalar("unseen", 1.0)
    summary.scalar("outside", 1.0)
    assert writer.flush() is None
    found = events(tmp_path)
    assert [pair for pair in found if pair[1] == "loss"] == [(1, "loss"), (2, "loss")]
    assert [s for s, tag in found if tag.startswith("layer/")] == [1, 2]
    assert [s for s, tag in found if tag.startswith("pixels")] == [7]
    assert not any(tag in ("unseen", "outside") for _, tag in found)
    writer.close()


def test_values_at_some_steps(tmp_path: Path) -> None:
    step = tf.Variable(0, dtype=tf.int64)
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default(), summary.record_summaries_every_n_global_steps(2, step):
        for _ in range(5):
            step.assign_add(1)
            summary.scalar("loss", 1.0, step=step)
    writer.close()
    assert events(tmp_path) == [(2, "loss"), (4, "loss")]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_file_writer_takes_eager_summaries(tmp_path: Path, as_text: bool) -> None:
    made: Any = tf.summary.scalar("loss", tf.constant(2.0))
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_summary(made.numpy() if as_text else made, 3)
    assert events(tmp_path) == [(3, "loss")]
