"""What the networks share: the layers of slim, and the end of a classifier."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.layers.collections_of_outputs import convert_collection_to_dict
from thalweg.contrib.public_names import tf


class _Slim:
    """The names of `tf.contrib.layers` and `tf.contrib.framework` that the networks are written in."""

    def __getattr__(self, name: str) -> Any:
        for space in (tf.contrib.layers, tf.contrib.framework):
            value = getattr(space, name, None)
            if value is not None:
                return value
        raise AttributeError(name)


slim: Any = _Slim()


def end_points_of(collection: str) -> dict[str, Any]:
    """The outputs of layers in a collection, by name."""
    return convert_collection_to_dict(collection)


def squeezed(net: Any, end_points: dict[str, Any], name: str, spatial_squeeze: bool) -> tuple[Any, dict[str, Any]]:
    """The logits without their spatial axes, if asked for, and the end points with them."""
    if spatial_squeeze:
        net = tf.squeeze(net, [1, 2], name=name.rpartition("/")[2] + "/squeezed")
        end_points[name] = net
    return net, end_points


def reduced_kernel(net: Any, size: list[int]) -> list[int]:
    """A kernel no larger than the image, where that is known."""
    height, width = net.shape.as_list()[1:3]
    return size if height is None or width is None else [min(height, size[0]), min(width, size[1])]
