"""`tensorflow.python.framework.device`: device names as text."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def canonical_name(device: Any) -> str:
    """A device name in its full spelling."""
    if device is None:
        return ""
    return str(device.to_string() if hasattr(device, "to_string") else tf.DeviceSpec.from_string(device).to_string())


def merge_device(spec: Any) -> Any:
    """A device function: the node's device, completed by `spec`."""
    wanted = tf.DeviceSpec.from_string(spec or "") if not hasattr(spec, "to_string") else spec

    def device_function(node_def: Any) -> Any:
        current = tf.DeviceSpec.from_string(node_def.device or "")
        return wanted.make_merged_spec(current).to_string()

    return device_function


DeviceSpecV1 = DeviceSpecV2 = tf.DeviceSpec
