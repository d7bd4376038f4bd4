"""Devices that come as plug-ins: shared libraries behind include/thalweg/device_plugin.h."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.device_spec import add_device_type

# Ops that only forward tensors: every device has them.
FORWARDING = frozenset({"Const", "Identity", "NoOp"})


class PluginKernel(NamedTuple):
    """A kernel of a plug-in.

    Attributes:
        op: The op type.
        types: For each type attribute of the op that it cares for, the DataType numbers that it takes.
        host_inputs: Bit i is set if input i must be in the host's memory.
    """

    op: str
    types: dict[str, frozenset[int]]
    host_inputs: int


class PluginDevices(NamedTuple):
    """A type of device that a plug-in has brought."""

    type: str
    num_devices: int
    kernels: dict[str, list[PluginKernel]]

    def kernel(self, op: str, attrs: dict[str, Any]) -> PluginKernel | None:
        """The kernel for a node, or None."""
        for kernel in self.kernels.get(op, ()):
            found = {attr: getattr(attrs.get(attr), "as_datatype_enum", None) for attr in kernel.types}
            if all(found[attr] in allowed for attr, allowed in kernel.types.items()):
                return kernel
        return None


loaded: dict[str, PluginDevices] = {}


@export("load_device_library")
def load_device_library(path: str | os.PathLike[str]) -> str:
    """Loads a device plug-in. Sessions made from then on have its devices.

    Args:
        path: A shared library that exports `thalweg_device_plugin`; see docs/write_a_device.md.

    Returns:
        The type of its devices: with "TOY", `tf.device("/device:TOY:0")` asks for the first of them.
        `ConfigProto(device_count={"TOY": 1})` makes a session use fewer of them than there are.

    Raises:
        errors.NotFoundError: If there is no such library, or the system cannot load it.
        errors.InvalidArgumentError: If it is no device plug-in, or one for another version of the interface.
        errors.AlreadyExistsError: If another library has brought devices of that type.
    """
    from thalweg._native import core  # Start-up time: most programs load no plug-in.

    device_type, num_devices = core.load_device_plugin(os.path.abspath(os.fspath(path)))
    kernels: dict[str, list[PluginKernel]] = {}
    for op, types, host_inputs in core.plugin_kernels(device_type):
        kernel = PluginKernel(op, {attr: frozenset(dtypes) for attr, dtypes in types}, host_inputs)
        kernels.setdefault(op, []).append(kernel)
    add_device_type(device_type)
    loaded[device_type] = PluginDevices(device_type, num_devices, kernels)
    return str(device_type)


@export("sysconfig.get_include")
def get_include() -> str:
    """The folder of the C headers: the interface of device plug-ins is `thalweg/device_plugin.h` in it."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "include")
