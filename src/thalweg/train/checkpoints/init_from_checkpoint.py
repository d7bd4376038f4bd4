"""Initializing variables from a checkpoint: some of them, under other names or scopes, without a Saver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.graph.apply import apply_list, apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import device, get_collection, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.platform.file_paths import local_path
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable import Variable
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader, checkpoint_prefix, load_checkpoint
from thalweg.train.checkpoints.saveable import cpu_of


@export("train.init_from_checkpoint")
def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Mapping[str, Any]) -> None:
    """Makes the initializers of variables read their values from a checkpoint.

    Call it after the variables are created, and before their initializers are used.

    Args:
        ckpt_dir_or_file: The prefix of a checkpoint, or a directory: its latest one.
        assignment_map: From names in the checkpoint to variables: `{'w': 'w'}`, `{'w': variable}`,
            `{'old/w': list of parts}`; or from scopes to scopes, with a slash at the end: `{'old/': 'new/'}`; '/' is
            the outermost one.

    Raises:
        ValueError: If a tensor is not in the checkpoint, or has another shape there, or a variable does not exist.
        errors.NotFoundError: If there is no such checkpoint.

    Example:
        >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
        >>> with tf.Graph().as_default(), tf.Session() as sess:
        ...     v = tf.get_variable("old/v", initializer=[1.0, 2.0])
        ...     sess.run(v.initializer)
        ...     path = tf.train.Saver().save(sess, prefix)
        >>> v = tf.get_variable("new/v", [2])
        >>> tf.train.init_from_checkpoint(path, {"old/": "new/"})
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     print(sess.run(v))
        [1. 2.]
    """
    prefix = checkpoint_prefix(ckpt_dir_or_file)
    reader = load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    known = _variables_by_name()
    for source, target in sorted(assignment_map.items(), key=lambda item: item[0]):
        if not isinstance(target, str):
            _assign(reader, prefix, source, target)
        elif target.endswith("/"):
            _assign_scope(reader, prefix, source, target, known)
        else:
            if target not in known:
                raise ValueError(f"Assignment map with variable {target}, which is not a variable of the graph.")
            if source not in shapes and source.endswith("/"):
                raise ValueError(f"Assignment map maps the scope {source} to the variable {target}.")
            _assign(reader, prefix, source, known[target])


def _variables_by_name() -> dict[str, Any]:
    """The variables of the default graph, with the parts of a variable together under its name."""
    out: dict[str, Any] = {}
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in get_collection(key):
            info = variable._get_save_slice_info()
            if info is None:
                out[variable.op.name] = variable
            elif all(part is not variable for part in out.setdefault(info.full_name, [])):
                out[info.full_name].append(variable)
    return out


def _assign_scope(reader: CheckpointReader, prefix: str, source: str, target: str, known: dict[str, Any]) -> None:
    if not source.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {target} should map to scope only {source}. Should be 'scope/': "
            "'other_scope/'."
        )
    inner, outer = target.lstrip("/"), source.lstrip("/")
    found = [name for name in known if name.startswith(inner)]
    if not found:
        raise ValueError(f"Assignment map with the scope {target}, in which there is no variable.")
    for name in found:
        tensor = outer + name[len(inner) :]
        if not reader.has_tensor(tensor):
            raise ValueError(f"Tensor {tensor} ({name} in {target}) is not found in {prefix} checkpoint")
        _assign(reader, prefix, tensor, known[name])


def _assign(reader: CheckpointReader, prefix: str, tensor: str, target: Any) -> None:
    parts = list(target) if isinstance(target, (list, tuple, PartitionedVariable)) else [target]
    shapes = reader.get_variable_to_shape_map()
    if tensor not in shapes:
        raise ValueError(f"Tensor {tensor} is not found in {prefix} checkpoint {sorted(shapes)}")
    for variable in parts:
        if not isinstance(variable, Variable):
            raise TypeError(f"Expected a Variable or the name of one for {tensor}, got {variable!r}.")
        info = variable._get_save_slice_info()
        if info is None and len(parts) > 1:
            raise ValueError(f"Expected slices of one variable for {tensor}, but {variable.name} is not a slice.")
        shape = variable.shape if info is None else type(variable.shape)(info.full_shape)
        if not shape.is_compatible_with(shapes[tensor]):
            raise ValueError(
                f"Shape of variable {variable.name} ({shape}) doesn't match with shape of tensor {tensor} "
                f"({shapes[tensor]}) from checkpoint reader."
            )
        _set_initializer(variable, prefix, tensor, "" if info is None else info.spec)
        logging.info("Initialize variable %s from checkpoint %s with %s", variable.name, prefix, tensor)


def _set_initializer(variable: Any, prefix: str, tensor: str, spec: str) -> None:
    with (
        get_default_graph().control_dependencies(None),
        device(cpu_of(variable.device)),
        name_scope("checkpoint_initializer"),
    ):
        (value,) = apply_list("RestoreV2", local_path(prefix), [tensor], [spec], dtypes=[variable.dtype])
        value.set_shape(variable.shape)
        if variable._reference is not None:
            variable._initializer_op = apply_one("Assign", variable._reference, value).op
        else:
            variable._initializer_op = apply_op("AssignVariableOp", variable.handle, value, validate_shape=True)
        variable._initial_value = variable._safe_initial_value = value


@export("train.warm_start")
def warm_start(
    ckpt_to_initialize_from: Any,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, Any] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Makes the initializers of variables read their values from a checkpoint, under mostly the same names.

    Args:
        ckpt_to_initialize_from: The prefix of a checkpoint, or a directory.
        vars_to_warm_start: A regular expression for trainable variables; a list of such for all global variables; a
            list of variables; or None for none.
        var_name_to_vocab_info: Not supported: embeddings whose vocabulary changed.
        var_name_to_prev_var_name: Names in the checkpoint of variables that were called otherwise.

    Raises:
        NotImplementedError: For `var_name_to_vocab_info`.
        ValueError: If a name in `var_name_to_prev_var_name` is none of the variables.
    """
    if var_name_to_vocab_info:
        raise NotImplementedError("warm_start cannot map the rows of an embedding to another vocabulary.")
    if vars_to_warm_start is None:
        variables: list[Any] = []
    elif isinstance(vars_to_warm_start, str):
        variables = get_collection(GraphKeys.TRAINABLE_VARIABLES, vars_to_warm_start)
    elif all(isinstance(item, str) for item in vars_to_warm_start):
        variables = [v for item in vars_to_warm_start for v in get_collection(GraphKeys.GLOBAL_VARIABLES, item)]
    else:
        variables = [
            part for v in vars_to_warm_start for part in (v if isinstance(v, (list, PartitionedVariable)) else [v])
        ]
    groups: dict[str, list[Any]] = {}
    for variable in dict.fromkeys(variables):
        info = variable._get_save_slice_info()
        groups.setdefault(variable.op.name if info is None else info.full_name, []).append(variable)
    previous = dict(var_name_to_prev_var_name or {})
    for name in set(previous) - set(groups):
        raise ValueError(f"'{name}' of var_name_to_prev_var_name is none of the variables to warm-start.")
    prefix = checkpoint_prefix(ckpt_to_initialize_from)
    reader = load_checkpoint(prefix)
    for name, parts in groups.items():
        _assign(reader, prefix, previous.get(name, name), parts)
