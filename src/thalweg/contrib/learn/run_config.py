"""RunConfig of tf.contrib.learn: a RunConfig whose cluster needs no chief: the first worker is it, or the master."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.estimator.run_config import TaskType, read_tf_config
from thalweg.graph.definitions.op_registry import export, export_value

_LOCAL = "local"


class Environment:
    """Where a program runs, as TF_CONFIG says: on one's own machines, or at Google, where the master is the chief."""

    LOCAL = _LOCAL
    CLOUD = "cloud"
    GOOGLE = "google"


@export("contrib.learn.RunConfig")
class RunConfig(tf.estimator.RunConfig):
    """The settings of a run.

    Args:
        master: The address of the master; by default that of the own task in TF_CONFIG.
        num_cores: The number of threads; 0 for one for each core.
        log_device_placement: Whether to log where operations are.
        gpu_memory_fraction: Of the memory of accelerators, how much to take.
        tf_random_seed: The seed of the graphs.
        save_summary_steps: Steps between summaries.
        save_checkpoints_secs: Seconds between checkpoints.
        save_checkpoints_steps: Steps between checkpoints, instead of seconds.
        keep_checkpoint_max: How many recent checkpoints to keep.
        keep_checkpoint_every_n_hours: Keeps one checkpoint for each such period beside these.
        log_step_count_steps: Steps between measurements of the speed.
        protocol: The protocol of servers.
        evaluation_master: The address of the master of evaluations.
        model_dir: The folder for checkpoints and summaries.
        session_config: A ConfigProto.
        session_creation_timeout_secs: How long a worker waits for the chief.
    """

    def __init__(
        self, master: Any = None, num_cores: int = 0, log_device_placement: bool = False,
        gpu_memory_fraction: float = 1, tf_random_seed: Any = None, save_summary_steps: int = 100,
        save_checkpoints_secs: Any = 600, save_checkpoints_steps: Any = None, keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int | None = 100,
        protocol: str | None = None, evaluation_master: str = "", model_dir: Any = None, session_config: Any = None,
        session_creation_timeout_secs: int = 7200,
    ) -> None:  # fmt: skip
        """Checks the settings and reads TF_CONFIG.

        Raises:
            ValueError: If a setting makes no sense, or TF_CONFIG names a task that its cluster does not have.
        """
        self._given_master, self._given_evaluation_master = master, evaluation_master
        self.tf_config = tf.ConfigProto(
            log_device_placement=log_device_placement, intra_op_parallelism_threads=num_cores,
            inter_op_parallelism_threads=num_cores, allow_soft_placement=True,
            gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
        )  # fmt: skip
        when = {"save_checkpoints_steps": save_checkpoints_steps}
        if save_checkpoints_steps is None:
            when = {"save_checkpoints_secs": save_checkpoints_secs}
        super().__init__(
            model_dir=model_dir, tf_random_seed=tf_random_seed, save_summary_steps=save_summary_steps,
            session_config=session_config if session_config is not None else self.tf_config,
            keep_checkpoint_max=keep_checkpoint_max, keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps, protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs, **when,
        )  # fmt: skip

    def _read_cluster(self, described: dict[str, Any]) -> None:
        cluster = described.get("cluster") or {}
        task = described.get("task") or {}
        self.cluster_spec = tf.train.ClusterSpec(cluster)
        self.service = described.get("service")
        self.environment: str = described.get("environment", _LOCAL)
        self.task_type: Any = task.get("type")
        self.task_id = int(task.get("index") or 0)
        self.num_ps_replicas = len(cluster.get(TaskType.PS, ()))
        self.num_worker_replicas = len(cluster.get(TaskType.WORKER, ())) + len(cluster.get(TaskType.MASTER, ()))
        own = self._own_address(cluster)
        self.master = self._given_master if self._given_master is not None else own
        self.evaluation_master = self._given_evaluation_master
        first = self.task_type in (None, TaskType.WORKER) and self.task_id == 0
        cloud = self.environment != _LOCAL and bool(cluster)
        self.is_chief = self.task_type == TaskType.MASTER and self.task_id == 0 if cloud else first
        self.global_id_in_cluster = self.task_id

    def _own_address(self, cluster: dict[str, Any]) -> str:
        if not cluster or self.task_type is None:
            return ""
        if self.task_type not in cluster:
            raise ValueError(f"{self.task_type} is not a valid task_type in the cluster_spec:\n{self.cluster_spec}")
        addresses = self.cluster_spec.job_tasks(self.task_type)
        if not 0 <= self.task_id < len(addresses):
            raise ValueError(
                f"{self.task_id} is not a valid task_id for task_type {self.task_type} in the cluster_spec:\n"
                f"{self.cluster_spec}"
            )
        return f"grpc://{addresses[self.task_id]}"

    @staticmethod
    def get_task_id() -> int:
        """The number of the own task in TF_CONFIG; 0 if there is none."""
        return int((read_tf_config().get("task") or {}).get("index") or 0)


for _name, _class in (("Environment", Environment), ("TaskType", TaskType), ("RunConfig", RunConfig)):
    export_value(_class, f"contrib.learn.estimators.run_config.{_name}")
