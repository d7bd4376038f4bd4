"""Assigning variables from checkpoints and arrays, and reading checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.contrib.framework.variables import get_variable_full_name
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

export_value(tf.train.checkpoints_iterator, "contrib.training.checkpoints_iterator")


@export("contrib.framework.list_variables")
def list_variables(checkpoint_dir: Any) -> Any:
    """The names and shapes of all variables of a checkpoint, or of the latest one of a folder."""
    return tf.train.list_variables(checkpoint_dir)


@export("contrib.framework.load_variable")
def load_variable(checkpoint_dir: Any, name: str) -> Any:
    """The value of a variable of a checkpoint, or of the latest one of a folder."""
    return tf.train.load_variable(checkpoint_dir, name)


@export("contrib.framework.load_checkpoint")
def load_checkpoint(filepattern: Any) -> Any:
    """The reader of a checkpoint, or of the latest one of a folder."""
    return tf.train.load_checkpoint(filepattern)


@export("contrib.framework.init_from_checkpoint")
def init_from_checkpoint(checkpoint_dir: Any, assignment_map: Any) -> None:
    """Lets initializers of variables take the values of a checkpoint."""
    tf.train.init_from_checkpoint(checkpoint_dir, assignment_map)


def _grouped(var_list: Any) -> dict[str, list[Any]]:
    """Variables by their name in checkpoints; the parts of a partitioned variable together."""
    if isinstance(var_list, dict):
        return {name: list(var) if isinstance(var, (list, tuple)) else [var] for name, var in var_list.items()}
    if not isinstance(var_list, (list, tuple)):
        raise TypeError(f"var_list must be a list or a dict of variables, not {type(var_list).__name__}")
    grouped: dict[str, list[Any]] = {}
    for var in var_list:
        grouped.setdefault(get_variable_full_name(var), []).append(var)
    return grouped


@export("contrib.framework.assign_from_values", "contrib.slim.assign_from_values")
def assign_from_values(var_names_to_values: dict[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """An operation that assigns arrays to variables, and what to feed to it.

    Raises:
        ValueError: If a variable does not exist.
    """
    feed: dict[Any, Any] = {}
    assigns = []
    for name, value in var_names_to_values.items():
        found = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, name)
        if not found:
            raise ValueError(f"Variable {name} wasnt found")
        if len(found) > 1:
            exact = [var for var in found if var.op.name == name]
            if len(exact) != 1:
                raise ValueError(f"Variable {name} doesnt uniquely identify a variable")
            found = exact
        holder = tf.placeholder(found[0].dtype.base_dtype, name="placeholder/" + found[0].op.name)
        assigns.append(tf.assign(found[0], tf.reshape(holder, value.shape)))
        feed[holder] = value.reshape(value.shape)
    return tf.group(*assigns), feed


@export("contrib.framework.assign_from_values_fn", "contrib.slim.assign_from_values_fn")
def assign_from_values_fn(var_names_to_values: dict[str, Any]) -> Callable[[Any], None]:
    """A function of a session that assigns arrays to variables."""
    op, feed = assign_from_values(var_names_to_values)

    def callback(session: Any) -> None:
        session.run(op, feed)

    return callback


@export("contrib.framework.assign_from_checkpoint", "contrib.slim.assign_from_checkpoint")
def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """An operation that assigns the values of a checkpoint to variables, and what to feed to it.

    Args:
        model_path: The checkpoint.
        var_list: Variables, or a dict from names in the checkpoint to variables (or lists of the parts of one).
        ignore_missing_vars: Whether to leave variables alone that the checkpoint does not have.

    Raises:
        ValueError: If a variable is missing, or has another shape.
    """
    reader = tf.train.NewCheckpointReader(model_path)
    shapes = reader.get_variable_to_shape_map()
    assigns: list[Any] = []
    feed: dict[Any, Any] = {}
    for name, parts in _grouped(var_list).items():
        if name not in shapes:
            if not ignore_missing_vars:
                raise ValueError(f"Checkpoint is missing variable [{name}]")
            tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
            continue
        value = reader.get_tensor(name)
        for part in parts:
            piece = value
            info = getattr(part, "_save_slice_info", None)
            if info is not None:
                places = [slice(o, o + s) for o, s in zip(info.var_offset, info.var_shape, strict=True)]
                piece = value[tuple(places)]
            holder = tf.placeholder(part.dtype.base_dtype, shape=part.shape, name="placeholder/" + part.op.name)
            if part.shape.as_list() != list(piece.shape):
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} lh_shape: [{tuple(piece.shape)}], "
                    f"rh_shape: [{tuple(part.shape.as_list())}]"
                )
            assigns.append(tf.assign(part, holder))
            feed[holder] = piece
    return tf.group(*assigns), feed


@export("contrib.framework.assign_from_checkpoint_fn", "contrib.slim.assign_from_checkpoint_fn")
def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None] | None:
    """A function of a session that restores variables from a checkpoint; None if there is nothing to restore.

    Raises:
        ValueError: If `var_list` is empty.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    wanted: dict[str, Any] = {n: parts if len(parts) > 1 else parts[0] for n, parts in _grouped(var_list).items()}
    if ignore_missing_vars:
        stored = tf.train.NewCheckpointReader(model_path).get_variable_to_dtype_map()
        for name in [name for name in wanted if name not in stored]:
            tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
            del wanted[name]
    if not wanted:
        tf.logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(wanted, reshape=reshape_variables, write_version=tf.train.SaverDef.V2)

    def callback(session: Any) -> None:
        saver.restore(session, model_path)

    return callback
