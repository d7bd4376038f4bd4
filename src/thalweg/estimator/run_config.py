"""RunConfig: where a model is kept, how often it is saved, and which task of which cluster this process is."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Final

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export

_USE_DEFAULT: Final = object()
_SESSION_DEFAULTS: Final = "allow_soft_placement"


class TaskType:
    """The jobs of a cluster."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"


def default_session_config() -> Any:
    """The session settings of estimators that were given none: soft placement."""
    return tf.ConfigProto(allow_soft_placement=True)


@export("estimator.RunConfig")
class RunConfig:
    """The settings of an Estimator.

    The environment variable TF_CONFIG says which task of which cluster this is; see `tf.estimator.train_and_evaluate`.
    If `thalweg.horovod` has taken that cluster for all-reduce (and it has no parameter servers), this process trains by
    itself, as under Horovod.

    Args:
        model_dir: The folder for checkpoints and summaries.
        tf_random_seed: The seed of the graphs.
        save_summary_steps: Steps between summaries.
        save_checkpoints_steps: Steps between checkpoints; only one of this and the next.
        save_checkpoints_secs: Seconds between checkpoints: 600 by default.
        session_config: A ConfigProto.
        keep_checkpoint_max: How many recent checkpoints to keep.
        keep_checkpoint_every_n_hours: Keeps one checkpoint for each such period beside these.
        log_step_count_steps: Steps between measurements of the speed and log lines of the loss.
        train_distribute: Not supported: use a cluster of parameter servers or all-reduce.
        device_fn: A device function; by default `tf.train.replica_device_setter` in a cluster with parameter servers.
        protocol: The protocol of the server that `train_and_evaluate` starts.
        eval_distribute: Not supported.
        experimental_distribute: Not supported.
        experimental_max_worker_delay_secs: At most so long do workers wait for their turn to begin: 60 by default.
        session_creation_timeout_secs: How long a worker waits for the chief.

    Example:
        >>> config = tf.estimator.RunConfig(save_checkpoints_steps=50)
        >>> config.replace(keep_checkpoint_max=2).keep_checkpoint_max
        2
        >>> config.is_chief, config.task_type, config.master
        (True, 'worker', '')
    """

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = _USE_DEFAULT,
        save_checkpoints_secs: Any = _USE_DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
    ) -> None:
        """Checks the settings and reads TF_CONFIG.

        Raises:
            ValueError: If a setting makes no sense, or TF_CONFIG is wrong.
        """
        if save_checkpoints_steps is _USE_DEFAULT and save_checkpoints_secs is _USE_DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _USE_DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _USE_DEFAULT:
            save_checkpoints_steps = None
        if any(given is not None for given in (train_distribute, eval_distribute, experimental_distribute)):
            raise ValueError(
                "Distribution strategies are not supported: describe the cluster in TF_CONFIG, with parameter servers "
                "and workers, or wrap the optimizer for all-reduce."
            )
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = save_checkpoints_steps
        self.save_checkpoints_secs = save_checkpoints_secs
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.device_fn = device_fn
        self.protocol = protocol
        self.experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.train_distribute = self.eval_distribute = None
        self._check()
        described = read_tf_config()
        self._read_cluster(described if not _is_of_horovod(described) else {})
        self.model_dir = _model_dir(model_dir, described.get("model_dir"))

    def _check(self) -> None:
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        for name in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} should be >= 0, given: {value}.")
        if self.keep_checkpoint_every_n_hours <= 0:
            raise ValueError(
                f"keep_checkpoint_every_n_hours should be > 0, given: {self.keep_checkpoint_every_n_hours}."
            )
        if self.log_step_count_steps is not None and self.log_step_count_steps <= 0:
            raise ValueError(f"log_step_count_steps should be > 0, given: {self.log_step_count_steps}.")
        if self.session_creation_timeout_secs <= 0:
            raise ValueError(
                f"session_creation_timeout_secs should be > 0, given: {self.session_creation_timeout_secs}."
            )
        if self.session_config is not None and not isinstance(self.session_config, tf.ConfigProto):
            raise ValueError(f"session_config must be instance of ConfigProto, given: {self.session_config!r}.")
        if self.device_fn is not None and not callable(self.device_fn):
            raise ValueError(f"device_fn must be a function, given: {self.device_fn!r}.")
        if self.tf_random_seed is not None and not isinstance(self.tf_random_seed, int):
            raise ValueError(f"tf_random_seed must be an integer, given: {self.tf_random_seed!r}.")

    def _read_cluster(self, described: dict[str, Any]) -> None:
        """Sets what says which task of which cluster this is."""
        cluster = described.get("cluster") or {}
        task = described.get("task") or {}
        self.cluster_spec = tf.train.ClusterSpec(cluster)
        self.service = described.get("service")
        self.task_type: str = task.get("type", TaskType.WORKER)
        self.task_id: int = int(task.get("index", 0))
        self.master = self.evaluation_master = described.get("session_master", "")
        self.num_ps_replicas, self.num_worker_replicas = 0, 1
        self.is_chief, self.global_id_in_cluster = True, 0
        if not cluster:
            is_alone = self.task_type in (TaskType.WORKER, TaskType.MASTER) and self.task_id == 0
            if "type" in task and not is_alone:
                raise ValueError(
                    f"TF_CONFIG names the task {self.task_type}:{self.task_id}, but no cluster: without one the "
                    "task is worker:0."
                )
            return
        if TaskType.CHIEF not in cluster and TaskType.MASTER not in cluster:
            raise ValueError(f"If TF_CONFIG has a cluster, it must have a 'chief' task; got {sorted(cluster)}.")
        if TaskType.CHIEF in cluster and TaskType.MASTER in cluster:
            raise ValueError("TF_CONFIG has both a 'chief' and a 'master'; a cluster has one of them.")
        chief = TaskType.CHIEF if TaskType.CHIEF in cluster else TaskType.MASTER
        if self.cluster_spec.num_tasks(chief) != 1:
            raise ValueError(f"The cluster must have exactly one {chief}, got {cluster[chief]}.")
        if "type" not in task or "index" not in task:
            raise ValueError("If TF_CONFIG has a cluster, its task needs 'type' and 'index'.")
        self._find_task(cluster, chief)

    def _find_task(self, cluster: dict[str, Any], chief: str) -> None:
        spec = self.cluster_spec
        self.num_ps_replicas = spec.num_tasks(TaskType.PS) if TaskType.PS in cluster else 0
        workers = spec.num_tasks(TaskType.WORKER) if TaskType.WORKER in cluster else 0
        self.num_worker_replicas = workers + 1
        if self.task_type == TaskType.EVALUATOR:
            if TaskType.EVALUATOR in cluster:
                raise ValueError("The evaluator is no part of the cluster: leave it out of TF_CONFIG's cluster.")
            self.is_chief, self.global_id_in_cluster = False, None  # type: ignore[assignment]
            self.num_ps_replicas = self.num_worker_replicas = 0
            self.master = ""
            return
        if self.task_type not in cluster:
            raise ValueError(
                f"{self.task_type} is not a valid task_type in the cluster_spec: it has {sorted(cluster)}."
            )
        if not 0 <= self.task_id < spec.num_tasks(self.task_type):
            raise ValueError(
                f"{self.task_id} is not a valid task_id for task_type {self.task_type} in the cluster_spec: "
                f"{cluster[self.task_type]}."
            )
        self.is_chief = self.task_type == chief
        order = [chief, TaskType.WORKER, TaskType.PS]
        order += sorted(job for job in cluster if job not in order)
        before = sum(spec.num_tasks(job) for job in order[: order.index(self.task_type)] if job in cluster)
        self.global_id_in_cluster = before + self.task_id
        if not self.master:
            address = spec.job_tasks(self.task_type)[self.task_id]
            self.master = f"{self.protocol or 'grpc'}://{address}"

    @property
    def cluster_def(self) -> Any:
        """The cluster as a protobuf."""
        return self.cluster_spec.as_cluster_def()

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with some settings changed.

        Raises:
            ValueError: If a setting is not one that can be changed, or makes no sense.
        """
        allowed = (
            "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
            "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps",
            "device_fn", "protocol", "experimental_max_worker_delay_secs", "session_creation_timeout_secs",
        )  # fmt: skip
        for name in kwargs:
            if name not in allowed:
                raise ValueError(f"Replacing {name} is not supported. Allowed are: {', '.join(allowed)}.")
        changed = copy.copy(self)
        if "save_checkpoints_steps" in kwargs and "save_checkpoints_secs" not in kwargs:
            changed.save_checkpoints_secs = None
        if "save_checkpoints_secs" in kwargs and "save_checkpoints_steps" not in kwargs:
            changed.save_checkpoints_steps = None
        for name, value in kwargs.items():
            setattr(changed, name, value)
        changed._check()
        return changed


def read_tf_config() -> dict[str, Any]:
    """What the environment variable TF_CONFIG says; empty if it is not set.

    Raises:
        ValueError: If it is no JSON object.
    """
    try:
        described = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError as e:
        raise ValueError(f"TF_CONFIG is not JSON: {e}") from None
    if not isinstance(described, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, got {described!r}.")
    return described


def _is_of_horovod(described: dict[str, Any]) -> bool:
    """Whether the cluster is one of processes that train by all-reduce, each of which runs its own sessions."""
    cluster = described.get("cluster") or {}
    if not cluster or "ps" in cluster:
        return False
    from thalweg.horovod import is_initialized  # Start-up time: few estimators are trained so.

    return is_initialized()


def _model_dir(given: Any, described: Any) -> str | None:
    if given is not None:
        given = os.fspath(given)
        if not given:
            raise ValueError("model_dir should be non-empty.")
    if given is not None and described is not None and given != described:
        raise ValueError(f"`model_dir` is {given!r}, but TF_CONFIG has {described!r}: both must be the same.")
    found: str | None = given if given is not None else described
    return found
