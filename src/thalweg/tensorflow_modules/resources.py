"""`tensorflow.python.ops.resources`: lists of resources that are initialized together."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.contrib.public_names import tf


class _Resource(NamedTuple):
    handle: Any
    create: Any
    is_initialized: Any


def register_resource(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Adds a resource to those of all tasks, or to those of this process."""
    key = tf.GraphKeys.RESOURCES if is_shared else tf.GraphKeys.LOCAL_RESOURCES
    tf.add_to_collection(key, _Resource(handle, create_op, is_initialized_op))


def shared_resources() -> list[Any]:
    """The resources of all tasks."""
    return list(tf.get_collection(tf.GraphKeys.RESOURCES))


def local_resources() -> list[Any]:
    """The resources of this process."""
    return list(tf.get_collection(tf.GraphKeys.LOCAL_RESOURCES))


def initialize_resources(resource_list: Any, name: str = "init") -> Any:
    """An operation that creates all of the resources."""
    return tf.group(*[resource.create for resource in resource_list], name=name)


def report_uninitialized_resources(resource_list: Any = None, name: str = "report_uninitialized_resources") -> Any:
    """A vector with the names of the resources that are not initialized yet."""
    found = [*shared_resources(), *local_resources()] if resource_list is None else list(resource_list)
    with tf.name_scope(name):
        if not found:
            return tf.constant([], tf.string)
        missing = tf.logical_not(tf.stack([resource.is_initialized for resource in found]))
        return tf.boolean_mask(tf.constant([resource.handle.name for resource in found]), missing)
