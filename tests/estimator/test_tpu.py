"""tf.contrib.tpu on devices that are no TPUs: batch sizes, metrics, host calls, optimizers."""

import numpy as np
import pytest

import thalweg as tf

X = np.arange(32, dtype=np.float32).reshape(16, 2) / 16
Y = X.sum(1, keepdims=True)


def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat(2)
    return data.batch(params["batch_size"], drop_remainder=True)


def make_model_fn(sizes, host_values=None):
    def model_fn(features, labels, mode, params):
        sizes.append((mode, params.get("batch_size"), features.shape[0].value))
        y = tf.layers.dense(features, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": y})
        loss = tf.losses.mean_squared_error(labels, y)

        def metrics(labels, predictions):
            return {"error": tf.metrics.mean_absolute_error(labels, predictions)}

        def host_call(step, value):
            return tf.py_func(lambda s, v: host_values.append((int(s[0]), float(v[0]))), [step, value], [])

        step = tf.train.get_global_step()
        optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.AdamOptimizer(0.1))
        return tf.contrib.tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, global_step=step),
            eval_metrics=(metrics, {"labels": labels, "predictions": y}),
            host_call=None if host_values is None else (host_call, [tf.reshape(step, [1]), tf.reshape(loss, [1])]),
        )

    return model_fn


def make_estimator(tmp_path, model_fn, **kwargs):
    config = tf.contrib.tpu.RunConfig(
        model_dir=str(tmp_path), tpu_config=tf.contrib.tpu.TPUConfig(iterations_per_loop=5, num_shards=8)
    )
    return tf.contrib.tpu.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=False,
        train_batch_size=4,
        eval_batch_size=8,
        predict_batch_size=2,
        **kwargs,
    )


def test_functions_get_the_batch_size_of_their_mode(tmp_path):
    sizes, host_values = [], []
    estimator = make_estimator(tmp_path, make_model_fn(sizes, host_values))
    estimator.train(input_fn, max_steps=6)
    result = estimator.evaluate(input_fn, steps=2)
    predictions = list(estimator.predict(input_fn))
    assert sizes == [("train", 4, 4), ("eval", 8, 8), ("infer", 2, 2)]
    assert result["global_step"] == 6
    given = np.concatenate([X, X])
    predicted = np.concatenate([each["y"] for each in predictions])[:, None]
    assert predicted.shape == (32, 1)
    weights = estimator.get_variable_value("dense/kernel")
    np.testing.assert_allclose(predicted, given @ weights + estimator.get_variable_value("dense/bias"), rtol=1e-5)
    np.testing.assert_allclose(result["error"], np.abs(predicted[:16] - Y).mean(), rtol=1e-4)
    # A host call runs with every training step, and in no other mode.
    assert len(host_values) == 6
    assert all(np.isfinite(loss) for _, loss in host_values)


def test_params_are_not_changed_and_reserved_names_refused(tmp_path):
    params = {"units": 1}
    sizes = []
    estimator = make_estimator(tmp_path, make_model_fn(sizes), params=params)
    estimator.train(input_fn, max_steps=1)
    assert params == {"units": 1}
    assert estimator.params == {"units": 1}
    with pytest.raises(ValueError, match="reserved"):
        make_estimator(tmp_path, make_model_fn(sizes), params={"batch_size": 3})


def test_hparams_get_the_batch_size_too(tmp_path):
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append((params.batch_size, params.rate))
        loss = tf.reduce_mean(tf.layers.dense(features, 1))
        train_op = tf.train.GradientDescentOptimizer(params.rate).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def hparams_input_fn(params):
        return input_fn({"batch_size": params.batch_size})

    params = tf.contrib.training.HParams(rate=0.5)
    make_estimator(tmp_path, model_fn, params=params).train(hparams_input_fn, max_steps=1)
    assert seen == [(4, 0.5)]


def test_input_without_params_is_refused(tmp_path):
    estimator = make_estimator(tmp_path, make_model_fn([]))
    with pytest.raises(ValueError, match="does not include the argument params"):
        estimator.train(lambda: input_fn({"batch_size": 4}), max_steps=1)


def test_asking_for_a_tpu_is_an_error():
    with pytest.raises(RuntimeError, match="no TPU"):
        tf.contrib.tpu.TPUEstimator(make_model_fn([]), train_batch_size=4)
    with pytest.raises(RuntimeError, match="no TPU 'grpc"):
        tf.contrib.cluster_resolver.TPUClusterResolver("grpc://10.0.0.1:8470")
    with pytest.raises(ValueError, match="pair"):
        tf.contrib.tpu.TPUEstimatorSpec("eval", loss=1.0, eval_metrics={"a": 1})
    with pytest.raises(ValueError, match="positive"):
        tf.contrib.tpu.TPUConfig(iterations_per_loop=0)


def test_run_config_keeps_the_tpu_config_when_replaced():
    config = tf.contrib.tpu.RunConfig(master="", tpu_config=tf.contrib.tpu.TPUConfig(7), save_checkpoints_steps=3)
    changed = config.replace(keep_checkpoint_max=2)
    assert (changed.tpu_config.iterations_per_loop, changed.keep_checkpoint_max) == (7, 2)
    assert tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2 == 3
