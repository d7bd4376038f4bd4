"""Device names, full or partial: parsed, merged, and written in canonical form (`/job:w/task:1/device:CPU:0`)."""

from __future__ import annotations

import functools
from typing import Any

from thalweg.graph.definitions.op_registry import export

FIELDS = ("job", "replica", "task", "device_type", "device_index")


@export("DeviceSpec")
class DeviceSpec:
    """A device, or a constraint on one: fields that are None are left open.

    Example:
        >>> tf.DeviceSpec(job="worker", device_type="CPU", device_index=0).to_string()
        '/job:worker/device:CPU:0'
    """

    __slots__ = ("_device_type", "device_index", "job", "replica", "task")

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        """Takes the fields; types of devices known here are written in capitals."""
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        self.device_type = device_type
        self.device_index = None if device_index is None else int(device_index)

    @property
    def device_type(self) -> str | None:
        """The type of the device: in capitals where it is known, as it was given otherwise."""
        return self._device_type

    @device_type.setter
    def device_type(self, device_type: str | None) -> None:
        text = None if device_type is None else str(device_type)
        self._device_type = text.upper() if text and _is_device_type(text.upper()) else text

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parses a device name.

        Raises:
            ValueError: If a part of it is not understood.
        """
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Replaces all fields by those of the name `spec`, and returns self."""
        self.job = self.device_type = None
        self.replica = self.task = self.device_index = None
        for part in spec.split("/"):
            if part:
                self._parse_part(part.split(":"), spec)
        return self

    def _parse_part(self, fields: list[str], spec: str) -> None:
        key, values = fields[0], fields[1:]
        try:
            if key == "job" and len(values) == 1:
                self.job = values[0]
            elif key in ("replica", "task") and len(values) == 1:
                setattr(self, key, int(values[0]))
            elif key == "device" and 1 <= len(values) <= 2 and values[0]:
                self._set_type(values[0], values[1:])
            elif len(values) <= 1 and _is_device_type(key.upper()):
                self._set_type(key, values)
            else:
                raise ValueError("no such field")
        except ValueError:
            raise ValueError(
                f"Unknown attribute '{':'.join(fields)}' is encountered while parsing the device spec "
                f"'{spec}'. Expected a "
                "name such as '/job:worker/task:0/device:CPU:0', or a part of one."
            ) from None

    def _set_type(self, device_type: str, index: list[str]) -> None:
        if self.device_type is not None:
            raise ValueError("more than one device type")
        self.device_type = device_type
        self.device_index = None if not index or index[0] == "*" else int(index[0])

    def merge_from(self, other: DeviceSpec) -> None:
        """Takes over every field that `other` sets."""
        for field in FIELDS:
            value = getattr(other, field)
            if value is not None:
                setattr(self, field, value)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """A new spec: this one, with every field that `dev` sets."""
        spec = self.replace()
        spec.merge_from(dev)
        return spec

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """A new spec: this one, with other values for some fields."""
        return type(self)(**{**{field: getattr(self, field) for field in FIELDS}, **kwargs})

    def to_string(self) -> str:
        """The canonical name."""
        text = ""
        if self.job is not None:
            text += f"/job:{self.job}"
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None:
            text += f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return f"DeviceSpec('{self.to_string()}')"


@functools.lru_cache(maxsize=1024)
def _canonical_name(name: str) -> str:
    return DeviceSpec.from_string(name).to_string()


def canonical(device: Any) -> str:
    """The canonical name of a device given by name, as a DeviceSpec, or as None."""
    if device is None or device == "":
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    if isinstance(device, bytes):
        device = device.decode()
    if not isinstance(device, str):
        raise TypeError(f"A device is given by a string, a DeviceSpec, a function or None, not {device!r}.")
    return _canonical_name(device)


def _is_device_type(name: str) -> bool:
    """Whether a name without "device:" before it is understood as a type of device."""
    return name in _device_types


_device_types = {"CPU", "GPU", "TPU", "NULL"}


def add_device_type(name: str) -> None:
    """Makes `/NAME:0` mean a device of that type, as `/cpu:0` does: plug-ins bring types of their own."""
    _device_types.add(name)
    _canonical_name.cache_clear()


@functools.lru_cache(maxsize=4096)
def matches(device: str, constraint: str) -> bool:
    """Whether a full device name has all that a partial one asks for."""
    full, wanted = DeviceSpec.from_string(device), DeviceSpec.from_string(constraint)
    return all(getattr(wanted, f) in (None, "*", getattr(full, f)) for f in FIELDS)


@functools.lru_cache(maxsize=1024)
def merged(outer: str, inner: str) -> str:
    """Combines two canonical names: where both set a field, the inner one wins."""
    if not outer or not inner:
        return inner or outer
    spec = DeviceSpec.from_string(outer)
    spec.merge_from(DeviceSpec.from_string(inner))
    return spec.to_string()


def device_type(name: str) -> str:
    """The type in the full name of a device; that of the host for an empty name."""
    return name.rpartition("/device:")[2].partition(":")[0] if name else "CPU"


def task_of(name: str) -> str:
    """The task that a device with a full name belongs to."""
    return name.rpartition("/device:")[0]
