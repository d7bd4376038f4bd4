"""tf.experimental of TensorFlow 2: DLPack."""

from __future__ import annotations

from typing import Any

from thalweg.version_two.public_names import otherwise, tf


@otherwise("experimental.dlpack.to_dlpack")
def to_dlpack(tensor: Any) -> Any:
    """A capsule that shares the memory of a tensor."""
    return tensor.__dlpack__()


class _Capsule:
    """What `from_dlpack` takes: an object that gives the capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # The memory of the host.


@otherwise("experimental.dlpack.from_dlpack")
def from_dlpack(dlcapsule: Any) -> Any:
    """A tensor that shares the memory of a capsule."""
    return tf.from_dlpack(_Capsule(dlcapsule))
