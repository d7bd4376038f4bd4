"""tf.train.import_meta_graph: a MetaGraphDef into the default graph, with a Saver for its variables."""

from __future__ import annotations

import os
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.import_meta_graph import checked_meta_graph, import_scoped_meta_graph
from thalweg.graph.formats.write_graph import naming_damage
from thalweg.train.checkpoints.saveable import all_saveable_objects
from thalweg.train.checkpoints.saver import Saver


@export("train.import_meta_graph")
def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Any:
    """Adds the graph and the collections of a MetaGraphDef to the default graph.

    Args:
        meta_graph_or_file: A MetaGraphDef, or the path of a file with one.
        clear_devices: Whether to leave devices out.
        import_scope: A name scope to put everything under.
        **kwargs: `input_map`, as in `tf.import_graph_def`, and other arguments of `import_scoped_meta_graph`.

    Returns:
        A Saver for its variables: the one that the MetaGraphDef has, or a new one for all variables of the default
        graph; None if there are no variables.

    Example:
        >>> v = tf.Variable([1.0, 2.0], name="v")
        >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     path = tf.train.Saver().save(sess, prefix)
        >>> with tf.Graph().as_default(), tf.Session() as sess:
        ...     saver = tf.train.import_meta_graph(path + ".meta")
        ...     saver.restore(sess, path)
        ...     print(sess.run("v/Read/ReadVariableOp:0"))
        [1. 2.]
    """
    if isinstance(meta_graph_or_file, (str, os.PathLike)):
        path = os.fspath(meta_graph_or_file)
        with naming_damage(path, "MetaGraphDef"):
            return _imported(checked_meta_graph(path), clear_devices, import_scope, kwargs)
    return _imported(checked_meta_graph(meta_graph_or_file), clear_devices, import_scope, kwargs)


def _imported(meta_graph: Any, clear_devices: bool, import_scope: str | None, kwargs: dict[str, Any]) -> Any:
    graph = get_default_graph()
    before = {id(variable) for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)}
    variables = import_scoped_meta_graph(meta_graph, clear_devices, import_scope=import_scope, **kwargs)
    if not meta_graph.HasField("saver_def"):
        return Saver() if all_saveable_objects(import_scope) else None
    scope = import_scope
    for name, variable in variables.items():
        # The scope may have been made unique.
        if scope and id(variable) not in before and variable.name.endswith(f"/{name}"):
            scope = variable.name.removesuffix(f"/{name}")
            break
    return Saver(saver_def=meta_graph.saver_def, name=scope)
