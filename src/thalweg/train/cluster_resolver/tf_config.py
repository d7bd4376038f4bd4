"""TFConfigClusterResolver: the cluster from the environment variable TF_CONFIG, a JSON object."""

from __future__ import annotations

import json
import os
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.train.cluster_resolver.cluster_resolver import ClusterResolver
from thalweg.train.cluster_spec import ClusterSpec


@export("distribute.cluster_resolver.TFConfigClusterResolver", "contrib.cluster_resolver.TFConfigClusterResolver")
class TFConfigClusterResolver(ClusterResolver):
    """Reads TF_CONFIG: `{"cluster": {job: [address, …]}, "task": {"type": job, "index": number}}`.

    Also read are "rpc_layer", "environment" and "session_master", a target that sessions use in place of all others.
    The variable is read again at each call. Everything wrong in it is a ValueError that says what.

    Example:
        >>> os.environ["TF_CONFIG"] = '''{
        ...     "cluster": {"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]},
        ...     "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"
        ... }'''
        >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        >>> resolver.task_type, resolver.task_id, resolver.master()
        ('worker', 1, 'grpc://c:2222')
        >>> del os.environ["TF_CONFIG"]
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        """Creates a resolver; each argument replaces what TF_CONFIG says."""
        self._task_type, self._task_id = task_type, task_id
        self._rpc_layer, self._environment = rpc_layer, environment

    @property
    def task_type(self) -> str | None:
        """The job of this process, or None."""
        return _string(_section(read_tf_config(), "task"), "type") if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, value: str | None) -> None:
        self._task_type = value

    @property
    def task_id(self) -> int | None:
        """The task index of this process, or None."""
        if self._task_id is not None:
            return int(self._task_id)
        index = _section(read_tf_config(), "task").get("index")
        if index is None:
            return None
        try:
            number = int(index)
        except (TypeError, ValueError):
            number = -1
        if number < 0 or isinstance(index, (bool, float)):
            raise ValueError(f'TF_CONFIG: "index" of "task" must be a number from 0, got {index!r}.')
        return number

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._task_id = value

    @property
    def rpc_layer(self) -> str | None:
        """The scheme of targets, or None."""
        return _string(read_tf_config(), "rpc_layer") if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, value: str | None) -> None:
        self._rpc_layer = value

    @property
    def environment(self) -> str:  # type: ignore[override]
        """The name of the environment; "" if there is none."""
        return (_string(read_tf_config(), "environment") or "") if self._environment is None else self._environment

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; empty if TF_CONFIG is not set or names none.

        Raises:
            ValueError: If TF_CONFIG is not as the class describes it.
        """
        try:
            return ClusterSpec(_section(read_tf_config(), "cluster"))
        except TypeError as e:
            raise ValueError(f'TF_CONFIG: "cluster" is not a cluster: {e}') from None

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task; "" (this process) in a cluster of at most one task.

        Raises:
            ValueError: If there is no such task, or neither the arguments nor TF_CONFIG name one.
        """
        session_master = _string(read_tf_config(), "session_master")
        if session_master is not None:
            return session_master
        spec = self.cluster_spec()
        if sum(spec.num_tasks(job) for job in spec.jobs) <= 1:
            return ""
        target = self._task_master(spec, task_type, task_id, rpc_layer)
        if target is None:
            raise ValueError('TF_CONFIG has a "cluster", but its "task" does not say which task of it this process is.')
        return target


def read_tf_config() -> dict[str, Any]:
    """The object in TF_CONFIG; an empty one if the variable is not set.

    Raises:
        ValueError: If it is not a JSON object.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text.strip():
        return {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"TF_CONFIG is not JSON: {e}") from None
    if not isinstance(config, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, got {type(config).__name__}.")
    return config


def _section(config: dict[str, Any], key: str) -> dict[str, Any]:
    section = config.get(key)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ValueError(f'TF_CONFIG: "{key}" must be an object, got {section!r}.')
    return section


def _string(config: dict[str, Any], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f'TF_CONFIG: "{key}" must be a string, got {value!r}.')
    return value
