"""Checkpoints without a graph: which tensors one has, and their values."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, name_in_op_def
from thalweg.platform import gfile
from thalweg.platform.file_paths import local_path
from thalweg.platform.remote_files import fetched
from thalweg.train.checkpoints.checkpoint_state import latest_checkpoint


@export("train.NewCheckpointReader")
class CheckpointReader:
    """Reads the tensors of one checkpoint.

    Example:
        >>> v = tf.Variable([1.0, 2.0], name="v")
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     path = tf.train.Saver().save(sess, os.path.join(tempfile.mkdtemp(), "model"))
        >>> reader = tf.train.NewCheckpointReader(path)
        >>> reader.get_variable_to_shape_map()
        {'v': [2]}
        >>> reader.get_tensor("v")
        array([1., 2.], dtype=float32)
    """

    def __init__(self, filepattern: Any) -> None:
        """Opens the checkpoint with this prefix.

        Raises:
            errors.NotFoundError: If there is none.
            errors.DataLossError: If its index is damaged.
        """
        from thalweg._native import core  # Start-up time: the core is loaded when first used.

        self._path = os.fsdecode(filepattern)
        self._files = contextlib.ExitStack()  # The local copy of a checkpoint elsewhere, as long as the reader lives.
        local = self._files.enter_context(fetched(self._path, ".*"))
        self._reader = core.CheckpointReader(local_path(local))
        self._entries: dict[str, tuple[DType | None, list[int]]] = {}
        for name in self._reader.names():
            kind, shape = self._reader.entry(name)
            # A dtype that this version does not know is 0: such tensors are listed, but cannot be read.
            self._entries[name.decode(errors="surrogateescape")] = (as_dtype(kind) if kind else None, list(shape))

    def has_tensor(self, tensor_str: Any) -> bool:
        """Whether there is a tensor of this name."""
        return _text(tensor_str) in self._entries

    def get_tensor(self, tensor_str: Any) -> Any:
        """The value of a tensor, as a NumPy array; the slices of a partitioned variable come as one.

        Raises:
            errors.NotFoundError: If there is no tensor of this name.
        """
        return self._reader.read(_text(tensor_str).encode(errors="surrogateescape"))

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shapes, by name."""
        return {name: list(shape) for name, (_, shape) in self._entries.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The element types, by name."""
        return {name: dtype for name, (dtype, _) in self._entries.items() if dtype is not None}

    def debug_string(self) -> bytes:
        """Name, type and shape of each tensor, a line each."""
        lines = [
            f"{name} (DT_{'INVALID' if dtype is None else name_in_op_def(dtype).upper()}) [{','.join(map(str, shape))}]"
            for name, (dtype, shape) in self._entries.items()
        ]
        return "\n".join(lines).encode(errors="surrogateescape")


def _text(name: Any) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def checkpoint_prefix(ckpt_dir_or_file: Any) -> str:
    """The prefix itself, or that of the latest checkpoint in a directory; raises ValueError if there is none."""
    path = os.fsdecode(ckpt_dir_or_file)
    if not gfile.IsDirectory(path):
        return path
    latest = latest_checkpoint(path)
    if latest is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
    return latest


@export("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """Opens a checkpoint, or the latest one of a directory.

    Raises:
        ValueError: If a directory has no checkpoint.
        errors.NotFoundError: If there is no checkpoint with this prefix.
    """
    return CheckpointReader(checkpoint_prefix(ckpt_dir_or_file))


@export("train.load_variable")
def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """Returns the value of a variable in a checkpoint, as a NumPy array."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


@export("train.list_variables")
def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Returns the names and shapes of the variables in a checkpoint, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def near_names(reader: CheckpointReader, name: str) -> list[str]:
    """Names in the checkpoint that look like `name`: for messages."""
    import difflib

    return difflib.get_close_matches(name, reader.get_variable_to_shape_map(), 3)


def try_open(prefix: Any) -> CheckpointReader | None:
    """The reader, or None if there is no readable checkpoint."""
    try:
        return CheckpointReader(prefix)
    except (errors.OpError, ValueError):
        return None
