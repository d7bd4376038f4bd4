"""Runs of every optimizer that must come out alike in TensorFlow and in Thalweg, and the file of TensorFlow's results.

`python tests/data/optimizer_runs.py`, where TensorFlow is installed, writes optimizer_runs.npz. tests/train compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
STEPS = 6
DTYPES = ("float32", "float64")

# Name: class under tf.train, arguments.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gradient_descent": ("GradientDescentOptimizer", {"learning_rate": 0.3}),
    "momentum": ("MomentumOptimizer", {"learning_rate": 0.1, "momentum": 0.9}),
    "nesterov": ("MomentumOptimizer", {"learning_rate": 0.1, "momentum": 0.8, "use_nesterov": True}),
    "adagrad": ("AdagradOptimizer", {"learning_rate": 0.5}),
    "adagrad_da": (
        "AdagradDAOptimizer",
        {"learning_rate": 0.5, "l1_regularization_strength": 0.05, "l2_regularization_strength": 0.1},
    ),
    "adadelta": ("AdadeltaOptimizer", {"learning_rate": 1.0, "rho": 0.9, "epsilon": 1e-3}),
    "rmsprop": ("RMSPropOptimizer", {"learning_rate": 0.1, "decay": 0.8, "momentum": 0.5}),
    "centered_rmsprop": (
        "RMSPropOptimizer",
        {"learning_rate": 0.1, "decay": 0.8, "momentum": 0.5, "epsilon": 1e-2, "centered": True},
    ),
    "adam": ("AdamOptimizer", {"learning_rate": 0.1}),
    "ftrl": ("FtrlOptimizer", {"learning_rate": 0.5}),
    "ftrl_regularized": (
        "FtrlOptimizer",
        {
            "learning_rate": 0.5,
            "learning_rate_power": -0.7,
            "l1_regularization_strength": 0.3,
            "l2_regularization_strength": 0.1,
        },
    ),
    "ftrl_shrinkage": (
        "FtrlOptimizer",
        {"learning_rate": 0.5, "l1_regularization_strength": 0.1, "l2_shrinkage_regularization_strength": 0.2},
    ),
    "proximal_gradient_descent": (
        "ProximalGradientDescentOptimizer",
        {"learning_rate": 0.3, "l1_regularization_strength": 0.2, "l2_regularization_strength": 0.1},
    ),
    "proximal_adagrad": (
        "ProximalAdagradOptimizer",
        {"learning_rate": 0.3, "l1_regularization_strength": 0.2, "l2_regularization_strength": 0.1},
    ),
}

# Op type without "Resource": number of variables, scalars, attributes. `grad` stands where the gradient does.
RULES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "add_sign": ("ApplyAddSign", "var m", {"lr": 0.1, "alpha": 1.0, "sign_decay": 0.9, "beta": 0.8}, {}),
    "power_sign": ("ApplyPowerSign", "var m", {"lr": 0.1, "logbase": 1.0, "sign_decay": 0.9, "beta": 0.8}, {}),
    "adamax": (
        "ApplyAdaMax",
        "var m v",
        {"beta1_power": 0.9, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6},
        {},
    ),
    "nesterov_adam": (
        "ApplyAdam",
        "var m v",
        {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6},
        {"use_nesterov": True},
    ),
    "amsgrad": (
        "ApplyAdamWithAmsgrad",
        "var m v vhat",
        {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6},
        {},
    ),
    "keras_momentum": ("ApplyKerasMomentum", "var accum", {"lr": 0.1, "momentum": 0.9}, {}),
    "keras_nesterov": ("ApplyKerasMomentum", "var accum", {"lr": 0.1, "momentum": 0.9}, {"use_nesterov": True}),
    "sparse_keras_nesterov": (
        "SparseApplyKerasMomentum",
        "var accum",
        {"lr": 0.1, "momentum": 0.9},
        {"use_nesterov": True},
    ),
    "adagrad_epsilon": ("ApplyAdagradV2", "var accum", {"lr": 0.5, "epsilon": 0.1}, {}),
    "sparse_adagrad_epsilon": ("SparseApplyAdagradV2", "var accum", {"lr": 0.5, "epsilon": 0.1}, {}),
    "adagrad_fixed": ("ApplyAdagrad", "var accum", {"lr": 0.5}, {"update_slots": False}),
    "sparse_adagrad_fixed": ("SparseApplyAdagrad", "var accum", {"lr": 0.5}, {"update_slots": False}),
    "sparse_momentum": ("SparseApplyMomentum", "var accum", {"lr": 0.5, "momentum": 0.8}, {}),
    "sparse_adadelta": ("SparseApplyAdadelta", "var accum accum_update", {"lr": 1.0, "rho": 0.9, "epsilon": 0.1}, {}),
    "sparse_rmsprop": (
        "SparseApplyRMSProp",
        "var ms mom",
        {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 0.1},
        {},
    ),
    "ftrl_multiplied": (
        "ApplyFtrl",
        "var accum linear",
        {"lr": 0.5, "l1": 0.1, "l2": 0.2, "lr_power": -0.5},
        {"multiply_linear_by_lr": True},
    ),
    "ftrl_shrinkage_multiplied": (
        "ApplyFtrlV2",
        "var accum linear",
        {"lr": 0.5, "l1": 0.1, "l2": 0.2, "l2_shrinkage": 0.3, "lr_power": -0.6},
        {"multiply_linear_by_lr": True},
    ),
    "sparse_ftrl_multiplied": (
        "SparseApplyFtrl",
        "var accum linear",
        {"lr": 0.5, "l1": 0.1, "l2": 0.2, "lr_power": -0.5},
        {"multiply_linear_by_lr": True},
    ),
    "sparse_ftrl_shrinkage": (
        "SparseApplyFtrlV2",
        "var accum linear",
        {"lr": 0.5, "l1": 0.1, "l2": 0.2, "l2_shrinkage": 0.3, "lr_power": -0.5},
        {},
    ),
    "sparse_proximal_adagrad": ("SparseApplyProximalAdagrad", "var accum", {"lr": 0.5, "l1": 0.1, "l2": 0.2}, {}),
    "sparse_proximal_descent": ("SparseApplyProximalGradientDescent", "var", {"alpha": 0.5, "l1": 0.1, "l2": 0.2}, {}),
}


def _values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        "w": rng.normal(size=(3, 2)),
        "e": rng.normal(size=(5, 3)),
        "w_grads": rng.normal(size=(STEPS, 3, 2)),
        "e_grads": rng.normal(size=(STEPS, 4, 3)),
        # Duplicates in every step, and a row that never gets a gradient.
        "rows": np.array([[0, 2, 2, 4], [1, 1, 1, 0], [4, 0, 4, 0], [2, 1, 0, 2], [0, 0, 2, 1], [4, 4, 1, 2]]),
    }


def run_optimizer(tf: Any, name: str, dtype: str) -> dict[str, np.ndarray]:
    """The values of the variables and slots, by name, after each step on fixed gradients."""
    cls, arguments = OPTIMIZERS[name]
    given = _values()
    history: dict[str, list[np.ndarray]] = {}
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=given["w"].astype(dtype), use_resource=True)
        with tf.variable_scope("scope"):
            e = tf.get_variable("e", initializer=given["e"].astype(dtype), use_resource=True)
        w_grad = tf.placeholder(dtype, [3, 2])
        e_grad = tf.placeholder(dtype, [None, 3])
        rows = tf.placeholder(tf.int32, [None])
        step = tf.train.get_or_create_global_step()
        if cls == "AdagradDAOptimizer":
            arguments = {**arguments, "global_step": step}
        optimizer = getattr(tf.train, cls)(**arguments)
        pairs = [(w_grad, w), (tf.IndexedSlices(e_grad, rows, tf.constant([5, 3])), e)]
        train = optimizer.apply_gradients(pairs, global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(STEPS):
                feeds = {w_grad: given["w_grads"][i], e_grad: given["e_grads"][i], rows: given["rows"][i]}
                sess.run(train, feeds)
                for var in tf.global_variables():
                    history.setdefault(var.op.name, []).append(np.asarray(sess.run(var)))
    return {key: np.stack(values) for key, values in history.items()}


def run_rule(tf: Any, name: str, dtype: str) -> dict[str, np.ndarray]:
    """The same for one op, whose rows are not brought together first."""
    op, variables, scalars, attrs = RULES[name]
    given = _values()
    sparse = op.startswith("Sparse")
    initial = given["e"] if sparse else given["w"]
    history: dict[str, list[np.ndarray]] = {}
    with tf.Graph().as_default():
        made = {}
        for i, var in enumerate(variables.split()):
            value = initial if i == 0 else np.full_like(initial, 0.1 * i)
            made[var] = tf.get_variable(var, initializer=value.astype(dtype), use_resource=True)
        grad = tf.placeholder(dtype, [4, 3] if sparse else [3, 2])
        rows = tf.placeholder(tf.int64, [4])
        inputs = {key: tf.constant(value, dtype) for key, value in scalars.items()}
        inputs.update({key: var.handle for key, var in made.items()}, grad=grad)
        if sparse:
            inputs["indices"] = rows
        train = getattr(tf.raw_ops, f"Resource{op}")(**inputs, **attrs)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(STEPS):
                feeds = {grad: given["e_grads" if sparse else "w_grads"][i], rows: given["rows"][i]}
                sess.run(train, feeds)
                for key, var in made.items():
                    history.setdefault(key, []).append(np.asarray(sess.run(var)))
    return {key: np.stack(values) for key, values in history.items()}


def main() -> None:
    """Writes what TensorFlow computes."""
    import tensorflow.compat.v1 as tf  # type: ignore[import-not-found]

    tf.disable_v2_behavior()
    results = {}
    for run, names in ((run_optimizer, OPTIMIZERS), (run_rule, RULES)):
        for name in names:
            for dtype in DTYPES:
                try:
                    run_values = run(tf, name, dtype)
                except TypeError as e:  # Some of TensorFlow's optimizers forget to cast their rates.
                    print(f"not in TensorFlow: {name} {dtype}: {e}")
                    continue
                results.update({f"{name}:{dtype}:{key}": value for key, value in run_values.items()})
    np.savez_compressed(FILE, **results)
    print(f"{FILE.name}: {len(results)} arrays, {FILE.stat().st_size / 1e3:.0f} kB, TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main()
