"""Files elsewhere, through fsspec: its file system in memory, its local one, and an object store behind HTTP.

The object store is moto's S3 server, spoken to by s3fs: its cases are left out unless both are installed
(`pip install 'moto[server,s3]' s3fs`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.platform import remote_files

fsspec = pytest.importorskip("fsspec")


HAS_STORE = all(importlib.util.find_spec(name) for name in ("moto", "flask", "s3fs"))
STORE = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
input()
"""


@pytest.fixture(scope="session")
def object_store() -> Iterator[None]:
    """A process that serves S3's protocol on the loopback device, and fsspec's settings for it."""
    if not HAS_STORE:
        yield
        return
    server = subprocess.Popen(
        [sys.executable, "-c", STORE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = next(line.split()[1] for line in server.stdout if line.startswith("port"))
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        before = {name: os.environ.get(name) for name in keys}
        os.environ.update(keys)
        fsspec.config.conf["s3"] = {"endpoint_url": f"http://127.0.0.1:{port}"}
        fsspec.filesystem("s3").ls("")  # Its thread stays.
        _disconnect()
        yield
        del fsspec.config.conf["s3"]
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    finally:
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def _disconnect() -> None:
    """Closes the connections that s3fs keeps."""
    system = fsspec.filesystem("s3")
    system.close_session(system.loop, system.s3)
    type(system).clear_instance_cache()


@pytest.fixture(
    params=[
        "memory",
        "local",
        pytest.param("s3", marks=pytest.mark.skipif(not HAS_STORE, reason="needs moto and s3fs")),
    ]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path, object_store: None) -> Iterator[str]:
    """A folder with a scheme."""
    if request.param == "local":
        yield f"local://{tmp_path}/folder"
        return
    if request.param == "s3":
        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket/folder"
        fsspec.filesystem("s3").rm("bucket", recursive=True)
        _disconnect()
        return
    system = fsspec.filesystem("memory")
    yield "memory://bucket/folder"
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def test_files_are_written_read_listed_and_removed(folder: str) -> None:
    tf.gfile.MakeDirs(folder)
    path = f"{folder}/file.txt"
    with tf.gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
        file.write("ä")
    assert tf.gfile.Exists(path)
    assert not tf.gfile.Exists(f"{folder}/other")
    assert tf.gfile.IsDirectory(folder)
    assert not tf.gfile.IsDirectory(path)
    assert list(tf.gfile.GFile(path)) == ["one\n", "two\n", "ä"]
    assert tf.gfile.GFile(path).size() == tf.gfile.Stat(path).length == 10
    assert tf.gfile.ListDirectory(folder) == ["file.txt"]
    assert tf.gfile.Glob(f"{folder}/*.txt") == [path]
    tf.gfile.Copy(path, f"{folder}/copy")
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.gfile.Copy(path, f"{folder}/copy")
    tf.gfile.Rename(f"{folder}/copy", f"{folder}/moved")
    assert tf.gfile.ListDirectory(folder) == ["file.txt", "moved"]
    with tf.gfile.GFile(f"{folder}/moved", "rb") as file:
        file.seek(4)
        assert file.read(3) == b"two"
    tf.gfile.Remove(path)
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.GFile(path).read()
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Stat(path)
    tf.gfile.DeleteRecursively(folder)
    assert not tf.gfile.Exists(f"{folder}/moved")


def test_copies_go_both_ways(folder: str, tmp_path: Path) -> None:
    local = tmp_path / "here"
    local.write_bytes(bytes(range(256)) * 100)
    tf.gfile.MakeDirs(folder)
    tf.gfile.Copy(str(local), f"{folder}/there")
    tf.gfile.Copy(f"{folder}/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == local.read_bytes()


def test_checkpoints_are_saved_kept_and_restored(folder: str) -> None:
    v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        for step in (1, 2, 3):
            session.run(v.assign([float(step)] * 3))
            path = saver.save(session, f"{folder}/model", step)
        assert path == f"{folder}/model-3"
        session.run(v.assign([0.0] * 3))
        latest = tf.train.latest_checkpoint(folder)
        assert latest is not None
        saver.restore(session, latest)
        np.testing.assert_array_equal(session.run(v), [3.0] * 3)
    names = tf.gfile.ListDirectory(folder)
    assert "checkpoint" in names
    assert "model-1.index" not in names
    assert {f"model-{i}.{end}" for i in (2, 3) for end in ("index", "meta")} <= set(names)
    assert tf.train.list_variables(folder) == [("v", [3])]
    np.testing.assert_array_equal(tf.train.load_variable(f"{folder}/model-2", "v"), [2.0] * 3)
    with tf.Session() as session, pytest.raises(ValueError, match="not a valid checkpoint"):
        saver.restore(session, f"{folder}/model-9")


def test_a_checkpoint_counts_when_all_of_it_is_there(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
    saver = tf.train.Saver()
    found = remote_files.remote(folder)
    assert found is not None
    system = found.system  # fsspec makes one for all paths.
    put = system.put_file
    stored: list[str] = []

    def fails_at_the_index(source: str, target: str, *args: object, **kwargs: object) -> None:
        if target.endswith(".index"):
            raise ConnectionError("the link is gone")
        stored.append(target)
        put(source, target, *args, **kwargs)

    monkeypatch.setattr(system, "put_file", fails_at_the_index)
    with tf.Session() as session:
        session.run(v.initializer)
        with pytest.raises(tf.errors.UnavailableError, match="the link is gone"):
            saver.save(session, f"{folder}/model")
    assert [path.rpartition(".")[2][:4] for path in stored] == ["data"]
    assert tf.train.latest_checkpoint(folder) is None
    assert not tf.train.checkpoint_exists(f"{folder}/model")


def test_unknown_schemes_are_refused() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="scheme 'nowhere' not implemented"):
        tf.gfile.Exists("nowhere://a/b")
    assert not remote_files.is_remote("/a/b")
    assert not remote_files.is_remote("file:///a/b")
    assert not remote_files.is_remote("relative/path://x")


def test_records_are_written_and_read(folder: str) -> None:
    for compression in ("", "GZIP", "ZLIB"):
        path = f"{folder}/new/data{compression}.tfrecords"
        records = [bytes([i]) * i * 997 for i in range(40)]
        with tf.python_io.TFRecordWriter(path, compression) as writer:
            writer.write(records[0])
            writer.flush()
            assert tf.gfile.Exists(path)
            for record in records[1:]:
                writer.write(record)
        assert list(tf.python_io.tf_record_iterator(path, compression)) == records
        assert _elements(tf.data.TFRecordDataset(path, compression)) == records
        reader = tf.TFRecordReader(options=tf.python_io.TFRecordOptions(compression))
        assert _read(reader, path, 3) == records[:3]


def test_text_and_records_of_one_size_are_read(folder: str) -> None:
    tf.gfile.MakeDirs(folder)
    with tf.gfile.GFile(f"{folder}/text", "w") as file:
        file.write("one\ntwo\r\nthree")
    lines = [b"one", b"two", b"three"]
    assert _elements(tf.data.TextLineDataset(f"{folder}/text")) == lines
    assert _elements(tf.data.Dataset.list_files(f"{folder}/te*").flat_map(tf.data.TextLineDataset)) == lines
    assert _read(tf.TextLineReader(skip_header_lines=1), f"{folder}/text", 2) == lines[1:]
    halves = [b"one\ntwo", b"\r\nthree"]
    assert _elements(tf.data.FixedLengthRecordDataset(f"{folder}/text", 7)) == halves
    assert _read(tf.FixedLengthRecordReader(7), f"{folder}/text", 2) == halves
    assert _read(tf.WholeFileReader(), f"{folder}/text", 1) == [b"".join(halves)]
    with pytest.raises(tf.errors.NotFoundError):
        _elements(tf.data.TextLineDataset(f"{folder}/absent"))


def test_files_are_read_and_written_by_ops(folder: str) -> None:
    written = tf.write_file(f"{folder}/new/words", "b\na\n")
    with tf.control_dependencies([written]):
        content = tf.read_file(f"{folder}/new/words")
    table = tf.contrib.lookup.index_table_from_file(f"{folder}/new/words")
    with tf.Session() as session:
        assert session.run(content) == b"b\na\n"
        session.run(table.init)
        assert session.run(table.lookup(tf.constant(["a", "b", "c"]))).tolist() == [1, 0, -1]


def test_elements_are_cached(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    calls: list[int] = []

    def counted(n: np.int64) -> np.int64:
        calls.append(int(n))
        return n * n

    tf.gfile.MakeDirs(folder)
    dataset = tf.data.Dataset.range(5).map(lambda n: tf.py_func(counted, [n], tf.int64)).cache(f"{folder}/squares")
    iterators = [dataset.make_initializable_iterator() for _ in range(3)]
    gets = [iterator.get_next() for iterator in iterators]
    with tf.Session() as session:
        session.run([iterators[0].initializer, iterators[1].initializer])
        assert session.run(gets[0]) == 0
        with pytest.raises(tf.errors.AlreadyExistsError, match="is writing the cache"):
            session.run(gets[1])
        assert [session.run(gets[0]) for _ in range(4)] == [1, 4, 9, 16]
        assert not tf.gfile.Exists(f"{folder}/squares.cache"), "there is no half a cache"
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(gets[0])
        assert tf.gfile.ListDirectory(folder) == ["squares.cache"]
        session.run(iterators[2].initializer)
        assert [session.run(gets[2]) for _ in range(5)] == [0, 1, 4, 9, 16]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(gets[2])
    assert calls == [0, 1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir() if "cache" in path.name] == [], "nothing is left here"


def test_a_position_in_a_file_is_saved(folder: str) -> None:
    with tf.python_io.TFRecordWriter(f"{folder}/data") as writer:
        for i in range(6):
            writer.write(b"%d" % i)
    iterator = tf.data.TFRecordDataset(f"{folder}/data").make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver({"iterator": tf.data.experimental.make_saveable_from_iterator(iterator)})
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert [session.run(element) for _ in range(2)] == [b"0", b"1"]
        path = saver.save(session, f"{folder}/model")
        assert session.run(element) == b"2"
        session.run(iterator.initializer)
        saver.restore(session, path)
        assert session.run(element) == b"2"


def test_events_appear_with_each_flush(folder: str) -> None:
    with tf.summary.FileWriter(f"{folder}/logs") as writer:
        for step in range(2):
            value = tf.Summary.Value(tag="loss", simple_value=float(step))
            writer.add_summary(tf.Summary(value=[value]), step)
            writer.flush()
            assert _losses(folder) == [float(i) for i in range(step + 1)]
        second = tf.summary.FileWriter(f"{folder}/logs")
        second.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=7.0)]), 7)
        second.close()
    assert len(tf.gfile.ListDirectory(f"{folder}/logs")) == 2, "two writers of one second write two files"
    assert sorted(_losses(folder)) == [0.0, 1.0, 7.0]


def test_local_copies_are_removed(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    with tf.python_io.TFRecordWriter(f"{folder}/data") as writer:
        writer.write(b"one")
        assert len(list(copies.iterdir())) == 1
    tf.summary.FileWriter(f"{folder}/logs").close()
    assert list(copies.iterdir()) == []


def _elements(dataset: tf.data.Dataset) -> list[bytes]:
    element = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session, contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            found.append(session.run(element))
    return found


def _read(reader: Any, path: str, count: int) -> list[bytes]:
    names = tf.FIFOQueue(1, tf.string, [[]])
    _, value = reader.read(names)
    with tf.Session() as session:
        session.run(names.enqueue(path))
        session.run(names.close())
        return [session.run(value) for _ in range(count)]


def _losses(folder: str) -> list[float]:
    paths = [f"{folder}/logs/{name}" for name in tf.gfile.ListDirectory(f"{folder}/logs")]
    return [v.simple_value for path in paths for e in tf.train.summary_iterator(path) for v in e.summary.value]


def test_graphs_and_saved_models_are_written_and_read(folder: str, tmp_path: Path) -> None:
    words = [tmp_path / "a" / "words", tmp_path / "b" / "words"]
    for i, path in enumerate(words):
        path.parent.mkdir()
        path.write_text(f"words {i}\n")
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.matmul(x, tf.get_variable("w", initializer=[[2.0], [3.0]]), name="y")
    assets = [tf.constant(str(path), name=f"asset_{i}") for i, path in enumerate([*words, words[1]])]
    for asset in assets:
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    assert (
        tf.train.write_graph(tf.get_default_graph(), f"{folder}/graphs", "graph.pbtxt")
        == f"{folder}/graphs/graph.pbtxt"
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, f"{folder}/model")
        for as_text in (False, True):
            builder = tf.saved_model.Builder(f"{folder}/saved_{as_text}")
            signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(
                session, ["serve"], {"serving_default": signature}, assets_collection=assets
            )
            builder.save(as_text)
    for as_text in (False, True):
        with tf.Session(graph=tf.Graph()) as session:
            model = tf.saved_model.loader.load(session, ["serve"], f"{folder}/saved_{as_text}")
            assert session.run("y:0", {"x:0": [[1.0, 1.0]]}).tolist() == [[5.0]]
            paths = [session.run(f"asset_{i}:0").decode() for i in range(3)]
            assert [tf.gfile.GFile(path).read() for path in paths] == ["words 0\n", "words 1\n", "words 1\n"]
            assert paths[1] == paths[2] != paths[0]
            assert list(model.signature_def) == ["serving_default"]
    with tf.Session(graph=tf.Graph()) as session:
        tf.train.import_meta_graph(prefix + ".meta").restore(session, prefix)
        assert session.run("y:0", {"x:0": [[1.0, 0.0]]}).tolist() == [[2.0]]
    assert not Path(folder.partition(":")[0] + ":").exists(), "no local folder is named like a scheme"


def test_a_monitored_training_goes_on_from_elsewhere(folder: str) -> None:
    for last in (2, 4):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            loss = tf.square(tf.get_variable("v", initializer=1.0))
            tf.summary.scalar("loss", loss)
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
            hooks = [tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=f"{folder}/run", hooks=hooks, save_summaries_steps=1
            ) as session:
                assert session.run(step) == last - 2
                while not session.should_stop():
                    session.run(train)
    tf.summary.FileWriterCache.clear()
    latest = tf.train.latest_checkpoint(f"{folder}/run")
    assert latest is not None
    assert latest.endswith("model.ckpt-4")
    names = tf.gfile.ListDirectory(f"{folder}/run")
    assert "graph.pbtxt" in names
    assert any(name.startswith("events") for name in names)
