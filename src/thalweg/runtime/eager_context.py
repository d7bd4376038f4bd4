"""EagerContext: the devices on which ops run at once, and the state that is on them."""

from __future__ import annotations

from typing import Any

from thalweg import errors
from thalweg.graph.device_spec import DeviceSpec
from thalweg.placement.placer import has_own_memory
from thalweg.runtime.devices import DeviceAttributes
from thalweg.runtime.engine import LocalEngine


class EagerContext:
    """One in a process. Steps of the general way are planned for the same devices, and so meet the same resources.

    Attributes:
        engine: Plans and installs steps.
        session: The core's session, which owns the devices.
        default_device: The device of ops that ask for none.
        host: The device of ops for which the one that they ask for has no kernel.
    """

    def __init__(self, config: Any = None) -> None:
        """Makes the devices that a ConfigProto asks for: one CPU by default."""
        self.engine = LocalEngine(config)
        self.session = self.engine._native
        self.devices = [device.name for device in self.engine._placer.devices]
        self.default_device = self.devices[0]
        self.host = next((name for name in self.devices if not has_own_memory(name)), self.default_device)
        self._full_names = {"": self.default_device}
        self.remote: Any = None  # The cluster that the program is connected to; see `eager_remote`.

    def connect(self, remote: Any) -> None:
        """Lets ops run on the devices of a cluster, too; None ends that."""
        self.remote = remote
        self._full_names = {"": self.default_device}

    def full_name(self, wanted: str) -> str:
        """The full name of the device that a partial one stands for.

        Raises:
            errors.InvalidArgumentError: If there is none.
        """
        found = self._full_names.get(wanted)
        if found is None:
            spec = DeviceSpec.from_string(wanted)
            for name in self.devices:
                own = DeviceSpec.from_string(name)
                parts = ("job", "replica", "task", "device_type", "device_index")
                if all(getattr(spec, part) in (None, getattr(own, part)) for part in parts):
                    found = name
                    break
            if found is None and self.remote is not None:
                found = self.remote.full_name(spec)
            if found is None:
                known = [*self.devices, *(() if self.remote is None else self.remote.names())]
                raise errors.InvalidArgumentError(
                    None, None, f"There is no device '{wanted}' for an op; there are: {', '.join(known)}."
                )
            self._full_names[wanted] = found
        return found

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices, with their memory."""
        return self.engine.list_devices()
