"""RunConfig and TF_CONFIG, and train_and_evaluate in one process and in a cluster of processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

PROGRAM = """
import sys
import numpy as np
import thalweg as tf

def model_fn(features, labels, mode):
    y = tf.layers.dense(features["x"], 1, name="layer")
    loss = tf.reduce_mean(tf.square(y - labels))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(16, 1)
data = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x, 16, None, shuffle=False)
config = tf.estimator.RunConfig(
    sys.argv[1], save_checkpoints_steps=50, experimental_max_worker_delay_secs=0, session_creation_timeout_secs=60)
model = tf.estimator.Estimator(model_fn, config=config)
tf.estimator.train_and_evaluate(
    model, tf.estimator.TrainSpec(data, max_steps=200),
    tf.estimator.EvalSpec(data, steps=1, start_delay_secs=0, throttle_secs=0))
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_chief_worker_parameter_server_and_evaluator(tmp_path: Path) -> None:
    chief, worker, ps = (f"localhost:{port}" for port in free_ports(3))
    cluster = {"chief": [chief], "worker": [worker], "ps": [ps]}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    model_dir = tmp_path / "model"
    tasks = {}
    for job in ("ps", "chief", "worker", "evaluator"):
        described = {"cluster": cluster, "task": {"type": job, "index": 0}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(described), "OMP_NUM_THREADS": "1"}
        tasks[job] = subprocess.Popen([sys.executable, str(program), str(model_dir)], env=environment)
    try:
        for job in ("chief", "worker", "evaluator"):
            assert tasks[job].wait(timeout=90) == 0, job
    finally:
        for task in tasks.values():
            if task.poll() is None:
                task.send_signal(signal.SIGKILL)
            task.wait()
    reader = tf.train.load_checkpoint(str(model_dir))
    assert reader.get_tensor("global_step") >= 200
    np.testing.assert_allclose(reader.get_tensor("layer/kernel"), [[2.0]], atol=0.05)
    (events,) = (model_dir / "eval").glob("events*")
    steps = [event.step for event in tf.train.summary_iterator(str(events)) if event.summary.value]
    assert steps and steps[-1] >= 200


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_config(**parts: Any) -> Any:
        monkeypatch.setenv("TF_CONFIG", json.dumps(parts))
        return tf.estimator.RunConfig()

    return set_config


CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}


@pytest.mark.parametrize(
    ("job", "index", "expected"),
    [
        ("chief", 0, (True, "grpc://a:1", 0)),
        ("worker", 1, (False, "grpc://c:1", 2)),
        ("ps", 1, (False, "grpc://e:1", 4)),
    ],
)
def test_tf_config_says_which_task_this_is(described: Any, job: str, index: int, expected: Any) -> None:
    config = described(cluster=CLUSTER, task={"type": job, "index": index})
    assert (config.is_chief, config.master, config.global_id_in_cluster) == expected
    assert (config.num_ps_replicas, config.num_worker_replicas) == (2, 3)


def test_evaluators_are_outside_of_the_cluster(described: Any) -> None:
    config = described(cluster=CLUSTER, task={"type": "evaluator", "index": 0}, model_dir="/m")
    assert (config.task_type, config.is_chief, config.master, config.model_dir) == ("evaluator", False, "", "/m")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}, "chief"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": 7}}, "task_id"),
        ({"cluster": CLUSTER, "task": {"type": "cook", "index": 0}}, "task_type"),
        ({"cluster": CLUSTER}, "type"),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}, "exactly one"),
    ],
)
def test_wrong_tf_configs_are_refused(described: Any, parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        described(**parts)


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_checkpoints_steps": 1, "save_checkpoints_secs": 1},
        {"save_summary_steps": -1},
        {"keep_checkpoint_every_n_hours": 0},
        {"session_config": 3},
        {"train_distribute": object()},
    ],
)
def test_wrong_settings_are_refused(arguments: Any) -> None:
    with pytest.raises(ValueError):
        tf.estimator.RunConfig(**arguments)
    with pytest.raises(ValueError, match="not supported"):
        tf.estimator.RunConfig().replace(master="x")


def test_train_and_evaluate_in_one_process_exports_the_best_model(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 16, dtype=np.float32)
    data = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x, 16, None, shuffle=False)
    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=10)
    model = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], config=config)
    receive = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None])})
    worst = tf.estimator.BestExporter("worst", receive, compare_fn=lambda best, new: new["loss"] > best["loss"])
    exporters = [worst, tf.estimator.FinalExporter("final", receive)]
    metrics, exports = tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(data, max_steps=30),
        tf.estimator.EvalSpec(data, steps=1, exporters=exporters, throttle_secs=0),
    )
    assert metrics["global_step"] == 30
    assert exports[0] is None and os.path.isdir(exports[1])
    assert len(os.listdir(tmp_path / "export" / "worst")) == 1
    assert len(os.listdir(tmp_path / "export" / "final")) == 1


def test_an_evaluator_goes_on_when_the_trainers_remove_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(-1, 1, 16, dtype=np.float32)
    data = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x, 16, None, shuffle=False)

    def model() -> Any:
        config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=10, keep_checkpoint_max=1)
        return tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], config=config)

    model().train(data, max_steps=10)
    receive = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None])})
    seen = []

    class TrainsMeanwhile(tf.estimator.LatestExporter):  # type: ignore[misc,name-defined]
        def export(self, estimator: Any, export_path: str, checkpoint_path: str, *more: Any) -> Any:
            seen.append(os.path.basename(checkpoint_path))
            if len(seen) == 1:
                with monkeypatch.context() as context:
                    context.delenv("TF_CONFIG")
                    model().train(data, max_steps=30)
            return super().export(estimator, export_path, checkpoint_path, *more)

    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}}))
    tf.estimator.train_and_evaluate(
        model(),
        tf.estimator.TrainSpec(data, max_steps=30),
        tf.estimator.EvalSpec(
            data, steps=1, exporters=TrainsMeanwhile("latest", receive), start_delay_secs=0, throttle_secs=0
        ),
    )
    assert seen == ["model.ckpt-10", "model.ckpt-30"]
    assert len(os.listdir(tmp_path / "export" / "latest")) == 1


def test_specs_check_their_arguments() -> None:
    with pytest.raises(TypeError, match="callable"):
        tf.estimator.TrainSpec(3)
    with pytest.raises(ValueError, match="max_steps"):
        tf.estimator.TrainSpec(lambda: None, max_steps=0)
    with pytest.raises(TypeError, match="Exporters"):
        tf.estimator.EvalSpec(lambda: None, exporters=[3])
    with pytest.raises(TypeError, match="estimator"):
        tf.estimator.train_and_evaluate(3, None, None)
