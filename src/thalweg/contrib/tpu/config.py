"""tf.contrib.tpu.RunConfig and TPUConfig: the settings of a TPUEstimator."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.contrib.public_names import tf
from thalweg.estimator.run_config import RunConfig as EstimatorRunConfig
from thalweg.graph.definitions.op_registry import export


@export("contrib.tpu.InputPipelineConfig")
class InputPipelineConfig:
    """How input is divided among the hosts of a TPU: kept for programs that name it, without effect here."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class _TPUConfig(NamedTuple):
    iterations_per_loop: Any
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: Any
    tpu_job_name: str | None
    initial_infeed_sleep_secs: float | None
    input_partition_dims: Any
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int


@export("contrib.tpu.TPUConfig")
class TPUConfig(_TPUConfig):
    """The settings of a TPU system. All are kept, and none has an effect on other devices.

    Example:
        >>> tf.contrib.tpu.TPUConfig(iterations_per_loop=100).iterations_per_loop
        100
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: Any = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: Any = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: float | None = None,
        input_partition_dims: Any = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
    ) -> TPUConfig:
        """Checks the settings.

        Raises:
            ValueError: If a number is not positive.
        """
        for name, value in (("iterations_per_loop", iterations_per_loop), ("num_shards", num_shards)):
            if isinstance(value, int) and value <= 0:
                raise ValueError(f"TPUConfig.{name} must be positive, got {value}.")
        return super().__new__(
            cls, iterations_per_loop, num_shards, num_cores_per_replica, per_host_input_for_training, tpu_job_name,
            initial_infeed_sleep_secs, input_partition_dims, eval_training_input_configuration,
            experimental_host_call_every_n_steps,
        )  # fmt: skip


@export("contrib.tpu.RunConfig")
class RunConfig(EstimatorRunConfig):
    """The settings of a TPUEstimator: those of `tf.estimator.RunConfig`, and a TPUConfig.

    Example:
        >>> config = tf.contrib.tpu.RunConfig(save_checkpoints_steps=50)
        >>> config.replace(tpu_config=tf.contrib.tpu.TPUConfig(8)).tpu_config.iterations_per_loop
        8
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        """Takes the arguments of `tf.estimator.RunConfig` besides its own.

        Raises:
            ValueError: If both `cluster` and `master` are given, or a setting makes no sense.
        """
        super().__init__(**kwargs)
        if cluster is not None and master is not None:
            raise ValueError("RunConfig takes a cluster resolver or a master, not both.")
        self.tpu_config = tpu_config or TPUConfig()
        if cluster is not None:
            self.cluster_spec = cluster.cluster_spec() or tf.train.ClusterSpec({})
            master = cluster.master()
        if master is not None:
            self.master = self.evaluation_master = master
        if evaluation_master is not None:
            self.evaluation_master = evaluation_master

    def replace(self, **kwargs: Any) -> EstimatorRunConfig:
        """A copy with some settings changed; see `tf.estimator.RunConfig.replace`."""
        tpu_config = kwargs.pop("tpu_config", self.tpu_config)
        changed = super().replace(**kwargs)
        assert isinstance(changed, RunConfig)
        changed.tpu_config = tpu_config
        return changed
