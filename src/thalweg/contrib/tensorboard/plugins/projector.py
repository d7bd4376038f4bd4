"""tf.contrib.tensorboard.plugins.projector: says TensorBoard which embeddings to show."""

from __future__ import annotations

import os
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACE = "contrib.tensorboard.plugins.projector"


def _messages() -> Any:
    # Start-up time: TensorBoard's plug-in is loaded by programs that use it.
    from tensorboard.plugins.projector import projector_config_pb2

    return projector_config_pb2


for _name in ("ProjectorConfig", "EmbeddingInfo", "SpriteMetadata"):
    export_value(getattr(_messages(), _name), f"{_SPACE}.{_name}")


@export(f"{_SPACE}.visualize_embeddings")
def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Writes a ProjectorConfig into the folder of a FileWriter (or a folder).

    Raises:
        ValueError: If the writer has no folder.
    """
    from google.protobuf import text_format

    folder = summary_writer if isinstance(summary_writer, (str, os.PathLike)) else summary_writer.get_logdir()
    if folder is None:
        raise ValueError("Summary writer must have a logdir")
    text = text_format.MessageToString(config)
    with tf.gfile.GFile(os.path.join(os.fspath(folder), "projector_config.pbtxt"), "w") as file:
        file.write(text)
