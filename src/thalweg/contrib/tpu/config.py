"""tpu.RunConfig and TPUConfig: settings of estimators that may run on TPUs."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, cast

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.tpu.InputPipelineConfig")
class InputPipelineConfig:
    """How the input is spread over the hosts of TPUs. Without TPUs it has no effect."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class _Settings(NamedTuple):
    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1


@export("contrib.tpu.TPUConfig")
class TPUConfig(_Settings):
    """Settings for TPUs. Without TPUs they are checked, kept, and have no effect."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUConfig:
        """Takes the settings by position or name.

        Raises:
            ValueError: If a number is not positive.
        """
        config = super().__new__(cls, *args, **kwargs)
        for name in ("iterations_per_loop", "num_shards"):
            value = getattr(config, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}.")
        return config


@export("contrib.tpu.RunConfig")
class RunConfig(tf.estimator.RunConfig):
    """Settings of an estimator, with those for TPUs.

    Args:
        tpu_config: A TPUConfig.
        evaluation_master: The session target for evaluation.
        master: The session target.
        cluster: A cluster resolver: it names the target and the cluster.
        **kwargs: Settings of `tf.estimator.RunConfig`.
    """

    def __init__(
        self, tpu_config: Any = None, evaluation_master: Any = None, master: Any = None, cluster: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """Checks the settings.

        Raises:
            ValueError: If both a target and a cluster resolver are given.
        """
        super().__init__(**kwargs)
        if cluster is not None and master is not None:
            raise ValueError("You cannot specify both cluster and master.")
        self.tpu_config = tpu_config or TPUConfig()
        self.cluster = cluster
        if cluster is not None:
            described = cluster.cluster_spec()
            if described:
                self.cluster_spec = described
            master = cluster.master()
        if master is not None:
            self.master = master
        self.evaluation_master = evaluation_master if evaluation_master is not None else self.master

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with some settings changed."""
        if "tpu_config" not in kwargs:
            return cast(RunConfig, super().replace(**kwargs))
        changed = copy.copy(self)
        changed.tpu_config = kwargs.pop("tpu_config")
        return changed.replace(**kwargs)
