"""tf.config of TensorFlow 2: which devices there are, and how functions run."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.functions import traced_function
from thalweg.version_two.public_names import OTHERWISE, otherwise, tf


class PhysicalDevice(NamedTuple):
    """A device of this machine."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that ops are placed on."""

    name: str
    device_type: str


OTHERWISE["config.PhysicalDevice"] = PhysicalDevice
OTHERWISE["config.LogicalDevice"] = LogicalDevice


def _devices(device_type: str | None) -> list[tuple[str, str]]:
    found = [(device.name, device.device_type) for device in tf.python.client.device_lib.list_local_devices()]
    return [(name, kind) for name, kind in found if device_type in (None, kind)]


@otherwise("config.list_physical_devices", "config.experimental.list_physical_devices", "config.get_visible_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine, of a type."""
    return [PhysicalDevice(name.replace("/device:", "/physical_device:"), kind) for name, kind in _devices(device_type)]


@otherwise("config.list_logical_devices", "config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that ops are placed on, of a type."""
    return [LogicalDevice(name, kind) for name, kind in _devices(device_type)]


@otherwise("config.run_functions_eagerly", "config.experimental_run_functions_eagerly")
def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether calls of a `tf.function` call the Python function instead, for looking at what it does."""
    traced_function.calls_run_at_once = bool(run_eagerly)


@otherwise("config.functions_run_eagerly", "config.experimental_functions_run_eagerly")
def functions_run_eagerly() -> bool:
    """What `run_functions_eagerly` has set."""
    return traced_function.calls_run_at_once


@otherwise("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Whether an op without a kernel on its device runs on another: always."""
    return True


def _accepted(*args: Any, **kwargs: Any) -> None:
    """Accepts a setting that changes nothing here: results are the same with any value."""


for _name in (
    "set_soft_device_placement", "set_visible_devices", "experimental.set_memory_growth", "optimizer.set_jit",
    "optimizer.set_experimental_options", "threading.set_inter_op_parallelism_threads",
    "threading.set_intra_op_parallelism_threads", "experimental.enable_op_determinism",
    "experimental.enable_tensor_float_32_execution", "set_logical_device_configuration",
    "experimental.set_virtual_device_configuration", "experimental.set_synchronous_execution",
):  # fmt: skip
    OTHERWISE[f"config.{_name}"] = _accepted
