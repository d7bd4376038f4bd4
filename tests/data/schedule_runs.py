"""Learning-rate schedules and moving averages as TensorFlow computes them, and the file of its results.

`python tests/data/schedule_runs.py`, where TensorFlow is installed, writes schedule_runs.json. tests/train compares.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".json")
STEPS = [0, 1, 4, 5, 9, 10, 11, 25, 40]

# Name: function under tf.train, arguments beside the global step.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "exponential": ("exponential_decay", {"learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.9}),
    "staircase": ("exponential_decay", {"learning_rate": 0.5, "decay_steps": 5, "decay_rate": 0.9, "staircase": True}),
    "natural": ("natural_exp_decay", {"learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.7}),
    "natural_staircase": (
        "natural_exp_decay",
        {"learning_rate": 0.5, "decay_steps": 4, "decay_rate": 0.7, "staircase": True},
    ),
    "inverse_time": ("inverse_time_decay", {"learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.7}),
    "inverse_time_staircase": (
        "inverse_time_decay",
        {"learning_rate": 0.5, "decay_steps": 4, "decay_rate": 0.7, "staircase": True},
    ),
    "polynomial": ("polynomial_decay", {"learning_rate": 0.5, "decay_steps": 10, "end_learning_rate": 0.01}),
    "polynomial_cycle": (
        "polynomial_decay",
        {"learning_rate": 0.5, "decay_steps": 10, "end_learning_rate": 0.01, "power": 2.0, "cycle": True},
    ),
    "cosine": ("cosine_decay", {"learning_rate": 0.5, "decay_steps": 20}),
    "cosine_alpha": ("cosine_decay", {"learning_rate": 0.5, "decay_steps": 20, "alpha": 0.1}),
    "restarts": ("cosine_decay_restarts", {"learning_rate": 0.5, "first_decay_steps": 4}),
    "restarts_even": (
        "cosine_decay_restarts",
        {"learning_rate": 0.5, "first_decay_steps": 4, "t_mul": 1.0, "m_mul": 0.5, "alpha": 0.1},
    ),
    "linear_cosine": ("linear_cosine_decay", {"learning_rate": 0.5, "decay_steps": 20}),
    "noiseless": (
        "noisy_linear_cosine_decay",
        {"learning_rate": 0.5, "decay_steps": 20, "initial_variance": 0.0, "num_periods": 2.0, "alpha": 0.1},
    ),
    "piecewise": ("piecewise_constant", {"boundaries": [4, 10], "values": [1.0, 0.5, 0.25]}),
}
# Name: arguments of ExponentialMovingAverage; `num_updates` is replaced by a counter of the steps.
AVERAGES: dict[str, dict[str, Any]] = {
    "plain": {"decay": 0.9},
    "counted": {"decay": 0.9, "num_updates": True},
    "debiased": {"decay": 0.9, "zero_debias": True, "name": "Average"},
}


def run_schedule(tf: Any, name: str) -> list[float]:
    """The rates at STEPS."""
    function, arguments = SCHEDULES[name]
    with tf.Graph().as_default():
        step = tf.placeholder(tf.int64, [])
        key = "x" if function == "piecewise_constant" else "global_step"
        rate = getattr(tf.train, function)(**{key: step}, **arguments)
        with tf.Session() as sess:
            return [float(sess.run(rate, {step: value})) for value in STEPS]


def run_average(tf: Any, name: str) -> dict[str, list[Any]]:
    """The values of all variables, by name, after each of some updates."""
    arguments = dict(AVERAGES[name])
    history: dict[str, list[Any]] = {}
    with tf.Graph().as_default():
        count = tf.get_variable("count", initializer=0, trainable=False, use_resource=True)
        if "num_updates" in arguments:
            arguments["num_updates"] = count
        w = tf.get_variable("w", initializer=np.array([1.0, -2.0], np.float32), use_resource=True)
        change = w.assign_add([0.5, 1.0])
        ema = tf.train.ExponentialMovingAverage(**arguments)
        with tf.control_dependencies([change]):
            tensor = tf.identity(w.read_value() * 3.0, name="thrice")
            update = ema.apply([w, tensor])
        with tf.control_dependencies([update]):
            increment = count.assign_add(1)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(4):
                sess.run(increment)
                for var in tf.global_variables():
                    history.setdefault(var.op.name, []).append(np.asarray(sess.run(var)).tolist())
    return history


def main() -> None:
    """Writes what TensorFlow computes."""
    import tensorflow.compat.v1 as tf  # type: ignore[import-not-found]

    tf.disable_v2_behavior()
    results = {
        "schedules": {name: run_schedule(tf, name) for name in SCHEDULES},
        "averages": {name: run_average(tf, name) for name in AVERAGES},
    }
    FILE.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
