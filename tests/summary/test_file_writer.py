"""Event files: what FileWriter writes comes back, and what goes wrong on its thread reaches the caller."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.summary.events import read_events

import thalweg as tf
from thalweg.ops.files.record_format import framed


def _scalar(tag: str, value: float) -> Any:
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value)])


def test_files_are_named_and_begin_like_those_of_tensorflow(tmp_path: Path) -> None:
    tf.summary.FileWriter(str(tmp_path / "deep" / "down"), filename_suffix=".mine").close()
    [path] = (tmp_path / "deep" / "down").iterdir()
    assert re.fullmatch(rf"events\.out\.tfevents\.\d{{10}}\.{re.escape(socket.gethostname())}\.mine", path.name)
    [first] = tf.train.summary_iterator(str(path))
    assert first.file_version == "brain.Event:2"
    assert first.wall_time > 1e9


def test_records_are_framed_with_masked_checksums() -> None:
    # The bytes that TensorFlow writes for this content.
    assert framed(b"hello").hex() == "0500000000000000eab2043e68656c6c6fbb1f1c19"
    assert framed(b"").hex() == "000000000000000029039807d8ea82a2"


def test_everything_that_is_added_comes_back(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        tf.constant([1.0, 2.0], name="c")
    metadata = tf.RunMetadata()
    metadata.step_stats.dev_stats.add(device="cpu")
    with tf.summary.FileWriter(str(tmp_path), graph) as writer:
        assert writer.get_logdir() == str(tmp_path)
        writer.add_summary(_scalar("loss", 0.5), 1)
        writer.add_summary(_scalar("loss", 0.25).SerializeToString(), global_step=2)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 3)
        writer.add_run_metadata(metadata, "step 4", 4)
        with pytest.raises(ValueError, match="step 4"):
            writer.add_run_metadata(metadata, "step 4", 5)
        writer.add_event(tf.Event(wall_time=1.0, step=6))
    events = read_events(tmp_path)
    kinds = [event.WhichOneof("what") for event in events]
    assert kinds == [
        "file_version", "graph_def", "meta_graph_def", "summary", "summary", "session_log", "tagged_run_metadata", None,
    ]  # fmt: skip
    graph_def = tf.GraphDef.FromString(events[1].graph_def)
    assert graph_def.node[0].name == "c"
    assert graph_def.node[0].attr["_output_shapes"].list.shape[0].dim[0].size == 2
    assert tf.MetaGraphDef.FromString(events[2].meta_graph_def).graph_def.node[0].name == "c"
    assert [(e.step, e.summary.value[0].simple_value) for e in events[3:5]] == [(1, 0.5), (2, 0.25)]
    assert events[6].tagged_run_metadata.tag == "step 4"
    assert tf.RunMetadata.FromString(events[6].tagged_run_metadata.run_metadata) == metadata
    assert events[7].step == 6


def test_a_graph_can_be_a_graph_def_but_not_both(tmp_path: Path) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_graph(tf.GraphDef())
        writer.add_graph(graph_def=tf.GraphDef())
        with pytest.raises(ValueError, match="not both"):
            writer.add_graph(tf.Graph(), graph_def=tf.GraphDef())
        with pytest.raises(TypeError, match="graph"):
            writer.add_graph("a graph")
        with pytest.raises(TypeError, match="MetaGraphDef"):
            writer.add_meta_graph(tf.GraphDef())


def test_metadata_is_written_once_per_tag(tmp_path: Path) -> None:
    with tf.Session() as session, tf.summary.FileWriter(str(tmp_path)) as writer:
        text = session.run(tf.summary.text("t", tf.constant("x")))
        writer.add_summary(text, 1)
        writer.add_summary(text, 2)
    first, second = read_events(tmp_path)[1:]
    assert first.summary.value[0].metadata.plugin_data.plugin_name == "text"
    assert not second.summary.value[0].HasField("metadata")


def test_flush_makes_events_visible(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path), flush_secs=1000)
    writer.add_summary(_scalar("a", 1.0), 1)
    writer.flush()
    assert len(read_events(tmp_path)) == 2
    writer.close()


def test_events_become_visible_by_themselves(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path), flush_secs=0.01)
    writer.add_summary(_scalar("a", 1.0), 1)
    deadline = time.monotonic() + 30
    while len(read_events(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(read_events(tmp_path)) == 2
    writer.close()


def test_many_threads_write_whole_events(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path), max_queue=2)
    threads = [
        threading.Thread(target=lambda i=i: [writer.add_summary(_scalar(f"t{i}", n), n) for n in range(50)])
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    events = read_events(tmp_path)[1:]
    for i in range(4):
        assert [e.step for e in events if e.summary.value[0].tag == f"t{i}"] == list(range(50))


def test_a_closed_writer_does_nothing_until_it_is_reopened(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.close()
    writer.close()
    writer.add_summary(_scalar("lost", 1.0), 1)
    writer.flush()
    writer.reopen()
    writer.add_summary(_scalar("kept", 1.0), 2)
    writer.close()
    # Also within one second: the second file is another one.
    assert len(list(tmp_path.iterdir())) == 2
    assert [e.summary.value[0].tag for e in read_events(tmp_path) if e.HasField("summary")] == ["kept"]


def test_two_writers_of_one_folder_write_two_files(tmp_path: Path) -> None:
    writers = [tf.summary.FileWriter(str(tmp_path)) for _ in range(3)]
    for i, writer in enumerate(writers):
        writer.add_summary(_scalar(f"w{i}", 1.0), 1)
        writer.close()
    assert sorted(e.summary.value[0].tag for e in read_events(tmp_path) if e.HasField("summary")) == ["w0", "w1", "w2"]


def test_a_full_disk_is_reported_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr("thalweg.summary.event_file.open", lambda path, mode: full.open("wb"), raising=False)
    monkeypatch.setattr("thalweg.summary.event_file.os.path.exists", lambda path: True)
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.add_summary(_scalar("a", 1.0), 1)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        writer.flush()
    # It stays broken: nothing hangs, nothing is lost in silence.
    for _ in range(30):
        with pytest.raises(tf.errors.ResourceExhaustedError):
            writer.add_summary(_scalar("a", 1.0), 1)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        writer.close()


def test_a_removed_folder_is_reported_to_the_caller(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    writer = tf.summary.FileWriter(str(folder))
    writer.flush()
    shutil.rmtree(folder)
    writer.add_summary(_scalar("a", 1.0), 1)
    with pytest.raises(tf.errors.NotFoundError, match="disappeared"):
        writer.flush()
    with pytest.raises(tf.errors.NotFoundError):
        writer.close()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.summary.FileWriter(str(tmp_path / "file"))


def test_the_cache_has_one_writer_per_folder(tmp_path: Path) -> None:
    first = tf.summary.FileWriterCache.get(str(tmp_path / "a"))
    assert tf.summary.FileWriterCache.get(str(tmp_path / "a")) is first
    assert tf.summary.FileWriterCache.get(str(tmp_path / "b")) is not first
    tf.summary.FileWriterCache.clear()
    assert tf.summary.FileWriterCache.get(str(tmp_path / "a")) is not first
    tf.summary.FileWriterCache.clear()


def test_damaged_files_are_noticed(tmp_path: Path) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_summary(_scalar("a", 1.0), 1)
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    damaged = tmp_path / "damaged"

    def read(content: bytes) -> list[Any]:
        damaged.write_bytes(content)
        return list(tf.train.summary_iterator(str(damaged)))

    assert len(read(whole)) == 2
    for cut in (1, 5, len(whole) // 2):
        with pytest.raises(tf.errors.DataLossError, match="truncated"):
            read(whole[:-cut])
    for at in (3, 9, 14, len(whole) - 2):
        with pytest.raises(tf.errors.DataLossError, match="corrupted"):
            read(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.train.summary_iterator(str(tmp_path / "none")))


def test_a_program_that_forgets_to_close_keeps_itsread_events(tmp_path: Path) -> None:
    code = (
        "import sys, thalweg as tf\n"
        "w = tf.summary.FileWriter(sys.argv[1])\n"
        "w.add_summary(tf.Summary(value=[tf.Summary.Value(tag='a', simple_value=1.0)]), 1)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert len(read_events(tmp_path)) == 2


def test_the_old_name_is_the_same_class(tmp_path: Path) -> None:
    writer = tf.train.SummaryWriter(str(tmp_path))
    assert isinstance(writer, tf.summary.FileWriter)
    writer.close()
