"""Arguments under the names that programs for TensorFlow 1 give them by keyword."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_vocabularies_are_mappings() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.contrib.lookup.index_table_from_tensor(mapping=tf.constant(["a", "b"]), num_oov_buckets=1)
        words = tf.contrib.lookup.index_to_string_table_from_tensor(mapping=["a", "b"], default_value="?")
        found = ids.lookup(tf.constant(["b", "z"])), words.lookup(tf.constant([1, 5], tf.int64))
        session.run(tf.tables_initializer())
        assert [each.tolist() for each in session.run(found)] == [[1, 2], [b"b", b"?"]]


def test_checkpoints_are_found_by_their_folder(tmp_path: Path) -> None:
    framework = tf.contrib.framework
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("v", initializer=[1.0, 2.0])
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    assert framework.list_variables(checkpoint_dir=str(tmp_path)) == [("v", [2])]
    assert framework.load_variable(checkpoint_dir=prefix, name="v").tolist() == [1.0, 2.0]
    assert framework.load_checkpoint(filepattern=prefix).has_tensor("v")
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", [2])
        framework.init_from_checkpoint(checkpoint_dir=str(tmp_path), assignment_map={"v": w})
        session.run(tf.global_variables_initializer())
        assert session.run(w).tolist() == [1.0, 2.0]


def test_the_global_step_is_asserted_or_got() -> None:
    check = tf.contrib.framework.assert_or_get_global_step
    with tf.Graph().as_default() as graph:
        assert check() is None
        step = tf.train.create_global_step()
        assert check(graph) is step
        assert check(global_step_tensor=step) is step
        with pytest.raises(TypeError):
            check(global_step_tensor=tf.Variable([1.0]))


def test_tags_of_deprecated_summaries_stand_as_given() -> None:
    old = tf.contrib.deprecated
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.name_scope("scope"):
            summaries = [
                old.scalar_summary(["p", "q"], [1.0, 2.0]),
                old.histogram_summary(tag="h", values=[1.0, 2.0]),
                old.image_summary("i", tf.zeros([1, 2, 2, 1]), max_images=2),
                old.audio_summary(tag="a", tensor=tf.zeros([1, 8, 1]), sample_rate=8000.0),
            ]
        merged = old.merge_all_summaries()
        shown = tf.Summary.FromString(session.run(merged))
    assert [value.tag for value in shown.value] == ["p", "q", "h", "i/image/0", "a/audio/0"]
    assert summaries[0].op.name == "scope/ScalarSummary"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        # From TensorFlow 1.15.5: sums are divided by the number of weights that are not zero.
        ({"sum_over_timesteps": True, "sum_over_batch": True}, [1.03972077]),
        ({"sum_over_timesteps": True}, [1.38629436, 0.69314718]),
        ({"sum_over_batch": True}, [1.03972077, 1.03972077]),
        ({"average_across_timesteps": True}, [0.69314718, 0.69314718]),
    ],
)
def test_sums_of_a_sequence_loss(chosen: dict[str, bool], expected: list[float]) -> None:
    logits, targets = tf.zeros([2, 2, 2]), tf.zeros([2, 2], tf.int32)
    weights = tf.constant([[2.0, 2.0], [1.0, 1.0]])
    options = {"average_across_timesteps": False, "average_across_batch": False, **chosen}
    with tf.Session() as session:
        found = session.run(tf.contrib.seq2seq.sequence_loss(logits, targets, weights, **options))
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-6)


def test_an_axis_is_not_averaged_and_summed() -> None:
    arguments = tf.zeros([2, 2, 2]), tf.zeros([2, 2], tf.int32), tf.ones([2, 2])
    for name in ("sum_over_timesteps", "sum_over_batch"):
        with pytest.raises(ValueError, match=name):
            tf.contrib.seq2seq.sequence_loss(*arguments, **{name: True})


def test_keras_functions_by_keyword() -> None:
    backend: Any = tf.keras.backend
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.reshape(tf.range(6.0), [1, 2, 3])
        v = tf.Variable(1.0)
        session.run(v.initializer)
        assert session.run(backend.shape(x=x)).tolist() == [1, 2, 3]
        assert backend.transpose(x=x).shape == (3, 2, 1)
        assert backend.reshape(x=x, shape=(3, -1)).shape == (3, 2)
        assert backend.squeeze(x=x, axis=0).shape == (2, 3)
        assert session.run(backend.one_hot(indices=[1], num_classes=3)).tolist() == [[0.0, 1.0, 0.0]]
        assert len(backend.stop_gradient(variables=[x, x])) == 2
        assert session.run(backend.arange(start=1, stop=7, step=2)).tolist() == [1, 3, 5]
        assert session.run(backend.arange(3, dtype="float32")).tolist() == [0.0, 1.0, 2.0]
        assert session.run(backend.update_add(x=v, increment=2.0)) == 3.0
        assert session.run(backend.update_sub(x=v, decrement=1.0)) == 2.0
        assert session.run(backend.update(x=v, new_x=7.0)) == 7.0
