"""Checkpoints of embedding variables: bases and changes, other numbers of parts, exports, serving, damage."""

from __future__ import annotations

import glob
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

DIM = 3


class Model:
    """A table with an optimizer that moves the rows of the fed ids."""

    def __init__(self, parts: int = 0, dim: int = DIM, **options: Any) -> None:
        partitioner = tf.fixed_size_partitioner(parts) if parts else None
        self.table = tf.get_embedding_variable(
            "table", dim, partitioner=partitioner, options=tf.EmbeddingOptions(**options)
        )
        self.ids = tf.placeholder(tf.int64, [None])
        self.rows = tf.nn.embedding_lookup(self.table, self.ids)
        self.step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(self.rows - 1.0)))
        self.saver = tf.train.Saver(max_to_keep=None)

    def train(self, session: Any, ids: Any) -> None:
        session.run(self.step, {self.ids: ids})

    def read(self, session: Any, ids: Any) -> np.ndarray:
        found: np.ndarray = session.run(self.rows, {self.ids: ids})
        return found


def size_of(prefix: str) -> int:
    """The bytes of the files of rows that a checkpoint does not share with others."""
    paths = glob.glob(glob.escape(prefix) + ".rows-*")
    return sum(os.path.getsize(path) for path in paths if os.stat(path).st_nlink == 1)


def trained(folder: Path, parts: int = 0) -> tuple[list[str], list[np.ndarray]]:
    """Three checkpoints of a job that trains and removes rows, and all rows at each."""
    prefixes, rows = [], []
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts)
        removal = [part.remove(model.ids) for part in (model.table if parts else [model.table])]
        session.run(tf.global_variables_initializer())
        for i, ids in enumerate(([*range(200)], [3, 5], [7, 1000])):
            model.train(session, ids)
            if i == 1:
                session.run(removal, {model.ids: [11, 13]})
            prefixes.append(model.saver.save(session, str(folder / "model"), global_step=i))
            rows.append(model.read(session, [*range(200), 1000]))
    return prefixes, rows


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("after", [0, 3])
def test_every_checkpoint_is_restored_to_any_number_of_parts(tmp_path: Path, before: int, after: int) -> None:
    prefixes, rows = trained(tmp_path, before)
    for prefix, expected in zip(prefixes, rows, strict=True):
        with tf.Graph().as_default(), tf.Session() as session:
            model = Model(after)
            model.saver.restore(session, prefix)
            assert (model.read(session, [*range(200), 1000]) == expected).all()
            # Slots are there, too: the next step is the same, whatever the parts.
            model.train(session, [3])
            moved = model.read(session, [3])
        with tf.Graph().as_default(), tf.Session() as session:
            model = Model(before)
            model.saver.restore(session, prefix)
            model.train(session, [3])
            assert (model.read(session, [3]) == moved).all()


def test_a_delta_has_only_what_changed_and_stands_alone(tmp_path: Path) -> None:
    prefixes, rows = trained(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        base = sum(os.path.getsize(path) for path in glob.glob(prefixes[0] + ".rows-*"))
        assert 0 < size_of(prefixes[2]) < base / 10
        tf.train.remove_checkpoint(prefixes[0])
        tf.train.remove_checkpoint(prefixes[1])
        assert not glob.glob(prefixes[0] + "*")
        model = Model()
        model.saver.restore(session, prefixes[2])
        assert (model.read(session, [*range(200), 1000]) == rows[2]).all()


def test_a_restored_job_goes_on_with_deltas(tmp_path: Path) -> None:
    prefixes, _ = trained(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        model.saver.restore(session, prefixes[2])
        model.train(session, [9])
        path = model.saver.save(session, str(tmp_path / "more"))
        assert len(glob.glob(path + ".rows-*")) == 4
        expected = model.read(session, [*range(200), 1000])
        session.run(tf.global_variables_initializer())
        model.saver.restore(session, path)
        assert (model.read(session, [*range(200), 1000]) == expected).all()
        # Without the files before, everything is written again.
        for name in glob.glob(str(tmp_path / "*.rows-*")):
            os.remove(name)
        path = model.saver.save(session, str(tmp_path / "again"))
        assert len(glob.glob(path + ".rows-*")) == 1
        model.saver.restore(session, path)
        assert (model.read(session, [*range(200), 1000]) == expected).all()


def test_many_deltas_are_merged_and_leftovers_go(tmp_path: Path) -> None:
    with tf.Session() as session:
        model = Model()
        session.run(tf.global_variables_initializer())
        counts = []
        for i in range(40):
            model.train(session, np.arange(i % 7, 50))
            path = model.saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
            counts.append(len(glob.glob(path + ".rows-*")))
        assert max(counts) < 30
        expected = model.read(session, np.arange(50))
        session.run(tf.global_variables_initializer())
        model.saver.restore(session, path)
        assert (model.read(session, np.arange(50)) == expected).all()


def test_files_of_removed_checkpoints_go_with_them_whenever_they_were_merged(tmp_path: Path) -> None:
    with tf.Session() as session:
        model = Model()
        saver = tf.train.Saver(max_to_keep=2)
        session.run(tf.global_variables_initializer())
        for i in range(60):
            model.train(session, np.arange(i % 7, 50))
            path = saver.save(session, str(tmp_path / "model"), global_step=i, write_meta_graph=False)
        kept = {os.path.basename(prefix) for prefix in saver.last_checkpoints}
        named = {name.split(".rows-")[0] for name in os.listdir(tmp_path) if ".rows-" in name}
        # One merging may be under way, in the name of a checkpoint that has gone meanwhile.
        assert kept <= named and len(named - kept) <= 1
        expected = model.read(session, np.arange(50))
        model.saver.restore(session, path)
        assert (model.read(session, np.arange(50)) == expected).all()


def test_slots_of_imported_rows_begin_as_the_optimizer_says(tmp_path: Path) -> None:
    prefix = str(tmp_path / "exported")
    moved = []
    for restored in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            table = tf.get_embedding_variable("table", 2, initializer=1.0)
            ids = tf.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(table.lookup(ids))
            step = tf.train.AdagradOptimizer(0.5, initial_accumulator_value=0.1).minimize(loss)
            session.run(tf.global_variables_initializer())
            if restored:
                session.run(tf.train.restore_rows(table, prefix))
            else:
                session.run(step, {ids: [1]})
                session.run(tf.train.export_rows(table, prefix, with_slots=True))
            session.run(step, {ids: [1, 2]})  # 2 is new: its accumulator begins with 0.1, not with 0.
            moved.append(session.run(table.lookup([1, 2])))
    assert (moved[0] == moved[1]).all()


def test_export_and_import_as_tensors(tmp_path: Path) -> None:
    prefix = str(tmp_path / "exported")
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts=2)
        session.run(tf.global_variables_initializer())
        model.train(session, [5, -6, 1 << 60])
        session.run(tf.train.export_rows(model.table, prefix, with_slots=True))
        expected = model.read(session, [5, -6, 1 << 60])
    found = dict(tf.train.list_variables(prefix))
    assert found == {
        "table-counts": [3], "table-keys": [3], "table-slot-Adam": [3, DIM], "table-slot-Adam_1": [3, DIM],
        "table-values": [3, DIM],
    }  # fmt: skip
    keys, values = tf.train.load_variable(prefix, "table-keys"), tf.train.load_variable(prefix, "table-values")
    assert (values[[keys.tolist().index(k) for k in (5, -6, 1 << 60)]] == expected).all()
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts=3)
        session.run(tf.global_variables_initializer())
        session.run(tf.train.restore_rows(model.table, prefix))
        assert (model.read(session, [5, -6, 1 << 60]) == expected).all()
        assert sorted(np.concatenate(session.run([part.export().counts for part in model.table]))) == [1, 1, 1]
        # Slots come along; a new row begins with those of the optimizer. (Adam's own counts are ordinary variables.)
        slots = [part.export(("Adam", "Adam_1")) for part in model.table]
        exported = {k: v for keys, v in session.run([(s.keys, s.slot_values) for s in slots]) for k in keys.tolist()}
        assert sorted(exported) == [-6, 5, 1 << 60] and all(np.abs(v).max() > 0 for v in exported.values())


def test_warm_start_from_a_variable_with_a_fixed_vocabulary(tmp_path: Path) -> None:
    vocabulary = np.array(["red", "green", "blue"])
    with tf.Graph().as_default(), tf.Session() as session:
        dense = tf.get_variable("embedding", initializer=np.arange(9, dtype=np.float32).reshape(3, 3))
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "dense"))
        del dense
    with tf.Session() as session:
        table = tf.get_embedding_variable("table", 3, tf.string, partitioner=tf.fixed_size_partitioner(2))
        session.run(tf.global_variables_initializer())
        session.run(tf.nn.insert_rows(table, vocabulary, tf.train.load_variable(prefix, "embedding")))
        assert session.run(tf.nn.embedding_lookup(table, ["blue", "red"])).tolist() == [[6, 7, 8], [0, 1, 2]]


def test_a_follower_reads_only_changes(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session, tf.Graph().as_default() as serving:
        table = tf.get_embedding_variable("table", DIM, trainable=False, partitioner=tf.fixed_size_partitioner(2))
        ids = tf.placeholder(tf.int64, [None])
        served = tf.nn.embedding_lookup(table, ids)
        follower = tf.train.EmbeddingFollower([table], str(tmp_path))
        with tf.Session(graph=serving) as server:
            with session.graph.as_default():
                model = Model()
                session.run(tf.global_variables_initializer())
                removal = model.table.remove(model.ids)
            assert follower.poll(server) is None
            for i in range(6):
                model.train(session, np.arange(i, 300))
                if i == 3:
                    session.run(removal, {model.ids: [299]})
                path = model.saver.save(session, str(tmp_path / "model"), global_step=i, write_meta_graph=False)
                assert follower.poll(server) == path and follower.poll(server) is None
                asked = [0, 5, 299, 1000]
                assert (server.run(served, {ids: asked}) == model.read(session, asked)).all()


def test_damage_and_loss_have_names(tmp_path: Path) -> None:
    prefixes, _ = trained(tmp_path)
    with tf.Session() as session:
        model = Model()
        lost = next(path for path in glob.glob(prefixes[2] + ".rows-*") if os.stat(path).st_nlink == 1)
        content = Path(lost).read_bytes()
        Path(lost).write_bytes(content[:50] + b"?" + content[51:])
        with pytest.raises(tf.errors.DataLossError, match="damaged"):
            model.saver.restore(session, prefixes[2])
        os.remove(lost)
        with pytest.raises(tf.errors.DataLossError, match="lacks the file"):
            model.saver.restore(session, prefixes[2])
        model.saver.restore(session, prefixes[1])
    with tf.Graph().as_default(), tf.Session() as session:
        other = Model(dim=DIM + 1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="rows of 4 elements"):
            other.saver.restore(session, prefixes[0])
        missing = tf.get_embedding_variable("missing", 2)
        with pytest.raises(tf.errors.NotFoundError, match="missing"):
            session.run(tf.train.restore_rows(missing, prefixes[0]))


def test_meta_graphs_have_tables(tmp_path: Path) -> None:
    prefixes, rows = trained(tmp_path, parts=2)
    with tf.Session() as session:
        saver = tf.train.import_meta_graph(prefixes[2] + ".meta")
        saver.restore(session, prefixes[2])
        tables = [v for v in tf.global_variables() if isinstance(v, tf.EmbeddingVariable)]
        assert [v.op.name for v in tables] == ["table/part_0", "table/part_1"]
        assert (session.run(tf.nn.embedding_lookup(tables, [3])) == rows[2][3]).all()
        assert len(session.run(tf.report_uninitialized_variables())) == 0


def test_rows_beyond_the_budget_of_memory(tmp_path: Path) -> None:
    with tf.Session() as session:
        model = Model(ram_bytes=200_000, folder=str(tmp_path / "rows"))
        session.run(tf.global_variables_initializer())
        for begin in range(0, 10000, 500):
            model.train(session, np.arange(begin, begin + 500))
        found = session.run(model.table.statistics())
        assert found["rows"] == 10000 and found["disk_rows"] > 5000
        expected = model.read(session, np.arange(10000))
        path = model.saver.save(session, str(tmp_path / "model"))
        session.run(tf.nn.prefetch_rows(model.table, model.ids), {model.ids: np.arange(100)})
        session.run(tf.global_variables_initializer())
        model.saver.restore(session, path)
        assert (model.read(session, np.arange(10000)) == expected).all()
        assert os.listdir(tmp_path / "rows") == []


def test_a_full_disk_is_an_error_and_rows_in_memory_stay(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tf.Session() as session:
        model = Model(ram_bytes=100_000, folder=str(tmp_path / "rows"))
        session.run(tf.global_variables_initializer())
        model.train(session, np.arange(500))
        before = model.read(session, np.arange(500))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
        try:
            with pytest.raises(tf.errors.ResourceExhaustedError, match="write rows"):
                for begin in range(500, 20000, 500):  # Rows of the batch at hand stay in memory.
                    model.train(session, np.arange(begin, begin + 500))
            with pytest.raises(tf.errors.ResourceExhaustedError):
                model.saver.save(session, str(tmp_path / "model"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert glob.glob(str(tmp_path / "model*")) == []
        assert (model.read(session, np.arange(500)) == before).all()
        path = model.saver.save(session, str(tmp_path / "model"))
        expected = session.run(model.table.size())
        model.saver.restore(session, path)
        assert session.run(model.table.size()) == expected
        assert (model.read(session, np.arange(500)) == before).all()
