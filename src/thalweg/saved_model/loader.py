"""Loading SavedModels: the graph that was saved under some tags, with its variables, assets and initialization."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.name_scoping import prepend_name_scope
from thalweg.graph.formats.write_graph import naming_damage, read_message
from thalweg.platform import gfile, logging
from thalweg.saved_model import constants
from thalweg.saved_model.packed_messages import name_for_memory, text_for_memory
from thalweg.train.checkpoints.checkpoint_messages import saved_model_class
from thalweg.train.checkpoints.import_meta_graph import import_meta_graph


@export(
    "saved_model.maybe_saved_model_directory",
    "saved_model.contains_saved_model",
    "saved_model.loader.maybe_saved_model_directory",
)
def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Whether a directory has a SavedModel, binary or text."""
    return _model_file(os.fsdecode(export_dir)) is not None


def _model_file(export_dir: str) -> str | None:
    for name in (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT):
        path = os.path.join(export_dir, name)
        if gfile.Exists(path):
            return path
    return None


def parse_saved_model(export_dir: Any) -> Any:
    """Reads the SavedModel message of a directory.

    Raises:
        OSError: If there is none, or it cannot be parsed.
    """
    directory = os.fsdecode(export_dir)
    path = _model_file(directory)
    if path is None:
        raise OSError(
            f"SavedModel file does not exist at: {directory}/{{{constants.SAVED_MODEL_FILENAME_PBTXT}|"
            f"{constants.SAVED_MODEL_FILENAME_PB}}}"
        )
    try:
        if path.endswith(".pbtxt"):
            saved_model = _parse_text(path)
        else:
            saved_model = read_message(saved_model_class()(), path, "SavedModel")
    except ValueError as e:
        raise OSError(f"Cannot parse file {path}: {e}") from e
    name_for_memory(saved_model)
    return saved_model


def _parse_text(path: str) -> Any:
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

    with gfile.GFile(path) as file:
        text = text_for_memory(file.read())
    try:
        return text_format.Parse(text, saved_model_class()())
    except text_format.ParseError as e:
        raise ValueError(str(e)) from e


def find_meta_graph(saved_model: Any, tags: Iterable[str], export_dir: Any) -> Any:
    """The MetaGraphDef that was saved under exactly these tags.

    Raises:
        RuntimeError: If there is none.
    """
    wanted = set(tags)
    available = []
    for meta_graph in saved_model.meta_graphs:
        found = set(meta_graph.meta_info_def.tags)
        if found == wanted:
            return meta_graph
        available.append(sorted(found))
    raise RuntimeError(
        f"MetaGraphDef associated with tags {sorted(wanted)} could not be found in the SavedModel in {export_dir}; "
        f"it has: {available}"
    )


def asset_paths(meta_graph: Any, export_dir: str, import_scope: str | None) -> dict[str, str]:
    """The names of the tensors with paths of assets, and where the assets are now."""
    from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef  # Start-up time: protobuf is slow to import.

    assets = list(meta_graph.asset_file_def)
    if not assets and constants.ASSETS_KEY in meta_graph.collection_def:
        for item in meta_graph.collection_def[constants.ASSETS_KEY].any_list.value:
            if item.TypeName().endswith(".AssetFileDef"):
                assets.append(AssetFileDef.FromString(item.value))
    folder = os.path.join(export_dir, constants.ASSETS_DIRECTORY)
    out = {}
    for asset in assets:
        if os.path.basename(asset.filename) != asset.filename:
            raise errors.InvalidArgumentError(
                None, None, f"The asset '{asset.filename}' of the SavedModel in {export_dir} lies outside of it."
            )
        out[prepend_name_scope(asset.tensor_info.name, import_scope)] = os.path.join(folder, asset.filename)
    return out


def _init_op(meta_graph: Any, graph: Any, import_scope: str | None) -> Any:
    signatures = meta_graph.signature_def
    name: str | None = None
    if constants.INIT_OP_SIGNATURE_KEY in signatures:
        name = signatures[constants.INIT_OP_SIGNATURE_KEY].outputs[constants.INIT_OP_SIGNATURE_KEY].name
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        if name is None and key in meta_graph.collection_def:
            names = meta_graph.collection_def[key].node_list.value
            if len(names) != 1:
                raise RuntimeError(f"Expected exactly one SavedModel init op in '{key}'. Found: {list(names)}")
            name = names[0]
    return None if not name else graph.as_graph_element(prepend_name_scope(name, import_scope))


@export("saved_model.load", "saved_model.loader.load")
def load(
    sess: Any, tags: Any = None, export_dir: Any = None, import_scope: str | None = None, **saver_kwargs: Any
) -> Any:
    """Loads a model from a SavedModel into a session and its graph.

    With a directory in the place of the session, as TensorFlow 2 calls it, this is `tf.saved_model.load_v2`.

    Args:
        sess: The session to restore the variables in; the model is added to its graph.
        tags: Tags that name one of the model's graphs, such as [tf.saved_model.tag_constants.SERVING].
        export_dir: The directory.
        import_scope: A name scope to put the graph under.
        **saver_kwargs: Further arguments of `tf.train.import_meta_graph`.

    Returns:
        The MetaGraphDef: its `signature_def` says which tensors are the inputs and outputs.

    Raises:
        OSError: If there is no SavedModel.
        RuntimeError: If no graph has these tags.
        errors.InvalidArgumentError: If the model is damaged.
    """
    if isinstance(sess, (str, bytes, os.PathLike)):
        return _load_objects(sess, tags)
    if tags is None or export_dir is None:
        raise TypeError("tf.saved_model.load takes a session, tags and a directory, or a directory alone.")
    directory = os.fsdecode(export_dir)
    with naming_damage(directory, "SavedModel"), sess.graph.as_default() as graph:
        meta_graph = find_meta_graph(parse_saved_model(directory), tags, directory)
        prefix = os.path.join(directory, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
        scope = _unique_scope(graph, import_scope)
        saver = import_meta_graph(meta_graph, import_scope=import_scope, **saver_kwargs)
        if saver is not None and meta_graph.HasField("saver_def"):
            saver.restore(sess, prefix)
        else:
            logging.info("The specified SavedModel has no variables; no checkpoints were restored.")
        feeds = asset_paths(meta_graph, directory, scope)
        init = _init_op(meta_graph, graph, scope)
        if init is not None:
            sess.run(init, feeds)
    return meta_graph


def _no_objects(export_dir: Any, tags: Any) -> Any:
    raise NotImplementedError("saved_model/object_loader.py has not been imported.")


_load_objects = _no_objects


def set_object_loader(function: Any) -> None:
    """Installs `load_v2(export_dir, tags)`, which uses this module."""
    global _load_objects
    _load_objects = function


def _unique_scope(graph: Any, import_scope: str | None) -> str | None:
    """The unique scope that the import will use."""
    if not import_scope or import_scope.endswith("/"):
        return import_scope
    result: str | None = graph.unique_name(import_scope, mark_as_used=False)
    return result
