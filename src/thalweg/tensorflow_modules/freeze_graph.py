"""`tensorflow.python.tools.freeze_graph`: a graph and a checkpoint become one graph of constants."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def names_in(text: str) -> list[str]:
    """The names in a list that is separated by commas."""
    return [name for name in text.replace(" ", "").split(",") if name]


def read_graph_def(path: str, binary: bool) -> Any:
    """The GraphDef in a file, binary or text.

    Raises:
        OSError: If there is no such file.
    """
    if not tf.gfile.Exists(path):
        raise OSError(f"Input graph file '{path}' does not exist!")
    graph_def = tf.GraphDef()
    with tf.gfile.GFile(path, "rb" if binary else "r") as file:
        if binary:
            graph_def.ParseFromString(file.read())
        else:
            from google.protobuf import text_format

            text_format.Parse(file.read(), graph_def)
    return graph_def


def freeze_graph_with_def_protos(
    input_graph_def: Any,
    input_saver_def: Any,
    input_checkpoint: Any,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_denylist: str = "",
    input_meta_graph_def: Any = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: Any = None,
    checkpoint_version: int = 2,
    variable_names_blacklist: str = "",
) -> Any:
    """Restores the variables of a graph and writes it with constants in their place; returns the frozen GraphDef.

    Raises:
        ValueError: If no output node is named, or the checkpoint does not exist.
    """
    outputs = names_in(output_node_names)
    if not outputs:
        raise ValueError("You need to supply the name of a node to --output_node_names.")
    if not input_saved_model_dir and not tf.train.checkpoint_exists(input_checkpoint):
        raise ValueError(f"Input checkpoint '{input_checkpoint}' doesn't exist!")
    if clear_devices:
        for node in [*(input_meta_graph_def.graph_def.node if input_meta_graph_def else input_graph_def.node)]:
            node.device = ""
    with tf.Graph().as_default(), tf.Session() as sess:
        graph_def = input_graph_def
        if input_saved_model_dir:
            meta_graph = tf.saved_model.loader.load(sess, saved_model_tags or [], input_saved_model_dir)
            graph_def = meta_graph.graph_def
        elif input_meta_graph_def:
            tf.train.import_meta_graph(input_meta_graph_def, clear_devices=True).restore(sess, input_checkpoint)
            graph_def = input_meta_graph_def.graph_def
        else:
            tf.import_graph_def(input_graph_def, name="")
            if input_saver_def:
                tf.train.Saver(saver_def=input_saver_def).restore(sess, input_checkpoint)
            else:
                _restore_all(sess, graph_def, input_checkpoint)
        if initializer_nodes:
            sess.run(names_in(initializer_nodes))
        frozen = tf.graph_util.convert_variables_to_constants(
            sess, graph_def, outputs, names_in(variable_names_whitelist) or None,
            names_in(variable_names_denylist or variable_names_blacklist) or None,
        )  # fmt: skip
    if output_graph:
        with tf.gfile.GFile(output_graph, "wb") as file:
            file.write(frozen.SerializeToString())
    return frozen


def _restore_all(sess: Any, graph_def: Any, checkpoint: Any) -> None:
    """Assigns every variable node of the graph that the checkpoint has."""
    reader = tf.train.NewCheckpointReader(checkpoint)
    stored = reader.get_variable_to_dtype_map()
    for node in graph_def.node:
        if node.op == "VarHandleOp" and node.name in stored:
            handle = sess.graph.get_tensor_by_name(node.name + ":0")
            value = tf.constant(reader.get_tensor(node.name))
            sess.run(tf.raw_ops.AssignVariableOp(resource=handle, value=value))
        elif node.op in ("VariableV2", "Variable") and node.name in stored:
            reference = sess.graph.get_tensor_by_name(node.name + ":0")
            sess.run(tf.assign(reference, tf.constant(reader.get_tensor(node.name))))


def freeze_graph(
    input_graph: str | None,
    input_saver: str | None,
    input_binary: bool,
    input_checkpoint: Any,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_blacklist: str = "",
    input_meta_graph: Any = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: str = "serve",
    checkpoint_version: int = 2,
) -> Any:
    """Reads a graph (or MetaGraph, or SavedModel) and a checkpoint from files, and freezes them."""
    graph_def = meta_graph = saver_def = None
    if input_graph:
        graph_def = read_graph_def(input_graph, input_binary)
    if input_meta_graph:
        meta_graph = tf.MetaGraphDef()
        with tf.gfile.GFile(input_meta_graph, "rb") as file:
            meta_graph.ParseFromString(file.read())
    if input_saver:
        from google.protobuf import text_format

        saver_def = tf.train.SaverDef()
        with tf.gfile.GFile(input_saver, "rb" if input_binary else "r") as file:
            if input_binary:
                saver_def.ParseFromString(file.read())
            else:
                text_format.Parse(file.read(), saver_def)
    return freeze_graph_with_def_protos(
        graph_def, saver_def, input_checkpoint, output_node_names, restore_op_name, filename_tensor_name, output_graph,
        clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist,
        input_meta_graph_def=meta_graph, input_saved_model_dir=input_saved_model_dir,
        saved_model_tags=names_in(saved_model_tags), checkpoint_version=checkpoint_version,
    )  # fmt: skip
