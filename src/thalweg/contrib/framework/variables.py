"""Variables of models: created with collections, found by scope, name or suffix, and assigned."""

from __future__ import annotations

import re
from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


@export("contrib.framework.variable", "contrib.slim.variable")
@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """Finds or creates a variable, as `tf.get_variable` does, on a device and in the given collections only."""
    joined = list(collections if collections is not None else [tf.GraphKeys.GLOBAL_VARIABLES])
    policies = {
        key: value
        for key, value in (("synchronization", synchronization), ("aggregation", aggregation))
        if value is not None
    }
    getter = tf.get_variable if custom_getter is None else (lambda *a, **k: custom_getter(tf.get_variable, *a, **k))
    with tf.device(device or ""):
        return getter(
            name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
            collections=list(dict.fromkeys(joined)), caching_device=caching_device, partitioner=partitioner, **policies,
        )  # fmt: skip


@export("contrib.framework.model_variable", "contrib.slim.model_variable")
@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """The same, also in GraphKeys.MODEL_VARIABLES: part of a model, and not of its training."""
    joined = [*(collections or []), tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    return variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
        collections=joined, caching_device=caching_device, device=device, partitioner=partitioner,
        custom_getter=custom_getter, use_resource=use_resource, synchronization=synchronization,
        aggregation=aggregation,
    )  # fmt: skip


@export("contrib.framework.local_variable", "contrib.slim.local_variable")
def local_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None, **kwargs: Any) -> Any:
    """A variable of this process only, in GraphKeys.LOCAL_VARIABLES."""
    return tf.Variable(
        initial_value, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], validate_shape=validate_shape,
        name=name,
    )  # fmt: skip


@export("contrib.framework.global_variable", "contrib.slim.global_variable")
def global_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None, **kwargs: Any) -> Any:
    """A variable in GraphKeys.GLOBAL_VARIABLES that is not trained."""
    return tf.Variable(
        initial_value, trainable=False, collections=[tf.GraphKeys.GLOBAL_VARIABLES], validate_shape=validate_shape,
        name=name,
    )  # fmt: skip


@export("contrib.framework.zero_initializer")
def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """An operation that sets a variable to zeros."""
    return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), name=name)


@export("contrib.framework.add_model_variable", "contrib.slim.add_model_variable")
def add_model_variable(var: Any) -> None:
    """Adds a variable to GraphKeys.MODEL_VARIABLES, unless it is in it."""
    if not any(var is each for each in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, var)


@export("contrib.framework.get_variables", "contrib.slim.get_variables")
def get_variables(scope: Any = None, suffix: str | None = None, collection: str = "variables") -> list[Any]:
    """The variables below a scope, whose name ends in a suffix.

    Args:
        scope: A variable scope, or a beginning of names (a regular expression).
        suffix: The end of the names.
        collection: The collection to search.
    """
    prefix = scope.name if hasattr(scope, "original_name_scope") else scope
    if suffix is not None:
        pattern = (prefix or "") + ".*" + suffix + "(:0)?$" if ":" not in suffix else (prefix or "") + ".*" + suffix
        return list(tf.get_collection(collection, pattern))
    return list(tf.get_collection(collection, prefix))


@export("contrib.framework.get_model_variables", "contrib.slim.get_model_variables")
def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The variables of the model below a scope."""
    return get_variables(scope, suffix, tf.GraphKeys.MODEL_VARIABLES)


@export("contrib.framework.get_local_variables", "contrib.slim.get_local_variables")
def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The local variables below a scope."""
    return get_variables(scope, suffix, tf.GraphKeys.LOCAL_VARIABLES)


@export("contrib.framework.get_trainable_variables", "contrib.slim.get_trainable_variables")
def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The variables below a scope that optimizers change."""
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


@export("contrib.framework.get_variables_to_restore", "contrib.slim.get_variables_to_restore")
def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """The global variables below some scopes and not below others.

    Raises:
        TypeError: If a list of scopes is no list.
    """
    for name, value in (("include", include), ("exclude", exclude)):
        if value is not None and not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} is provided but is not a list or a tuple.")
    kept = get_variables() if include is None else [var for scope in include for var in get_variables(scope)]
    dropped = {id(var) for scope in exclude or () for var in get_variables(scope)}
    return [var for var in kept if id(var) not in dropped]


@export("contrib.framework.get_variables_by_suffix", "contrib.slim.get_variables_by_suffix")
def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """The variables whose name ends in a suffix."""
    return get_variables(scope=scope, suffix=suffix)


@export("contrib.framework.get_variables_by_name", "contrib.slim.get_variables_by_name")
def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """The variables whose name, or the end of it after a slash, is the given one."""
    suffix = "/" + given_name + ":|^" + given_name + ":"
    return [var for var in get_variables(scope=scope) if re.search(suffix, var.name)]


@export("contrib.framework.get_unique_variable", "contrib.slim.get_unique_variable")
def get_unique_variable(var_op_name: str) -> Any:
    """The variable of that name.

    Raises:
        ValueError: If there is none, or more than one.
    """
    found = [var for var in get_variables() if var.op.name.startswith(var_op_name)]
    exact = [var for var in found if var.op.name == var_op_name]
    if len(found) == 1:
        return found[0]
    if exact:
        return exact[0]
    if not found:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


@export("contrib.framework.get_variable_full_name", "contrib.slim.get_variable_full_name")
def get_variable_full_name(var: Any) -> str:
    """The name of a variable in checkpoints: for a part of a partitioned one, that of the whole."""
    info = getattr(var, "_save_slice_info", None)
    return str(info.full_name if info else var.op.name)


@export("contrib.framework.filter_variables", "contrib.slim.filter_variables")
def filter_variables(
    var_list: Any, include_patterns: Any = None, exclude_patterns: Any = None, reg_search: bool = True
) -> list[Any]:
    """The variables whose operation's name matches one of some patterns and none of others."""
    matches = re.search if reg_search else re.match
    kept = [
        var for var in var_list
        if include_patterns is None or any(matches(pattern, var.op.name) for pattern in include_patterns)
    ]  # fmt: skip
    if exclude_patterns is None:
        return kept
    return [var for var in kept if not any(matches(pattern, var.op.name) for pattern in exclude_patterns)]


@export("contrib.framework.variable_device", "contrib.slim.variable_device")
def variable_device(device: Any, name: str) -> Any:
    """The device of a variable: `device`, or what it says of a node of that name."""
    if not callable(device):
        return device
    node = tf.NodeDef(name=name, op="VarHandleOp")
    return device(node)


@export("contrib.framework.VariableDeviceChooser", "contrib.slim.VariableDeviceChooser")
class VariableDeviceChooser:
    """A device function that gives variables to parameter servers in turn."""

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: Any = None,
    ) -> None:
        """Takes the number of parameter servers (0: none), their job, and the device in each."""
        self._job_name = job_name
        self._device_type = device_type
        self._device_index = device_index
        self._replica = replica
        self._num_tasks = num_tasks
        self._next = 0

    def __call__(self, op: Any) -> str:
        """The device of a node."""
        spec = tf.DeviceSpec(replica=self._replica, device_type=self._device_type, device_index=self._device_index)
        if self._num_tasks > 0:
            spec = spec.replace(job=self._job_name, task=self._next)
            self._next = (self._next + 1) % self._num_tasks
        return str(spec.to_string())


@export("contrib.framework.assert_global_step")
def assert_global_step(global_step_tensor: Any) -> None:
    """Checks that a global step is an integer scalar."""
    tf.train.assert_global_step(global_step_tensor)


for _name in ("get_global_step", "create_global_step", "get_or_create_global_step"):
    export_value(getattr(tf.train, _name), f"contrib.slim.{_name}")
