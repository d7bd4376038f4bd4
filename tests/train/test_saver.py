"""tf.train.Saver: what it saves, keeps, restores and refuses, and the names of its nodes."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data.make_checkpoints import FOLDER, inputs, weights

DATA = ".data-00000-of-00001"


@pytest.fixture(autouse=True)
def _fresh_graph() -> Any:
    with tf.Graph().as_default():
        yield


def started(*values: Any) -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def files(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_variables_come_back_uninitialized_or_not(tmp_path: Path) -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    w = tf.get_variable("scope/w", initializer=np.arange(6).reshape(2, 3))
    s = tf.Variable(["a", "bc"], name="s")
    saver = tf.train.Saver()
    with started() as session:
        path = saver.save(session, str(tmp_path / "model"))
        assert path == str(tmp_path / "model")
        session.run([v.assign([7.0, 8.0])])
        saver.restore(session, path)
        assert session.run(v).tolist() == [1, 2]
    with tf.Session() as session:
        saver.restore(session, path)
        assert session.run(w).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert session.run(s).tolist() == [b"a", b"bc"]
        assert session.run(tf.report_uninitialized_variables()).size == 0


def test_the_nodes_have_tensorflows_names() -> None:
    tf.get_variable("b", [2])
    tf.get_variable("a", [])
    before = len(tf.get_default_graph().get_operations())
    saver_def = tf.train.Saver().as_saver_def()
    names = [op.name for op in tf.get_default_graph().get_operations()[before:]]
    assert names == [
        "save/filename/input", "save/filename", "save/Const", "save/SaveV2/tensor_names",
        "save/SaveV2/shape_and_slices", "save/SaveV2", "save/control_dependency", "save/RestoreV2/tensor_names",
        "save/RestoreV2/shape_and_slices", "save/RestoreV2", "save/Identity", "save/AssignVariableOp",
        "save/Identity_1", "save/AssignVariableOp_1", "save/restore_all",
    ]  # fmt: skip
    assert saver_def.filename_tensor_name == "save/Const:0"
    assert saver_def.save_tensor_name == "save/control_dependency:0"
    assert saver_def.restore_op_name == "save/restore_all"
    assert (saver_def.max_to_keep, saver_def.sharded, saver_def.version) == (5, False, tf.train.SaverDef.V2)
    save = tf.get_default_graph().get_operation_by_name("save/SaveV2")
    assert [t.op.name for t in save.inputs[3:]] == ["a/Read/ReadVariableOp", "b/Read/ReadVariableOp"]


def test_a_sharded_saver_writes_one_file_per_device(tmp_path: Path) -> None:
    with tf.device("/cpu:0"):
        a = tf.get_variable("a", initializer=1.0)
    b = tf.get_variable("b", initializer=2.0)
    saver = tf.train.Saver(sharded=True)
    assert saver.as_saver_def().save_tensor_name == "save/Identity:0"
    names = {op.name for op in tf.get_default_graph().get_operations()}
    assert {"save/num_shards", "save/ShardedFilename_1", "save/MergeV2Checkpoints", "save/restore_shard_1"} <= names
    with started() as session:
        for _ in range(2):
            path = saver.save(session, str(tmp_path / "m"), write_meta_graph=False)
            assert files(tmp_path) == {"checkpoint", "m.index", "m.data-00000-of-00002", "m.data-00001-of-00002"}
    with tf.Session() as session:
        saver.restore(session, path)
        assert session.run([a, b]) == [1, 2]
    with tf.Session() as session:  # The layout does not matter to a reader.
        tf.train.Saver().restore(session, path)
        assert session.run([a, b]) == [1, 2]


def test_steps_are_part_of_names(tmp_path: Path) -> None:
    step = tf.train.create_global_step()
    saver = tf.train.Saver(pad_step_number=True)
    with started() as session:
        session.run(step.assign(42))
        assert saver.save(session, str(tmp_path / "m"), global_step=step) == str(tmp_path / "m-00000042")
        assert tf.train.Saver().save(session, str(tmp_path / "m"), global_step=np.int64(7)) == str(tmp_path / "m-7")
        assert tf.train.Saver().save(session, str(tmp_path / "m"), step, meta_graph_suffix="graph").endswith("m-42")
    assert {"m-00000042.meta", "m-7.meta", "m-42.graph"} <= files(tmp_path)


def test_old_checkpoints_are_deleted(tmp_path: Path) -> None:
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver(max_to_keep=2)
    with started() as session:
        paths = [saver.save(session, str(tmp_path / "m"), global_step=i) for i in range(4)]
        assert saver.last_checkpoints == paths[2:]
        assert {name.split(".")[0] for name in files(tmp_path)} == {"checkpoint", "m-2", "m-3"}
        saver.save(session, str(tmp_path / "m"), global_step=2)  # Again: it becomes the latest.
        assert saver.last_checkpoints == [paths[3], paths[2]]
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert state.model_checkpoint_path == paths[2]
        assert list(state.all_model_checkpoint_paths) == [paths[3], paths[2]]
        everything = tf.train.Saver(max_to_keep=None)
        for i in range(3):
            everything.save(session, str(tmp_path / "all"), global_step=i, write_meta_graph=False)
        assert everything.last_checkpoints == []
    assert {f"all-{i}.index" for i in range(3)} <= files(tmp_path)


class _SlowSession:
    """A session whose first step waits for another save to end, as long as one could have taken."""

    def __init__(self, session: tf.Session, started: threading.Event, other: threading.Thread) -> None:
        self.graph = session.graph
        self._session, self._started, self._other = session, started, other

    def run(self, *args: Any, **kwargs: Any) -> Any:
        if not self._started.is_set():
            self._started.set()
            self._other.join(0.5)
        return self._session.run(*args, **kwargs)


def test_the_latest_checkpoint_is_the_one_whose_saving_began_last(tmp_path: Path) -> None:
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver()
    prefix = str(tmp_path / "model")
    started = threading.Event()
    with tf.Session() as sess:
        sess.run(v.initializer)

        def save_later() -> None:
            started.wait()
            saver.save(sess, prefix, global_step=2)

        later = threading.Thread(target=save_later)
        later.start()
        saver.save(_SlowSession(sess, started, later), prefix, global_step=1)
        later.join()
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest is not None and latest.endswith("model-2")
    assert [os.path.basename(each) for each in saver.last_checkpoints] == ["model-1", "model-2"]


def test_some_checkpoints_are_kept_for_good(tmp_path: Path) -> None:
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
    with started() as session:
        for i in range(3):
            saver.save(session, str(tmp_path / "m"), global_step=i, write_meta_graph=False)
    assert {f"m-{i}.index" for i in range(3)} <= files(tmp_path)


def test_a_restarted_program_takes_over_old_checkpoints(tmp_path: Path) -> None:
    tf.Variable(1.0, name="v")
    with started() as session:
        first = tf.train.Saver(max_to_keep=2)
        paths = [first.save(session, str(tmp_path / "m"), global_step=i) for i in range(2)]
        second = tf.train.Saver(max_to_keep=2)
        second.recover_last_checkpoints([*paths, str(tmp_path / "gone")])
        assert second.last_checkpoints == paths
        second.save(session, str(tmp_path / "m"), global_step=2)
        assert not tf.train.checkpoint_exists(paths[0]) and tf.train.checkpoint_exists(paths[1])
        second.set_last_checkpoints_with_time([(paths[1], 1.0)])
        assert second.last_checkpoints == [paths[1]]
        second.set_last_checkpoints([paths[1]])
        assert second.last_checkpoints == [paths[1]]


def test_variables_are_restored_partly_and_under_other_names(tmp_path: Path) -> None:
    a = tf.get_variable("a", initializer=1.0)
    b = tf.get_variable("b", initializer=2.0)
    with started() as session:
        path = tf.train.Saver({"x": a, "y": b}).save(session, str(tmp_path / "m"))
    assert tf.train.list_variables(path) == [("x", []), ("y", [])]
    with started() as session:
        tf.train.Saver({"y": a}).restore(session, path)
        assert session.run([a, b]) == [2, 2]
        tf.train.Saver({"x": b}).restore(session, path)
        assert session.run([a, b]) == [2, 1]


def test_partitioned_variables_are_one_in_the_checkpoint(tmp_path: Path) -> None:
    whole = np.arange(20, dtype=np.float32).reshape(10, 2)
    with tf.Graph().as_default():
        tf.get_variable("w", initializer=whole, partitioner=tf.fixed_size_partitioner(3))
        with started() as session:
            path = tf.train.Saver().save(session, str(tmp_path / "m"))
    np.testing.assert_array_equal(tf.train.load_variable(path, "w"), whole)
    for parts in (1, 2, 4):
        with tf.Graph().as_default(), tf.Session() as session:
            partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
            w = tf.get_variable("w", [10, 2], partitioner=partitioner)
            for saver in (tf.train.Saver(), tf.train.Saver({"w": w})):
                saver.restore(session, path)
                np.testing.assert_array_equal(session.run(tf.convert_to_tensor(w)), whole)


def test_reshape_accepts_another_shape(tmp_path: Path) -> None:
    with tf.Graph().as_default(), started() as session:
        tf.get_variable("v", initializer=np.arange(6.0))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    v = tf.get_variable("v", [2, 3], tf.float64)
    with tf.Session() as session:
        tf.train.Saver(reshape=True, restore_sequentially=True).restore(session, path)
        assert session.run(v).tolist() == [[0, 1, 2], [3, 4, 5]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"v: shape \[2, 3\] here, \[6\] in the checkpoint"):
            tf.train.Saver().restore(session, path)


def test_failures_name_the_variable_and_what_to_do(tmp_path: Path) -> None:
    tf.get_variable("weights", initializer=[1.0])
    with started() as session:
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("weight", [1])
        with pytest.raises(tf.errors.NotFoundError, match="weight: not in the checkpoint; it has weights") as caught:
            tf.train.Saver().restore(session, path)
        assert "Restoring from checkpoint failed" in str(caught.value) and "var_list" in str(caught.value)
        with pytest.raises(ValueError, match="None"):
            tf.train.Saver().restore(session, None)
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            tf.train.Saver().restore(session, str(tmp_path / "other"))
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            tf.train.Saver().restore(session, str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("weights", [1], tf.int32, initializer=tf.zeros_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights: int32 here, float32 in the checkpoint"):
            tf.train.Saver().restore(session, path)


def test_damage_is_reported_with_the_file(tmp_path: Path) -> None:
    tf.get_variable("v", initializer=[1.0])
    saver = tf.train.Saver()
    with started() as session:
        path = saver.save(session, str(tmp_path / "m"))
        (tmp_path / ("m" + DATA)).write_bytes(b"\0\0\0\0")
        with pytest.raises(tf.errors.DataLossError, match=r"m.data-00000-of-00001"):
            saver.restore(session, path)
        assert session.run("v/Read/ReadVariableOp:0").tolist() == [1]  # As it was.


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    empty = tf.train.Saver(allow_empty=True)
    v = tf.get_variable("v", initializer=[1.0])
    with started() as session:
        assert empty.save(session, str(tmp_path / "m")) is None
        empty.restore(session, "nowhere")
        saver = tf.train.Saver([v])
        with pytest.raises(TypeError, match="Session"):
            saver.save(None, "m")
        with pytest.raises(ValueError, match="path components"):
            saver.save(session, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="collides"):
            saver.save(session, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="doesn't exist"):
            saver.save(session, str(tmp_path / "no" / "such" / "m"))
        deferred = tf.train.Saver(defer_build=True)
        with pytest.raises(RuntimeError, match="build"):
            deferred.save(session, "m")
        deferred.build()
        assert deferred.save(session, str(tmp_path / "m")) == str(tmp_path / "m")
    for var_list, error in (
        ({"a": v, "b": v}, ValueError), ([1], TypeError), ({1: v}, TypeError), ({"v": 3}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            tf.train.Saver(var_list)
    with pytest.raises(ValueError, match="deferred"):
        tf.train.Saver([v], defer_build=True)


def test_a_meta_graph_brings_its_saver(tmp_path: Path) -> None:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    tf.add_to_collection("out", v * 2.0)
    with started() as session:
        path = tf.train.Saver(max_to_keep=3).save(session, str(tmp_path / "m"))
    for scope in (None, "model"):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            saver = tf.train.import_meta_graph(path + ".meta", import_scope=scope)
            assert saver.as_saver_def().max_to_keep == 3
            saver.restore(session, path)
            assert session.run(graph.get_collection("out")[0]).tolist() == [2, 4]
            again = saver.save(session, str(tmp_path / "again"))
            assert tf.train.list_variables(again) == [("v", [2])]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(path + ".meta", import_scope="m")
        second = tf.train.import_meta_graph(path + ".meta", import_scope="m")
        second.restore(session, path)
        assert session.run("m_1/mul:0").tolist() == [2, 4]
    with tf.Graph().as_default():
        tf.constant(1.0)
        plain = tf.train.export_meta_graph()
        assert tf.train.import_meta_graph(plain) is None
        tf.Variable(1.0, name="u")
        assert isinstance(tf.train.import_meta_graph(tf.train.export_meta_graph(), import_scope="x"), tf.train.Saver)


def test_savers_are_collected_with_the_graph(tmp_path: Path) -> None:
    tf.get_variable("v", initializer=[1.0])
    tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(name="mine"))
    meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta_graph, import_scope="s")
        (saver,) = tf.get_collection(tf.GraphKeys.SAVERS)
        assert saver.as_saver_def().filename_tensor_name == "s/mine/Const:0"
        assert saver.to_proto(export_scope="s").filename_tensor_name == "mine/Const:0"
        assert saver.to_proto(export_scope="other") is None
        with tf.Session() as session:
            session.run("s/v/Assign")
            assert saver.save(session, str(tmp_path / "m")) is not None


@pytest.mark.parametrize("kind", ["reference", "resource"])
def test_a_graph_and_a_checkpoint_of_tensorflow_are_restored(kind: str, tmp_path: Path) -> None:
    expected = np.load(FOLDER / "y.npy")
    with tf.Session() as session:
        saver = tf.train.import_meta_graph(str(FOLDER / f"{kind}_net.meta"))
        saver.restore(session, str(FOLDER / f"{kind}_net"))
        np.testing.assert_allclose(session.run("y:0", {"x:0": inputs()}), expected, rtol=1e-4)
        path = saver.save(session, str(tmp_path / "again"))
        mine = tf.train.Saver()  # A new saver for the same variables.
        session.run(tf.global_variables()[0].initializer)
        mine.restore(session, path)
        np.testing.assert_allclose(session.run("y:0", {"x:0": inputs()}), expected, rtol=1e-4)
    for suffix in (".index", DATA):
        assert (tmp_path / ("again" + suffix)).read_bytes() == (FOLDER / f"{kind}_net{suffix}").read_bytes()
    for name, value in weights().items():
        np.testing.assert_array_equal(tf.train.load_variable(path, f"net/{name}"), value)


def test_objects_say_what_they_consist_of(tmp_path: Path) -> None:
    a, b = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)

    class Pair(tf.train.experimental.SaveableObject):
        def __init__(self) -> None:
            spec = tf.train.experimental.SaveSpec
            super().__init__(self, [spec(a.value(), "", "pair/first"), spec(b.value(), "", "pair/second")], "pair")

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return tf.group(a.assign(restored_tensors[1]), b.assign(restored_tensors[0]))  # Swapped.

    saver = tf.train.Saver([Pair()])
    with started() as session:
        path = saver.save(session, str(tmp_path / "m"))
        assert tf.train.list_variables(path) == [("pair/first", []), ("pair/second", [])]
        saver.restore(session, path)
        assert session.run([a, b]) == [2, 1]


def test_tables_are_saved_with_the_variables(tmp_path: Path) -> None:
    table = tf.lookup.MutableHashTable(tf.string, tf.int64, -1, name="counts")
    other = tf.lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    with tf.name_scope("scope"):
        tf.lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    tf.lookup.MutableHashTable(tf.int64, tf.int64, 0, name="forgotten", checkpoint=False)
    keys = tf.constant(["b", "a", "c"])
    insert = tf.group(table.insert(keys, tf.constant([1, 2, 3], tf.int64)), other.insert([5], [[1.0, 2.0]]))
    found = table.lookup(keys)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(insert)
        path = saver.save(session, str(tmp_path / "m"))
    assert sorted(name for name, _ in tf.train.list_variables(path)) == [
        "MutableHashTable-keys", "MutableHashTable-values", "counts-keys", "counts-values",
        "scope/MutableHashTable-keys", "scope/MutableHashTable-values",
    ]  # fmt: skip
    with tf.Session() as session:
        session.run(table.insert(["a", "z"], tf.constant([7, 8], tf.int64)))
        saver.restore(session, path)
        assert session.run(found).tolist() == [1, 2, 3] and session.run(table.size()) == 3
        assert session.run(other.lookup(tf.constant([5], tf.int64))).tolist() == [[1, 2]]
