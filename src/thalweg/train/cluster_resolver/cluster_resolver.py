"""ClusterResolver, the base class, and two that are given the answer: SimpleClusterResolver, UnionResolver."""

from __future__ import annotations

import abc
from collections import Counter
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.graph import Graph
from thalweg.train.cluster_spec import ClusterSpec


def format_master_url(master: str, rpc_layer: str | None = None) -> str:
    """An address as a session's target: `rpc_layer://master`, or `master` alone without a layer."""
    return f"{rpc_layer}://{master}" if rpc_layer else master


@export("distribute.cluster_resolver.ClusterResolver", "contrib.cluster_resolver.ClusterResolver")
class ClusterResolver(metaclass=abc.ABCMeta):
    """The base class of resolvers: from an environment to a ClusterSpec and a target for sessions.

    A subclass defines `cluster_spec` and `master`, and sets the attributes `task_type` (the job of this process),
    `task_id` (its task index), `rpc_layer` (the scheme of targets) and `environment` where they are known.
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str = ""

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """The cluster as it is now; a new call may give another answer."""
        raise NotImplementedError

    @abc.abstractmethod
    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of sessions, as for `tf.Session`.

        Args:
            task_type: A job; that of this process if None.
            task_id: A task index; that of this process if None.
            rpc_layer: The scheme of the target; that of the resolver if None.
        """
        raise NotImplementedError

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many devices other than CPUs a task has, by type.

        Args:
            task_type: A job; all jobs if None.
            task_id: A task index; all tasks if None.
            config_proto: The ConfigProto of the session that asks.
        """
        from thalweg.runtime.session import Session  # Start-up time: loads the native core and the passes.

        with Session(self.master(task_type, task_id), graph=Graph(), config=config_proto) as session:
            specs = [DeviceSpec.from_string(device.name) for device in session.list_devices()]
        asked = (spec for spec in specs if task_type in (None, spec.job) and task_id in (None, spec.task))
        return dict(Counter(spec.device_type or "CPU" for spec in asked if spec.device_type != "CPU"))

    def _task_master(
        self, spec: ClusterSpec, task_type: str | None, task_id: int | None, rpc_layer: str | None
    ) -> str | None:
        """The target of a task, with this process's own values for what is None; None if job or index stay unknown."""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            return None
        layer = self.rpc_layer if rpc_layer is None else rpc_layer
        return format_master_url(spec.task_address(task_type, task_id), layer)


@export("distribute.cluster_resolver.SimpleClusterResolver", "contrib.cluster_resolver.SimpleClusterResolver")
class SimpleClusterResolver(ClusterResolver):
    """A resolver that is given the cluster.

    Example:
        >>> spec = tf.train.ClusterSpec({"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]})
        >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
        >>> resolver.master("worker", 1)
        'grpc://c:2222'
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        """Creates a resolver.

        Args:
            cluster_spec: The cluster.
            master: The target of sessions when `master()` is not told a task.
            task_type: The job of this process.
            task_id: The task index of this process.
            environment: A name for the environment: "" or "google".
            num_accelerators: What `num_accelerators()` gives, in place of a question to the devices.
            rpc_layer: The scheme of targets.

        Raises:
            TypeError: If `cluster_spec` is not a ClusterSpec.
        """
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(f"cluster_spec must be a `tf.train.ClusterSpec`, got {cluster_spec!r}.")
        if not isinstance(master, str):
            raise TypeError(f"master must be a string, got {master!r}.")
        self._cluster_spec = cluster_spec
        self._master = master
        self._num_accelerators = num_accelerators
        self.task_type, self.task_id = task_type, task_id
        self.environment, self.rpc_layer = environment, rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        return self._cluster_spec

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task if both its job and its index are given; else the one given to the constructor."""
        layer = self.rpc_layer if rpc_layer is None else rpc_layer
        if task_type is not None and task_id is not None:
            return format_master_url(self._cluster_spec.task_address(task_type, task_id), layer)
        return format_master_url(self._master, layer) if self._master else ""

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """The number given to the constructor, or what the devices say."""
        if self._num_accelerators is not None:
            return self._num_accelerators
        return super().num_accelerators(task_type, task_id, config_proto)


@export("distribute.cluster_resolver.UnionResolver", "contrib.cluster_resolver.UnionClusterResolver")
class UnionResolver(ClusterResolver):
    """The union of several resolvers' clusters; everything else is the first resolver's answer.

    Example:
        >>> resolvers = [
        ...     tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": addresses}))
        ...     for addresses in (["a:1"], ["b:1"])
        ... ]
        >>> tf.distribute.cluster_resolver.UnionResolver(*resolvers).cluster_spec()
        ClusterSpec({'worker': ['a:1', 'b:1']})
    """

    def __init__(
        self,
        *resolvers: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        """Takes the resolvers.

        Args:
            resolvers: One or more ClusterResolvers.
            task_type: The job of this process, in place of the first resolver's.
            task_id: The task index of this process, likewise.
            rpc_layer: The scheme of targets, likewise.

        Raises:
            ValueError: If there are none.
            TypeError: If one is no ClusterResolver.
        """
        if not resolvers:
            raise ValueError("At least one ClusterResolver must be given.")
        for each in resolvers:
            if not isinstance(each, ClusterResolver):
                raise TypeError(f"All resolvers must be a subclass of `ClusterResolver`, got {each!r}.")
        first = resolvers[0]
        self._resolvers = resolvers
        self.task_type = first.task_type if task_type is None else task_type
        self.task_id = first.task_id if task_id is None else task_id
        self.rpc_layer = first.rpc_layer if rpc_layer is None else rpc_layer
        self.environment = first.environment

    def cluster_spec(self) -> ClusterSpec:
        """The jobs of all resolvers. Lists of one job are joined; dictionaries must not name a task twice.

        Raises:
            KeyError: If two resolvers name the same task of a job.
        """
        specs = [resolver.cluster_spec().as_dict() for resolver in self._resolvers]
        merged: dict[str, dict[int, str]] = {}
        for job in dict.fromkeys(job for spec in specs for job in spec):
            parts = [spec[job] for spec in specs if job in spec]
            if all(isinstance(part, list) for part in parts):
                merged[job] = dict(enumerate(address for part in parts for address in part))
                continue
            tasks = merged.setdefault(job, {})
            for part in parts:
                for index, address in enumerate(part) if isinstance(part, list) else part.items():
                    if index in tasks:
                        raise KeyError(f"Duplicate keys detected when merging two ClusterSpecs: {job}:{index}")
                    tasks[index] = address
        return ClusterSpec(merged)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task in the union if job and index are given; else the first resolver's."""
        if task_type is not None and task_id is not None:
            layer = self.rpc_layer if rpc_layer is None else rpc_layer
            return format_master_url(self.cluster_spec().task_address(task_type, task_id), layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """The first resolver's answer."""
        return self._resolvers[0].num_accelerators(task_type, task_id, config_proto)
