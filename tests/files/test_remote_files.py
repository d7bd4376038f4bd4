"""Files elsewhere, through fsspec: its file system in memory, and its local one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.platform import remote_files

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["memory", "local"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder with a scheme."""
    if request.param == "local":
        yield f"local://{tmp_path}/folder"
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
    system = type(found.system)
    put = system.put_file
    stored: list[str] = []

    def fails_at_the_index(self: object, source: str, target: str, *args: object, **kwargs: object) -> None:
        if target.endswith(".index"):
            raise ConnectionError("the link is gone")
        stored.append(target)
        put(self, source, target, *args, **kwargs)

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
