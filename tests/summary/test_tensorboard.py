"""The real TensorBoard shows what was written: its HTTP API is asked for the data of every plugin."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

_IMAGE = np.arange(2 * 6 * 5 * 3, dtype=np.uint8).reshape(2, 6, 5, 3)
_SOUND = np.sin(np.linspace(0, 200, 800, dtype=np.float32)).reshape(1, 400, 2)


def write_everything(folder: str) -> None:
    """A run with all kinds of events; also for looking at TensorBoard in a browser."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        with tf.name_scope("layer"):
            w = tf.Variable(tf.ones([4, 2]), name="w")
            y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), tf.Variable(tf.zeros([2]), name="b")), name="y")
        loss = tf.reduce_mean(y, name="loss")
        wide = tf.fill(tf.stack([tf.shape(x)[0], 2**16]), 1.0, name="wide")
        tf.summary.scalar("loss", loss)
        tf.summary.histogram("outputs", y)
        tf.summary.image("pictures", tf.constant(_IMAGE), max_outputs=2)
        tf.summary.audio("sounds", tf.constant(_SOUND), 8000.0, max_outputs=1)
        tf.summary.text("notes", tf.constant(["# Title", "some *words*"]))
        summaries = tf.summary.merge_all()
        with tf.Session() as session, tf.summary.FileWriter(folder, graph) as writer:
            session.run(tf.global_variables_initializer())
            for step in range(3):
                feeds = {x: np.full([3, 4], step + 1.0, np.float32)}
                writer.add_summary(session.run(summaries, feeds), step)
            metadata = tf.RunMetadata()
            session.run([loss, wide], feeds, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
            writer.add_run_metadata(metadata, "traced", 2)


class _TensorBoard:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._log = (folder.parent / "tensorboard.log").open("wb")
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(self._port),
                   "--host", "127.0.0.1", "--load_fast", "false", "--reload_interval", "1"]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def get(self, path: str, **query: Any) -> bytes:
        url = f"http://127.0.0.1:{self._port}/data/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        with urllib.request.urlopen(url, timeout=30) as answer:
            content: bytes = answer.read()
        return content

    def json(self, path: str, **query: Any) -> Any:
        return json.loads(self.get(path, **query))

    def wait(self) -> None:
        """Until it has read the run."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self.json("plugin/text/tags").get(".") and self.json("plugin/graphs/info").get("."):
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"TensorBoard did not start: {Path(self._log.name).read_text()}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_TensorBoard]:
    folder = tmp_path_factory.mktemp("tensorboard") / "run"
    write_everything(str(folder))
    board = _TensorBoard(folder)
    try:
        board.wait()
        yield board
    finally:
        board.stop()


pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_scalars(board: _TensorBoard) -> None:
    assert list(board.json("plugin/scalars/tags")["."]) == ["loss_1"]
    points = board.json("plugin/scalars/scalars", run=".", tag="loss_1")
    assert [(step, value) for _, step, value in points] == [(0, 4.0), (1, 8.0), (2, 12.0)]


def test_histograms(board: _TensorBoard) -> None:
    points = board.json("plugin/histograms/histograms", run=".", tag="outputs")
    assert [step for _, step, _ in points] == [0, 1, 2]
    for _, step, bins in points:
        assert sum(count for _, _, count in bins) == 6
        [(left, right, _)] = [b for b in bins if b[2] > 0]
        assert left <= 4.0 * (step + 1) <= right


def test_images(board: _TensorBoard) -> None:
    from PIL import Image

    tags = board.json("plugin/images/tags")["."]
    assert sorted(tags) == ["pictures/image/0", "pictures/image/1"]
    for i in range(2):
        found = board.json("plugin/images/images", run=".", tag=f"pictures/image/{i}", sample=0)
        assert [image["step"] for image in found] == [0, 1, 2]
        png = board.get("plugin/images/individualImage?" + found[0]["query"])
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png))), _IMAGE[i])


def test_audio(board: _TensorBoard) -> None:
    import wave

    [clip, *_] = board.json("plugin/audio/audio", run=".", tag="sounds/audio", sample=0)
    assert clip["contentType"] == "audio/wav"
    with wave.open(io.BytesIO(board.get("plugin/audio/individualAudio?" + clip["query"]))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 2, 400)
        samples = np.frombuffer(file.readframes(400), "<i2").reshape(400, 2)
    np.testing.assert_allclose(samples / 2**15, _SOUND[0], atol=1e-4)


def test_text(board: _TensorBoard) -> None:
    found = board.json("plugin/text/text", run=".", tag="notes")
    assert [item["step"] for item in found] == [0, 1, 2]
    assert "<em>words</em>" in found[0]["text"]
    assert "Title" in found[0]["text"]


def test_the_graph_and_the_run_metadata(board: _TensorBoard) -> None:
    from google.protobuf import text_format

    info = board.json("plugin/graphs/info")["."]
    assert info["run_graph"]
    assert info["tags"]["traced"]["profile"]
    shown = text_format.Parse(board.get("plugin/graphs/graph", run=".", conceptual="false"), tf.GraphDef())
    nodes = {node.name: node for node in shown.node}
    assert {"x", "layer/w", "layer/MatMul", "layer/y", "loss", "Merge/MergeSummary"} <= set(nodes)
    assert [d.size for d in nodes["layer/MatMul"].attr["_output_shapes"].list.shape[0].dim] == [-1, 2]
    text = board.get("plugin/graphs/run_metadata", run=".", tag="traced")
    metadata = text_format.Parse(text, tf.RunMetadata())
    stats = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    # The step ran one node for these three; each is shown with its share, and the output belongs to the last one.
    fused = [node for node in stats if " in _FusedMatMul layer/y" in node.timeline_label]
    assert [node.node_name for node in fused] == ["layer/MatMul", "layer/BiasAdd", "layer/y"]
    assert {node.node_name for node in fused} <= set(nodes)
    # The page takes the span from the first start to the last end as the time of a scope.
    span = fused[-1].all_start_nanos + fused[-1].all_end_rel_nanos - fused[0].all_start_nanos
    assert span == sum(node.all_end_rel_nanos for node in fused)
    assert [len(node.output) for node in fused] == [0, 0, 1]
    # It shows the bytes that nodes allocated, and adds them up by scope.
    assert sum(memory.total_bytes for node in stats for memory in node.memory if node.node_name == "wide") >= 4 * 2**16
    # The page cannot show a node without a duration, or an output without a shape, not even that of a scalar.
    assert all(node.all_end_rel_micros >= 1 for node in stats if node.node_name != "x")
    assert all(output.tensor_description.HasField("shape") for node in stats for output in node.output)
