"""The devices of this process, without a session of the caller (`tf.python.client.device_lib`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.graph.graph import Graph
from thalweg.runtime.session import Session


class LocalDevice(NamedTuple):
    """A device of this process, with the fields of TensorFlow's DeviceAttributes."""

    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[LocalDevice]:
    """The devices that a session with this ConfigProto has here.

    Example:
        >>> from thalweg.python.client import device_lib
        >>> [device.name for device in device_lib.list_local_devices()]
        ['/device:CPU:0']
    """
    with Session(graph=Graph(), config=session_config) as session:
        return [
            LocalDevice("/device:" + name.rpartition("/device:")[2], kind, limit, incarnation)
            for name, kind, limit, incarnation in session.list_devices()
        ]
