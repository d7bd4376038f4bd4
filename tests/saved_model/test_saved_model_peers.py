"""Checkpoints and SavedModels move to TensorFlow and back.

Needs a TensorFlow: set THALWEG_PEERS to a folder in which `tf/bin/python` is a Python that has one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data.make_checkpoints import inputs, network
from tests.saved_model.test_objects import Model

PYTHON = os.path.join(os.environ.get("THALWEG_PEERS", ""), "tf", "bin", "python")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not os.access(PYTHON, os.X_OK), reason="THALWEG_PEERS names no folder with a TensorFlow (tf/bin/python)"
    ),
]

# What Thalweg wrote: a checkpoint with its MetaGraph, SavedModels (loaded by both loaders), a table with its file.
READ = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf
folder = sys.argv[1]
x = np.load(folder + "/x.npy")
out = {}
model = tf2.saved_model.load(folder + "/model")
out["second loader"] = model.signatures["serving_default"](tf2.constant(x))["y"].numpy()
words = tf2.saved_model.load(folder + "/words").signatures["serving_default"]
out["words"] = words(tf2.constant(["green", "black"]))["number"].numpy()
functions = tf2.saved_model.load(folder + "/functions").signatures
out["function"] = functions["scaled"](x=tf2.constant([1.0, 2.0]))["y"].numpy()
out["defun"] = functions["product"](x=tf2.constant([1.0, 2.0]))["product"].numpy()
tf.disable_v2_behavior()
with tf.Graph().as_default(), tf.Session() as session:
    signature = tf.saved_model.loader.load(session, ["serve"], folder + "/functions").signature_def["scaled"]
    out["function again"] = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: [1.0, 2.0]})
with tf.Graph().as_default(), tf.Session() as session:
    saver = tf.train.import_meta_graph(folder + "/net.meta")
    saver.restore(session, folder + "/net")
    out["meta graph"] = session.run("y:0", {"x:0": x})
    saver.save(session, folder + "/there", write_state=False)
with tf.Graph().as_default(), tf.Session() as session:
    tf.saved_model.loader.load(session, ["serve"], folder + "/model")
    out["first loader"] = session.run("y:0", {"x:0": x})
with tf.Graph().as_default(), tf.Session() as session:
    w = tf.get_variable("w", [10, 2], partitioner=tf.fixed_size_partitioner(2))
    tf.train.Saver().restore(session, folder + "/parts")
    out["parts"] = session.run(tf.convert_to_tensor(w))
assert tf.train.latest_checkpoint(folder) == folder + "/parts"
np.savez(folder + "/out.npz", **out)
# An index of several blocks.
names = [f"{i * 7919 % 3600:05d}{'layer' * 30}" for i in range(3600)]
with tf.Graph().as_default(), tf.Session() as session:
    session.run(tf.raw_ops.SaveV2(prefix=folder + "/many_there", tensor_names=names, shape_and_slices=[""] * 3600,
                                  tensors=[tf.constant(i, tf.int32) for i in range(3600)]))
"""


def _words(folder: Path) -> None:
    (folder / "words.txt").write_text("red\ngreen\n")
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(str(folder / "words.txt"), tf.string, -2, tf.int64, -1), default_value=-1
        )
        word = tf.placeholder(tf.string, [None], name="word")
        number = table.lookup(word)
        init = tf.tables_initializer()
        tf.saved_model.simple_save(session, str(folder / "words"), {"word": word}, {"number": number}, init)
    (folder / "words.txt").unlink()


def _functions(folder: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.Module()
        model.factor = tf.Variable([3.0, 4.0], name="factor")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def scaled(x: Any) -> Any:
            y = tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y * model.factor), (0, x))[1]
            return {"y": y}

        @tf.experimental.Defun(tf.float32, func_name="Product", out_names=["product"])
        def product(x: Any) -> Any:
            return x * model.factor

        session.run(tf.global_variables_initializer())
        tf.saved_model.save(model, str(folder / "functions"), {"scaled": scaled, "product": product})


def test_tensorflow_reads_what_is_written_here(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", inputs())
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = network(tf, True)
        session.run(tf.global_variables_initializer())
        expected = session.run(y, {x: inputs()})
        tf.train.Saver().save(session, str(tmp_path / "net"))
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    _words(tmp_path)
    _functions(tmp_path)
    whole = np.arange(20, dtype=np.float32).reshape(10, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", initializer=whole, partitioner=tf.fixed_size_partitioner(3))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "parts"))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [PYTHON, "-c", READ, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "out.npz") as out:
        for key in ("first loader", "second loader", "meta graph"):
            np.testing.assert_allclose(out[key], expected, rtol=1e-4, err_msg=key)
        assert out["words"].tolist() == [1, -1]
        assert out["function"].tolist() == out["function again"].tolist() == [9.0, 32.0]
        assert out["defun"].tolist() == [3.0, 8.0]
        np.testing.assert_array_equal(out["parts"], whole)
    _same_files(tmp_path, "net", "there")
    names = [f"{i * 7919 % 3600:05d}{'layer' * 30}" for i in range(3600)]
    feeds: list[Any] = [np.int32(i) for i in range(3600)]
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(
            tf.raw_ops.SaveV2(
                prefix=str(tmp_path / "many_here"), tensor_names=names, shape_and_slices=[""] * 3600, tensors=feeds
            )
        )
    assert (tmp_path / "many_here.index").stat().st_size > 2 * 256 * 1024
    _same_files(tmp_path, "many_here", "many_there")


def _same_files(folder: Path, here: str, there: str) -> None:
    for suffix in (".index", ".data-00000-of-00001"):
        assert (folder / (here + suffix)).read_bytes() == (folder / (there + suffix)).read_bytes(), suffix


# An object that Thalweg wrote where ops run at once, as TensorFlow 2 sees it; then written by TensorFlow once more.
READ_OBJECTS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1] + "/here")
x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
assert model.run(x, tf.constant(3))["steps"].numpy() == 1 and model.steps.numpy() == 1
assert model(x, training=True, scale=3.0)[0].numpy().tolist() == [[6.0, 12.0], [18.0, 24.0]]
assert model.signatures["serving_default"](x=x, n=tf.constant(1))["steps"].numpy() == 2
with tf.GradientTape() as tape:
    y = tf.reduce_sum(model(x)[0] * model.parts[0].w)
assert tape.gradient(y, model.parts[0].w).numpy().tolist() == x.numpy().tolist()
model.by_name["shift"].assign(9.0)
tf.saved_model.save(model, sys.argv[1] + "/there")
"""


def test_objects_go_to_tensorflow_and_back(tmp_path: Path) -> None:
    with tf.eager():
        model, x = Model(), tf.constant([[1.0, 2.0], [3.0, 4.0]])
        model(x), model(x, training=True, scale=3.0)
        tf.saved_model.save(model, str(tmp_path / "here"), {"serving_default": model.run})
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [PYTHON, "-c", READ_OBJECTS, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        again = tf.saved_model.load(str(tmp_path / "there"))
        assert (again.steps.numpy(), again.by_name["shift"].numpy()) == (2, 9.0)
        model.by_name["shift"].assign(9.0)
        np.testing.assert_allclose(again.run(x, 3)["y"], model.run(x, tf.constant(3))["y"], rtol=1e-5)
