"""Machines as placement sees them: devices with a speed and a memory, and the links between them.

A machine is described in a small JSON file:

    {"devices": [{"name": "CPU:0", "count": 2}, {"name": "GPU:0", "speed": 20, "memory": "8G"}],
     "links": [{"from": "CPU", "to": "GPU", "latency": 1e-5, "bandwidth": 1.2e10}]}

`speed` is relative to one core of a CPU; links join types of devices, or single ones, in both directions. Times are
seconds, sizes bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from thalweg.graph.device_spec import DeviceSpec
from thalweg.placement.place import Device

_TASK = "/job:localhost/replica:0/task:0"
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Link(NamedTuple):
    """The cost of moving a tensor between two devices."""

    latency: float
    bandwidth: float = math.inf

    def seconds(self, size: float) -> float:
        """The time to move `size` bytes."""
        return self.latency + size / self.bandwidth


# Within a process, tensors of the host's devices are handed over by reference: the cost is the wake-up of the other
# thread, and its cache misses.
HAND_OVER = Link(5e-6, 1e10)
BUS = Link(2e-5, 1e10)
NETWORK = Link(1e-4, 1e9)


class Processor(NamedTuple):
    """One device.

    Attributes:
        name: Its full name.
        type: Its type; kernels and measured costs belong to types.
        speed: How many times faster than one core of a CPU.
        memory: Bytes that it has, or None if there is no known limit.
    """

    name: str
    type: str
    speed: float = 1.0
    memory: int | None = None

    @property
    def device(self) -> Device:
        """The device as the constraints know it."""
        return Device(self.name, self.type)


class Machine:
    """Devices, best first, and the links between them."""

    def __init__(self, processors: Sequence[Processor], links: Mapping[tuple[str, str], Link] | None = None) -> None:
        """Takes the devices, and links by pairs of names or types; other pairs have default links."""
        if not processors:
            raise ValueError("A machine has at least one device.")
        names = [processor.name for processor in processors]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"The device {twice} is described twice.")
        self.processors = tuple(processors)
        self._links = dict(links or {})

    @classmethod
    def of_cpus(cls, count: int) -> Machine:
        """A number of equal CPU devices in one process."""
        if count < 1:
            raise ValueError(f"A machine has at least one device, not {count}.")
        return cls([Processor(f"{_TASK}/device:CPU:{i}", "CPU") for i in range(count)])

    @classmethod
    def from_devices(cls, devices: Sequence[Device], memory: Mapping[str, int] | None = None) -> Machine:
        """A machine of devices of which only names and types are known, and the limits of some."""
        limits = memory or {}
        return cls([Processor(device.name, device.type, memory=limits.get(device.name)) for device in devices])

    @classmethod
    def load(cls, path: str) -> Machine:
        """Reads a description in JSON.

        Raises:
            ValueError: If the file does not describe a machine; the message says what is wrong with it.
            OSError: If it cannot be read.
        """
        try:
            described = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as e:
            raise ValueError(f"{path} is not JSON: {e}") from None
        try:
            return cls.from_description(described)
        except ValueError as e:
            raise ValueError(f"{path} does not describe a machine: {e}") from None

    @classmethod
    def from_description(cls, described: Any) -> Machine:
        """The machine of a JSON description; see the top of this file."""
        if not isinstance(described, dict) or not isinstance(described.get("devices"), list):
            raise ValueError('expected {"devices": [...], "links": [...]}')
        _refuse_other_keys(described, ("devices", "links"), "the description")
        processors = [each for entry in described["devices"] for each in _processors(entry)]
        links = {}
        for entry in described.get("links", []):
            if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("from", "to")):
                raise ValueError(f"a link names two devices or types, got {entry!r}")
            _refuse_other_keys(entry, ("from", "to", "latency", "bandwidth"), "a link")
            ends = (_link_end(entry["from"]), _link_end(entry["to"]))
            link = Link(_number(entry, "latency", 0.0, 0.0), _number(entry, "bandwidth", math.inf))
            for end in ends:
                if not any(end in (processor.name, processor.type) for processor in processors):
                    raise ValueError(f"a link ends at {end!r}, which is no device of this machine and no type of one")
            links[ends] = link
        return cls(processors, links)

    def link(self, a: Processor, b: Processor) -> Link:
        """The link between two devices; they may be one."""
        for ends in ((a.name, b.name), (a.name, b.type), (a.type, b.name), (a.type, b.type)):
            found = self._links.get(ends) or self._links.get((ends[1], ends[0]))
            if found is not None:
                return found
        if a.name.rpartition("/")[0] != b.name.rpartition("/")[0]:
            return NETWORK
        return HAND_OVER if a.type == b.type == "CPU" else BUS

    def types(self) -> list[str]:
        """The types of the devices, each once."""
        return list(dict.fromkeys(processor.type for processor in self.processors))

    def links(self) -> list[list[Link]]:
        """The links between all pairs of devices, by their positions."""
        return [[self.link(a, b) for b in self.processors] for a in self.processors]


def full_name(name: str) -> str:
    """The full name of a device that a description or a command calls `CPU:0`, `/cpu:0` or by its full name."""
    text = name if name.startswith("/") else f"/device:{name}"
    try:
        spec = DeviceSpec.from_string(text)
    except ValueError:
        spec = DeviceSpec()
    if not spec.device_type or not isinstance(spec.device_index, int):
        raise ValueError(f"{name!r} is not the name of a device, such as 'CPU:0' or '/job:worker/task:1/device:GPU:0'")
    default = DeviceSpec(job=spec.job or "localhost", replica=spec.replica or 0, task=spec.task or 0,
                         device_type=spec.device_type.upper(), device_index=spec.device_index)  # fmt: skip
    return str(default.to_string())


def _processors(entry: Any) -> list[Processor]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ValueError(f"a device has a name, got {entry!r}")
    _refuse_other_keys(entry, ("name", "type", "count", "speed", "memory"), f"device {entry['name']!r}")
    first = full_name(entry["name"])
    spec = DeviceSpec.from_string(first)
    count = entry.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 4096:
        raise ValueError(f"the count of {entry['name']!r} is a number of devices, got {count!r}")
    kind = entry.get("type", spec.device_type)
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"the type of {entry['name']!r} is a word, got {kind!r}")
    speed, memory = _number(entry, "speed", 1.0), _memory(entry)
    prefix, _, number = first.rpartition(":")
    return [Processor(f"{prefix}:{int(number) + i}", kind, speed, memory) for i in range(count)]


def _link_end(name: str) -> str:
    return full_name(name) if ":" in name else name


def _number(entry: Mapping[str, Any], key: str, default: float, least: float = math.ulp(0.0)) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < least:
        raise ValueError(f"{key} is a number {'>= 0' if least == 0 else '> 0'}, got {value!r}")
    return float(value)


def _memory(entry: Mapping[str, Any]) -> int | None:
    value = entry.get("memory")
    if value is None:
        return None
    digits, unit = (value[:-1], value[-1:].upper()) if isinstance(value, str) and value[-1:].isalpha() else (value, "")
    try:
        size = float(digits) * (_UNITS[unit] if unit else 1)
    except (TypeError, ValueError, KeyError):
        size = math.nan
    if isinstance(value, bool) or not 0 < size < 2**60:
        raise ValueError(f"memory is a number of bytes, or one with K, M, G or T behind it, got {value!r}")
    return int(size)


def _refuse_other_keys(entry: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise ValueError(f"{what} has {unknown[0]!r}, but only {', '.join(known)} mean something")
