"""Writing SavedModels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_collection, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.platform import gfile, logging
from thalweg.saved_model import constants
from thalweg.saved_model.packed_messages import name_for_files, text_for_files
from thalweg.saved_model.signatures import predict_signature_def
from thalweg.train.checkpoints.checkpoint_messages import saved_model_class
from thalweg.train.checkpoints.checkpoint_state import write_durably
from thalweg.train.checkpoints.saveable import all_saveable_objects
from thalweg.train.checkpoints.saver import Saver


@export("saved_model.Builder", "saved_model.builder.SavedModelBuilder")
class SavedModelBuilder:
    """Writes a SavedModel: one or more graphs that share variables and assets.

    Example:
        >>> x = tf.placeholder(tf.float32, [None], name="x")
        >>> y = tf.Variable(3.0, name="w") * x
        >>> signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        >>> builder = tf.saved_model.builder.SavedModelBuilder(os.path.join(tempfile.mkdtemp(), "model"))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     builder.add_meta_graph_and_variables(sess, ["serve"], {"serving_default": signature})
        >>> os.path.basename(builder.save())
        'saved_model.pb'
    """

    def __init__(self, export_dir: Any) -> None:
        """Takes the directory, which must not exist, or be empty.

        Raises:
            AssertionError: If it is not empty.
        """
        self._export_dir = os.fsdecode(export_dir)
        self._saved_model = saved_model_class()(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        self._has_saved_variables = False
        self._asset_names: dict[str, str] = {}  # Name in the model to the file that was copied.
        if gfile.Exists(self._export_dir):
            if gfile.ListDirectory(self._export_dir):
                raise AssertionError(
                    "Export directory already exists, and isn't empty. Please choose a different export directory, or "
                    f"delete all the contents of the specified directory: {self._export_dir}"
                )
        else:
            gfile.MakeDirs(self._export_dir)

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: dict[str, Any] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
        train_op: Any = None,
    ) -> None:
        """Adds the session's graph, and saves the variables and assets. Comes first, and once.

        Args:
            sess: The session with the variables.
            tags: The tags that name the graph.
            signature_def_map: SignatureDefs by name.
            assets_collection: Constants with the paths of files to copy into the model.
            legacy_init_op: The same as `main_op`.
            clear_devices: Whether to leave devices out.
            main_op: An operation to run when the model is loaded, after the variables are restored.
            strip_default_attrs: Whether to leave out attributes that have their default.
            saver: Saves the variables; a sharded Saver for all of them if None.
            train_op: The operation that trains the model.

        Raises:
            AssertionError: If it was called before, or a signature is not valid.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
                "instead."
            )
        _validate(signature_def_map)
        with sess.graph.as_default():
            saver = self._prepare(assets_collection, legacy_init_op, main_op, train_op, saver)
            folder = os.path.join(self._export_dir, constants.VARIABLES_DIRECTORY)
            gfile.MakeDirs(folder)
            path = os.path.join(folder, constants.VARIABLES_FILENAME)
            saver.save(sess, path, write_meta_graph=False, write_state=False)
            self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: dict[str, Any] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
        train_op: Any = None,
    ) -> None:
        """Adds the default graph, whose variables must be among those saved; see `add_meta_graph_and_variables`.

        Raises:
            AssertionError: If no variables were saved yet, or a signature is not valid.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        _validate(signature_def_map)
        saver = self._prepare(assets_collection, legacy_init_op, main_op, train_op, saver)
        self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)

    def _prepare(self, assets: Any, legacy_init_op: Any, main_op: Any, train_op: Any, saver: Saver | None) -> Saver:
        """Copies the assets and fills the collections that the loader reads; returns the saver."""
        main_op = main_op if main_op is not None else legacy_init_op
        graph = get_default_graph()
        for key, value, kinds in (
            (constants.MAIN_OP_KEY, main_op, (Operation,)),
            (constants.TRAIN_OP_KEY, train_op, (Operation, Tensor)),
        ):
            if value is None:
                continue
            if not isinstance(value, kinds):
                raise TypeError(f"Expected an operation for '{key}', got {value!r}.")
            graph.clear_collection(key)
            graph.add_to_collection(key, value)
        self._add_assets(assets)
        if saver is None:
            saver = Saver(all_saveable_objects(), sharded=True, allow_empty=True)
        return saver

    def _add_assets(self, assets: Any) -> None:
        from google.protobuf.any_pb2 import Any as AnyMessage  # Start-up time: protobuf is slow to import.
        from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

        graph = get_default_graph()
        graph.clear_collection(constants.ASSETS_KEY)
        for tensor in assets or ():
            path = _asset_path(tensor)
            asset = AssetFileDef(filename=self._copy_asset(path))
            asset.tensor_info.name = tensor.name
            packed = AnyMessage()
            packed.Pack(asset)
            graph.add_to_collection(constants.ASSETS_KEY, packed)

    def _copy_asset(self, path: str) -> str:
        """Copies a file into the model; another file of the same name gets a number."""
        stem, ending = os.path.splitext(os.path.basename(path))
        name, number = stem + ending, 0
        folder = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        while name in self._asset_names:
            if _same_content(path, os.path.join(folder, name)):
                return name
            number += 1
            name = f"{stem}_{number}{ending}"
        gfile.MakeDirs(folder)
        gfile.Copy(path, os.path.join(folder, name), overwrite=True)
        self._asset_names[name] = path
        return name

    def _add(
        self, saver: Saver, tags: Iterable[str], signatures: dict[str, Any] | None, clear_devices: bool, strip: bool
    ) -> None:
        meta_graph = saver.export_meta_graph(clear_devices=clear_devices, strip_default_attrs=strip)
        meta_graph.meta_info_def.tags.extend(tags)
        for name, signature in (signatures or {}).items():
            meta_graph.signature_def[name].CopyFrom(signature)
        for item in get_default_graph().get_collection(constants.ASSETS_KEY):
            meta_graph.asset_file_def.add().ParseFromString(item.value)
        self._saved_model.meta_graphs.add().CopyFrom(meta_graph)

    def set_objects(self, objects: Any) -> None:
        """Adds a SavedObjectGraph to the graph that was added last: what TensorFlow 2 loads."""
        self._saved_model.meta_graphs[-1].object_graph_def.ParseFromString(objects.SerializeToString())

    def save(self, as_text: bool = False) -> str:
        """Writes the graphs: the model is complete.

        Args:
            as_text: Whether in protobuf's text form.

        Returns:
            The path of the file.
        """
        from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

        name = constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        gfile.MakeDirs(self._export_dir)
        if as_text:
            content = text_for_files(text_format.MessageToString(self._saved_model)).encode()
        else:
            message = type(self._saved_model).FromString(self._saved_model.SerializeToString())
            name_for_files(message)
            content = message.SerializeToString()
        write_durably(path, content)
        logging.info("SavedModel written to: %s", path)
        return path


def _same_content(one: str, other: str) -> bool:
    with gfile.GFile(one, "rb") as first, gfile.GFile(other, "rb") as second:
        while (block := first.read(1 << 22)) == second.read(1 << 22):
            if not block:
                return True
    return False


def _asset_path(tensor: Any) -> str:
    if not isinstance(tensor, Tensor) or tensor.op.type != "Const":
        raise ValueError(f"Invalid asset filepath tensor {tensor!r}: assets are constants with a path.")
    value = constant_value(tensor)
    path = os.fsdecode(value.item()) if value is not None and value.size == 1 else ""
    if not path:
        raise ValueError(f"Invalid asset filepath tensor {tensor!r}: it holds no path.")
    return path


def _is_of_operation(key: str, info: Any) -> bool:
    """Whether an entry is of an operation, as those of initialization and training are, which has no type."""
    return info.name != "" and ":" not in info.name and key.startswith("__saved_model_")


def _validate(signatures: dict[str, Any] | None) -> None:
    for name, signature in (signatures or {}).items():
        for infos in (signature.inputs, signature.outputs):
            for key, info in infos.items():
                if info.WhichOneof("encoding") is None:
                    raise AssertionError(
                        "All TensorInfo protos used in the SignatureDefs must have an encoding (such as "
                        f"name or coo_sparse) set: '{key}' of '{name}' has none."
                    )
                if info.dtype == 0 and not _is_of_operation(key, info):
                    raise AssertionError(
                        "All TensorInfo protos used in the SignatureDefs must have the dtype field set: "
                        f"'{key}' of '{name}' has none."
                    )


@export("saved_model.simple_save")
def simple_save(
    session: Any, export_dir: Any, inputs: dict[str, Any], outputs: dict[str, Any], legacy_init_op: Any = None
) -> None:
    """Writes a SavedModel for serving: one graph, one signature, the tables' files as assets.

    Args:
        session: The session with the variables.
        export_dir: The directory; must not exist, or be empty.
        inputs: Tensors by name.
        outputs: Tensors by name.
        legacy_init_op: An operation to run when the model is loaded.
    """
    with session.graph.as_default():
        signature = predict_signature_def(inputs, outputs)
        builder = SavedModelBuilder(export_dir)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
            assets_collection=get_collection(GraphKeys.ASSET_FILEPATHS),
            main_op=legacy_init_op,
            clear_devices=True,
        )
    builder.save()
