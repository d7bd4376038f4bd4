"""Memory of devices: limits, and the bytes that tensors hold."""

from __future__ import annotations

from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.device_spec import DeviceSpec, matches

# ConfigProto has limits for GPUs only. Ours travel in its list of named parameters, so that they survive serialization.
_NAME = "device_memory_limits"


@export("experimental.set_memory_limit")
def set_memory_limit(config: Any, device: str, limit_bytes: int) -> None:
    """Limits the bytes that the tensors on a device may hold in sessions with this configuration.

    Memory is taken as it is needed; an operation that would go beyond the limit fails with ResourceExhaustedError, and
    its step with it. Devices without a limit share the machine's memory.

    Args:
        config: A ConfigProto.
        device: Such as "/cpu:1"; one without an index is a limit for each device of the type.
        limit_bytes: How many bytes.

    Example:
        >>> config = tf.ConfigProto(device_count={"CPU": 2})
        >>> tf.experimental.set_memory_limit(config, "/cpu:1", 1 << 30)
        >>> with tf.Session(config=config) as sess:
        ...     print(sess.list_devices()[1].memory_limit_bytes)
        1073741824
    """
    spec = DeviceSpec.from_string(device)
    if not spec.device_type:
        raise ValueError(f"A memory limit needs the type of the device, as in '/cpu:0'; got {device!r}.")
    if limit_bytes < 0:
        raise ValueError(f"A memory limit is a number of bytes, got {limit_bytes}.")
    limits = _find(config)
    if limits is None:
        limits = config.graph_options.rewrite_options.custom_optimizers.add(name=_NAME)
    limits.parameter_map[spec.to_string()].i = limit_bytes


def _find(config: Any) -> Any:
    return next((each for each in config.graph_options.rewrite_options.custom_optimizers if each.name == _NAME), None)


def memory_limits(config: Any) -> dict[str, int]:
    """The limits that a ConfigProto sets, by (partial) device name, those for a type of device first."""
    limits = _find(config) if config is not None else None
    if limits is None:
        return {}
    found = {name: int(value.i) for name, value in limits.parameter_map.items()}
    return dict(sorted(found.items(), key=lambda item: DeviceSpec.from_string(item[0]).device_index is not None))


@export("experimental.get_memory_info")
def get_memory_info(session: Any, device: str = "/cpu:0") -> dict[str, int]:
    """The bytes that the tensors on a device of a session hold.

    Returns:
        Bytes: "current", "peak" and "limit", and how many "allocations" there were. While steps run, small tensors are
        counted late (up to 64 KB a thread).

    Raises:
        errors.NotFoundError: If the session has no such device.
    """
    for each in session.list_devices():
        if matches(each.name, device):
            return dict(session._engine.memory_info(each.name))
    raise errors.NotFoundError(None, None, f"This session has no device {device!r}: {session.list_devices()}.")
