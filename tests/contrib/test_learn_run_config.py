"""RunConfig of tf.contrib.learn: which task of which cluster, for several TF_CONFIGs; as in TensorFlow 1.15."""

from __future__ import annotations

import json
from typing import Any

import pytest

import thalweg as tf

WORKERS = {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1", "e:1"]}
MASTER = {**WORKERS, "master": ["m:1"]}


def _task(job: str, index: int) -> dict[str, Any]:
    return {"type": job, "index": index}


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({}, (None, 0, "", 0, 0, True)),
        ({"task": _task("worker", 3)}, ("worker", 3, "", 0, 0, False)),
        ({"cluster": WORKERS, "task": _task("worker", 0)}, ("worker", 0, "grpc://c:1", 2, 3, True)),
        ({"cluster": WORKERS, "task": _task("worker", 1)}, ("worker", 1, "grpc://d:1", 2, 3, False)),
        ({"cluster": WORKERS, "task": _task("ps", 1)}, ("ps", 1, "grpc://b:1", 2, 3, False)),
        ({"cluster": MASTER, "task": _task("master", 0)}, ("master", 0, "grpc://m:1", 2, 4, False)),
        (
            {"cluster": MASTER, "task": _task("master", 0), "environment": "cloud"},
            ("master", 0, "grpc://m:1", 2, 4, True),
        ),
        (
            {"cluster": MASTER, "task": _task("worker", 0), "environment": "cloud"},
            ("worker", 0, "grpc://c:1", 2, 4, False),
        ),
    ],
)  # fmt: skip
def test_the_task_of_tf_config(monkeypatch: pytest.MonkeyPatch, described: Any, expected: Any) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(described))
    config = tf.contrib.learn.RunConfig()
    found = (
        config.task_type, config.task_id, config.master, config.num_ps_replicas, config.num_worker_replicas,
        config.is_chief,
    )  # fmt: skip
    assert found == expected
    assert isinstance(config, tf.estimator.RunConfig) and config.get_task_id() == config.task_id


@pytest.mark.parametrize("task", [_task("other", 0), _task("worker", 3), _task("worker", -1)])
def test_a_task_that_the_cluster_lacks_is_refused(monkeypatch: pytest.MonkeyPatch, task: Any) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS, "task": task}))
    with pytest.raises(ValueError, match="is not a valid task_"):
        tf.contrib.learn.RunConfig()


def test_settings_by_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS, "task": _task("worker", 1)}))
    config = tf.contrib.learn.RunConfig("grpc://x:1", 3, evaluation_master="grpc://y:1", save_checkpoints_steps=5)
    assert (config.master, config.evaluation_master) == ("grpc://x:1", "grpc://y:1")
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (5, None)
    assert config.tf_config.intra_op_parallelism_threads == 3
    assert config.replace(model_dir="m").model_dir == "m"


class _Recorded(tf.contrib.learn.Experiment):
    """An experiment that keeps the name of the schedule that was run."""

    def __init__(self, config: Any) -> None:
        self.estimator = tf.estimator.Estimator(lambda features: features, config=config)

    def train(self, delay_secs: int | None = None) -> Any:
        return "train"

    def train_and_evaluate(self) -> Any:
        return "train_and_evaluate"

    def run_std_server(self) -> Any:
        return "run_std_server"


@pytest.mark.parametrize(
    ("job", "schedule"),
    [("worker", "train"), ("master", "train_and_evaluate"), ("ps", "run_std_server"), (None, "train_and_evaluate")],
)
def test_each_task_has_its_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, job: Any, schedule: str) -> None:
    described = {"cluster": MASTER, "task": _task(job, 0)} if job else {}
    monkeypatch.setenv("TF_CONFIG", json.dumps(described))
    config = tf.contrib.learn.RunConfig(model_dir=str(tmp_path))
    run = tf.contrib.learn.learn_runner.run
    assert run(lambda run_config, hparams: _Recorded(run_config), run_config=config) == schedule
    if not job:
        with pytest.raises(ValueError, match="cluster_spec"):
            tf.contrib.learn.Experiment(_Recorded(config).estimator, None, None).run_std_server()
