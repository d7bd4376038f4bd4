"""tf.train.Checkpoint and CheckpointManager: keys, the object graph, restoring, and which checkpoints are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto import trackable_object_graph_pb2

import thalweg as tf

VALUE = ".ATTRIBUTES/VARIABLE_VALUE"


def _model() -> tuple[Any, Any, Any]:
    """A checkpoint of a dense layer, its Adam optimizer, and a step."""
    layer = tf.layers.Dense(3, kernel_initializer=tf.ones_initializer(), name="a_name")
    loss = tf.reduce_sum(layer(tf.ones([1, 2])) ** 2)
    optimizer = tf.train.AdamOptimizer(0.1)
    step = tf.Variable(0, name="steps_done", dtype=tf.int64)
    train = optimizer.minimize(loss, global_step=step)
    return tf.train.Checkpoint(net=layer, optimizer=optimizer, step=step), train, layer


def test_values_are_saved_by_the_path_of_attributes(tmp_path: Path) -> None:
    checkpoint, train, layer = _model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(tmp_path / "ckpt")
        kernel = session.run(layer.kernel)
    assert path == str(tmp_path / "ckpt-1") and tf.train.latest_checkpoint(tmp_path) == path
    saved = dict(tf.train.list_variables(path))
    assert saved.pop("_CHECKPOINTABLE_OBJECT_GRAPH") == []
    slots = [
        f"net/{name}/.OPTIMIZER_SLOT/optimizer/{slot}/{VALUE}" for name in ("kernel", "bias") for slot in ("m", "v")
    ]
    plain = ["net/kernel", "net/bias", "optimizer/beta1_power", "optimizer/beta2_power", "step", "save_counter"]
    assert set(saved) == {*slots, *(f"{name}/{VALUE}" for name in plain)}
    assert saved[slots[0]] == [2, 3]
    np.testing.assert_array_equal(tf.train.load_variable(path, f"net/kernel/{VALUE}"), kernel)


def test_the_object_graph_lists_owners_values_and_slots(tmp_path: Path) -> None:
    checkpoint, _, _ = _model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = checkpoint.write(tmp_path / "ckpt")
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        tf.train.load_variable(path, "_CHECKPOINTABLE_OBJECT_GRAPH")
    )
    root = {child.local_name: graph.nodes[child.node_id] for child in graph.nodes[0].children}
    assert sorted(root) == ["net", "optimizer", "save_counter", "step"]
    assert root["step"].attributes[0].full_name == "steps_done"
    kernel = next(child.node_id for child in root["net"].children if child.local_name == "kernel")
    slots = {(slot.original_variable_node_id, slot.slot_name): slot for slot in root["optimizer"].slot_variables}
    assert sorted(name for number, name in slots if number == kernel) == ["m", "v"]
    node = graph.nodes[slots[kernel, "m"].slot_variable_node_id]
    assert node.attributes[0].checkpoint_key == f"net/kernel/.OPTIMIZER_SLOT/optimizer/m/{VALUE}"


def test_another_program_with_other_names_restores_and_goes_on(tmp_path: Path) -> None:
    checkpoint, train, layer = _model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(tmp_path / "ckpt")
        session.run(train)
        expected = session.run(layer.kernel)
    with tf.Graph().as_default(), tf.variable_scope("elsewhere"):
        checkpoint, train, layer = _model()
        with tf.Session() as session:
            checkpoint.restore(path).assert_consumed().run_restore_ops(session)
            assert session.run([checkpoint.step, checkpoint.save_counter]) == [1, 1]
            session.run(train)
            np.testing.assert_array_equal(session.run(layer.kernel), expected)
            assert checkpoint.save(tmp_path / "ckpt", session).endswith("ckpt-2")


def test_lists_dicts_and_nested_checkpoints_have_paths(tmp_path: Path) -> None:
    a, b, c, d = (tf.Variable(float(i)) for i in range(4))
    checkpoint = tf.train.Checkpoint(many=[a, b], named={"x/y.z": c}, inner=tf.train.Checkpoint(d=d, also=a))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = checkpoint.write(tmp_path / "model", session)
    keys = {name.removesuffix(f"/{VALUE}") for name, _ in tf.train.list_variables(path)}
    # One of two shortest paths to `a`: that of the object which comes first.
    assert keys - {"_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"} == {
        "inner/also", "many/1", "named/x.Sy..z", "inner/d",
    }  # fmt: skip


def test_objects_made_after_restore_count(tmp_path: Path) -> None:
    first = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = first.write(tmp_path / "model")
    later = tf.train.Checkpoint()
    status = later.restore(path)
    with pytest.raises(AssertionError, match="Unresolved object in checkpoint"):
        status.assert_consumed()
    later.v = tf.Variable([0.0, 0.0])
    later.new = tf.Variable(7.0)
    with pytest.raises(AssertionError, match=r"Object not assigned a value.*new/\.ATTRIBUTES"):
        status.assert_existing_objects_matched()
    with tf.Session() as session:
        status.initialize_or_restore(session)
        assert session.run(later.v).tolist() == [1.0, 2.0] and session.run(later.new) == 7.0


def test_no_checkpoint_initializes(tmp_path: Path) -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(5.0))
    status = checkpoint.restore(None)
    with tf.Session() as session:
        status.initialize_or_restore()
        assert session.run(checkpoint.v) == 5.0
    with pytest.raises(AssertionError, match="No checkpoint specified"):
        status.run_restore_ops()
    with pytest.raises(tf.errors.NotFoundError):
        checkpoint.restore(str(tmp_path / "absent"))


def test_checkpoints_of_a_saver_are_restored_by_name(tmp_path: Path) -> None:
    v = tf.Variable(3.0, name="v")
    counter = tf.train.Checkpoint(v=v).save_counter
    with tf.Session() as session:
        session.run([v.initializer, counter.initializer])
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        checkpoint = tf.train.Checkpoint(any=tf.Variable(0.0, name="v"))
        with tf.Session() as session:
            checkpoint.restore(path).assert_consumed().run_restore_ops(session)
            assert session.run(checkpoint.any) == 3.0


def test_what_owns_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="was expecting x to be a trackable object"):
        tf.train.Checkpoint(x=3)
    with pytest.raises(ValueError, match="No session"):
        tf.train.Checkpoint(v=tf.Variable(1.0)).save("/tmp/nowhere")


def test_a_manager_keeps_the_latest_also_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    assert manager.latest_checkpoint is None and manager.checkpoints == []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            manager.save()
        assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
        manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
        assert manager.save() == str(folder / "ckpt-4") == manager.latest_checkpoint
    assert sorted({name.partition(".")[0] for name in os.listdir(folder)}) == ["checkpoint", "ckpt-3", "ckpt-4"]
    assert tf.train.latest_checkpoint(folder) == str(folder / "ckpt-4")


def test_a_manager_keeps_some_for_good_and_waits_for_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("thalweg.trackable.checkpoint_manager.time.time", lambda: clock[0])
    step = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step), tmp_path, 1, keep_checkpoint_every_n_hours=1, checkpoint_name="m",
        step_counter=step, checkpoint_interval=2,
    )  # fmt: skip
    with tf.Session() as session:
        session.run(step.initializer)
        written = []
        for _ in range(6):
            clock[0] += 1300.0
            written.append(manager.save(checkpoint_number=step))
            session.run(step.assign_add(1))
    assert [path and os.path.basename(path) for path in written] == ["m-0", None, "m-2", None, "m-4", None]
    # Made 1300 and 3900 seconds after the start: the second is the first that is more than an hour old.
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".index")) == ["m-2.index", "m-4.index"]


def test_a_manager_restores_or_initializes(tmp_path: Path) -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    called = []
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, 3, init_fn=lambda: called.append(True))
    with tf.Session() as session:
        assert manager.restore_or_initialize() is None and called == [True]
        session.run(checkpoint.v.assign(9.0))
        path = manager.save()
    with tf.Session() as session:
        assert manager.restore_or_initialize() == path
        assert session.run(checkpoint.v) == 9.0
