"""SavedModels: what is written, what is loaded, signatures, assets, and what TensorFlow wrote."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

import thalweg as tf
from tests.data.make_checkpoints import FOLDER, inputs, network
from thalweg.train.checkpoints.checkpoint_messages import saved_model_class

SERVE = tf.saved_model.tag_constants.SERVING


@pytest.fixture(autouse=True)
def _fresh_graph() -> Any:
    with tf.Graph().as_default():
        yield


def _double(folder: Path, value: float = 3.0) -> str:
    """Writes a model that multiplies by a variable."""
    path = str(folder / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.multiply(x, tf.get_variable("w", initializer=value), name="y")
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, path, {"in": x}, {"out": y})
    return path


def test_a_simple_model_comes_back(tmp_path: Path) -> None:
    path = _double(tmp_path)
    assert sorted(os.listdir(path)) == ["saved_model.pb", "variables"]
    assert sorted(os.listdir(path + "/variables")) == ["variables.data-00000-of-00001", "variables.index"]
    assert tf.saved_model.loader.maybe_saved_model_directory(path)
    assert not tf.saved_model.contains_saved_model(str(tmp_path))
    for scope in (None, "s", "s"):  # The second "s" becomes "s_1".
        with tf.Session() as session:
            meta_graph = tf.saved_model.loader.load(session, [SERVE], path, import_scope=scope)
            signature = meta_graph.signature_def["serving_default"]
            assert signature.method_name == tf.saved_model.signature_constants.PREDICT_METHOD_NAME
            where = None if scope is None else "s" if "s_1/x" not in _names() else "s_1"
            x, y = (
                tf.saved_model.utils.get_tensor_from_tensor_info(info, import_scope=where)
                for info in (signature.inputs["in"], signature.outputs["out"])
            )
            assert session.run(y, {x: [1.0, 2.0]}).tolist() == [3, 6]


def _names() -> set[str]:
    return {op.name for op in tf.get_default_graph().get_operations()}


def test_graphs_are_found_by_their_tags(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    builder = tf.saved_model.builder.SavedModelBuilder(path)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=1.0)
        tf.identity(v, name="train_only")
        with pytest.raises(AssertionError, match="not been saved yet"):
            builder.add_meta_graph([SERVE])
        session.run(v.initializer)
        builder.add_meta_graph_and_variables(session, ["train", "gpu"])
        with pytest.raises(AssertionError, match="already been saved"):
            builder.add_meta_graph_and_variables(session, [SERVE])
    with tf.Graph().as_default():
        tf.identity(tf.get_variable("v", initializer=0.0), name="serve_only")
        builder.add_meta_graph([SERVE], strip_default_attrs=True)
    assert builder.save(as_text=True) == path + "/saved_model.pbtxt"
    for tags, name in ((["gpu", "train"], "train_only:0"), ({SERVE}, "serve_only:0")):
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            tf.saved_model.load(session, tags, path)
            assert session.run(name) == 1
    with tf.Session() as session, pytest.raises(RuntimeError, match=r"\['train'\].*\['gpu', 'train'\], \['serve'\]"):
        tf.saved_model.load(session, ["train"], path)


def test_initialization_and_assets(tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("red\ngreen\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "words.txt").write_text("other words\n")
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(str(vocabulary), tf.string, -2, tf.int64, -1), default_value=-1
        )
        word = tf.placeholder(tf.string, [None], name="word")
        number = table.lookup(word)
        asset = tf.saved_model.Asset(str(other / "words.txt"))
        local = tf.get_local_variable("local", initializer=5.0)
        tf.identity(asset.asset_path, name="where")
        tf.saved_model.simple_save(
            session, path, {"word": word}, {"number": number},
            legacy_init_op=tf.group(tf.tables_initializer(), local.initializer),
        )  # fmt: skip
    assert sorted(os.listdir(path + "/assets")) == ["words.txt", "words_1.txt"]
    shutil.rmtree(other)
    vocabulary.unlink()
    moved = str(tmp_path / "moved")
    os.rename(path, moved)
    with tf.Session() as session:
        meta_graph = tf.saved_model.load(session, [SERVE], moved)
        name = meta_graph.signature_def["serving_default"].outputs["number"].name
        assert session.run(name, {"word:0": ["green", "blue"]}).tolist() == [1, -1]
        assert session.run("local/Read/ReadVariableOp:0") == 5


@pytest.mark.parametrize("as_text", [False, True])
def test_asset_entries_are_unpacked_here_and_by_tensorflow(tmp_path: Path, as_text: bool) -> None:
    """`Any.Unpack` compares type names: those of TensorFlow in files, those of our message classes in memory."""
    (tmp_path / "words.txt").write_text("red\n")
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        asset = tf.saved_model.Asset(str(tmp_path / "words.txt"))
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, [SERVE], assets_collection=tf.get_collection("asset_filepaths"))
        file = builder.save(as_text=as_text)
        name = asset.asset_path.name
    assert b"type.googleapis.com/tensorflow.AssetFileDef" in Path(file).read_bytes()
    with tf.Graph().as_default(), tf.Session() as session:
        meta_graph = tf.saved_model.load(session, [SERVE], path)
    (item,) = meta_graph.collection_def["saved_model_assets"].any_list.value
    entry = AssetFileDef()
    assert item.Unpack(entry)
    assert (entry.filename, entry.tensor_info.name) == ("words.txt", name)


def test_an_asset_outside_of_the_model_is_refused(tmp_path: Path) -> None:
    path = _double(tmp_path)
    message = saved_model_class().FromString(Path(path, "saved_model.pb").read_bytes())
    asset = message.meta_graphs[0].asset_file_def.add(filename="../../secret")
    asset.tensor_info.name = "x:0"
    Path(path, "saved_model.pb").write_bytes(message.SerializeToString())
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="secret"):
        tf.saved_model.load(session, [SERVE], path)


def test_assets_in_text_form(tmp_path: Path) -> None:
    """As TensorFlow writes it, with the message in the Any spelled out."""
    message = saved_model_class().FromString((FOLDER / "table_model" / "saved_model.pb").read_bytes())
    del message.meta_graphs[0].asset_file_def[:]
    asset = message.meta_graphs[0].collection_def["saved_model_assets"].any_list.value[0]
    asset.type_url = asset.type_url.replace("tensorflow.", "tensorboard.")
    text = text_format.MessageToString(message).replace(".com/tensorboard.", ".com/tensorflow.")
    assert "[type.googleapis.com/tensorflow.AssetFileDef]" in text
    shutil.copytree(FOLDER / "table_model" / "assets", tmp_path / "assets")
    (tmp_path / "saved_model.pbtxt").write_text(text)
    with tf.Session() as session:
        tf.saved_model.load(session, [SERVE], str(tmp_path))
        assert session.run("number:0", {"word:0": ["blue"]}).tolist() == [2]


def test_models_without_variables(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, name="x")
        tf.saved_model.simple_save(session, path, {"x": x}, {"y": x + 1.0})
    with tf.Session() as session:
        tf.saved_model.load(session, [SERVE], path)
        assert session.run("add:0", {"x:0": 1.0}) == 2


def test_wrong_directories_and_files(tmp_path: Path) -> None:
    with tf.Session() as session, pytest.raises(OSError, match="does not exist"):
        tf.saved_model.load(session, [SERVE], str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff not a protobuf")
    with tf.Session() as session, pytest.raises(OSError, match="Cannot parse"):
        tf.saved_model.load(session, [SERVE], str(tmp_path))
    with pytest.raises(AssertionError, match="isn't empty"):
        tf.saved_model.builder.SavedModelBuilder(str(tmp_path))
    (tmp_path / "empty").mkdir()
    tf.saved_model.Builder(str(tmp_path / "empty"))
    path = _double(tmp_path)
    os.unlink(path + "/variables/variables.index")
    with tf.Session() as session, pytest.raises(ValueError, match="not a valid checkpoint"):
        tf.saved_model.load(session, [SERVE], path)


def test_signatures() -> None:
    utils = tf.saved_model.signature_def_utils
    examples = tf.placeholder(tf.string, [None], name="examples")
    scores = tf.placeholder(tf.float32, [None, 3], name="scores")
    regression = utils.regression_signature_def(examples, scores)
    assert regression.inputs["inputs"].name == "examples:0" and regression.outputs["outputs"].name == "scores:0"
    assert [d.size for d in regression.outputs["outputs"].tensor_shape.dim] == [-1, 3]
    classification = utils.classification_signature_def(examples, None, scores)
    assert set(classification.outputs) == {"scores"}
    prediction = utils.predict_signature_def({"a": examples}, {"b": scores})
    for signature in (regression, classification, prediction):
        assert utils.is_valid_signature(signature)
        signature.method_name = "other"
        assert not utils.is_valid_signature(signature)
    assert not utils.is_valid_signature(None) and not utils.is_valid_signature(utils.build_signature_def())
    for wrong in (
        lambda: utils.regression_signature_def(scores, scores),
        lambda: utils.regression_signature_def(examples, examples),
        lambda: utils.classification_signature_def(examples, None, None),
        lambda: utils.classification_signature_def(examples, scores, None),
        lambda: utils.predict_signature_def({}, {"b": scores}),
        lambda: utils.predict_signature_def({"a": scores}, None),
    ):
        with pytest.raises(ValueError):
            wrong()
    sparse = tf.sparse_placeholder(tf.float32, name="sparse")
    info = tf.saved_model.utils.build_tensor_info(sparse)
    assert info.coo_sparse.values_tensor_name == sparse.values.name
    assert tf.saved_model.utils.get_tensor_from_tensor_info(info).indices is sparse.indices
    with pytest.raises(ValueError, match="encoding"):
        tf.saved_model.utils.get_tensor_from_tensor_info(tf.TensorInfo())


def test_signatures_without_a_tensor_are_refused(tmp_path: Path) -> None:
    tf.get_variable("v", initializer=1.0)
    signature = tf.saved_model.build_signature_def({"x": tf.TensorInfo(dtype=1)}, {}, "m")
    builder = tf.saved_model.Builder(str(tmp_path / "m"))
    with tf.Session() as session, pytest.raises(AssertionError, match="'x'"):
        builder.add_meta_graph_and_variables(session, [SERVE], {"s": signature})


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_signatures_without_a_type_are_refused(tmp_path: Path, side: str) -> None:
    signature = tf.SignatureDef()
    getattr(signature, side)["x"].name = "x:0"
    builder = tf.saved_model.Builder(str(tmp_path / "m"))
    with tf.Session() as session, pytest.raises(AssertionError, match="dtype field set: 'x'"):
        builder.add_meta_graph_and_variables(session, [SERVE], {"s": signature})


def test_the_main_op_initializes_everything() -> None:
    v, local = tf.get_variable("v", initializer=1.0), tf.get_local_variable("local", initializer=2.0)
    with tf.Session() as session:
        session.run(tf.saved_model.main_op.main_op())
        assert session.run([v, local]) == [1, 2]


@pytest.mark.parametrize("kind", ["reference", "resource"])
def test_a_model_of_tensorflow_is_loaded(kind: str, tmp_path: Path) -> None:
    expected = np.load(FOLDER / "y.npy")
    with tf.Session() as session:
        tf.saved_model.load(session, [SERVE], str(FOLDER / f"{kind}_model"))
        np.testing.assert_allclose(session.run("y:0", {"x:0": inputs()}), expected, rtol=1e-4)
        # On to another directory, and back.
        graph = tf.get_default_graph()
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        tf.saved_model.simple_save(session, str(tmp_path / "again"), {"x": x}, {"y": y})
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.load(session, [SERVE], str(tmp_path / "again"))
        np.testing.assert_allclose(session.run("y:0", {"x:0": inputs()}), expected, rtol=1e-4)


def test_a_table_of_tensorflow_is_loaded() -> None:
    with tf.Session() as session:
        tf.saved_model.load(session, [SERVE], str(FOLDER / "table_model"))
        assert session.run("number:0", {"word:0": ["blue", "black", "red"]}).tolist() == [2, -1, 0]


def test_the_network_here_is_the_one_there(tmp_path: Path) -> None:
    x, y = network(tf, True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(y, {x: inputs()}), np.load(FOLDER / "y.npy"), rtol=1e-4)
