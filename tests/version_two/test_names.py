"""`thalweg.compat.v2`: names, signatures and switches of TensorFlow 2. Expected values are TensorFlow 2.21's."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg
import thalweg.compat.v2 as tf


@pytest.fixture(autouse=True)
def version_two() -> Iterator[None]:
    with thalweg.eager():
        thalweg.enable_tensor_equality()
        thalweg.enable_v2_tensorshape()
        yield
        thalweg.disable_v2_behavior()


def test_comparisons_go_by_elements_and_hashes_by_object() -> None:
    x, v = tf.constant([1, 2, 3]), tf.Variable([1, 2])
    assert (x == 2).numpy().tolist() == [False, True, False]
    assert (x != tf.constant([1, 0, 3])).numpy().tolist() == [False, True, False]
    assert (v == [1, 5]).numpy().tolist() == [True, False]
    assert (x == None) is False  # noqa: E711 (what programs write)
    assert len({x: 1, tf.constant([1, 2, 3]): 2}) == 2
    with tf.GradientTape() as tape:
        tape.watch(y := tf.constant(2.0))
        z = y * y
    assert float(tape.gradient(z, y)) == 4.0


def test_the_switches_can_be_put_back() -> None:
    thalweg.disable_v2_behavior()
    x = tf.constant([1])
    assert (x == 1) is False
    assert x == x
    assert isinstance(x.shape[0], thalweg.Dimension)


def test_sizes_are_integers() -> None:
    shape = tf.zeros([3, 4]).shape
    assert isinstance(shape[0], int)
    assert math.sqrt(shape[1]) == 2
    assert list(shape) == [3, 4]
    assert tf.TensorShape([None, 2])[0] is None
    assert str(tf.TensorShape([2, None])) == "(2, None)"
    assert shape[0].value == 3  # Code for Dimensions goes on.


def test_spaces_have_what_tensorflow_2_has_where_it_has_it() -> None:
    assert tf.losses.MeanSquaredError is thalweg.keras.losses.MeanSquaredError
    assert tf.optimizers.Adam is tf.keras.optimizers.Adam
    assert tf.compat.v1 is thalweg
    assert tf.compat.v2 is tf
    assert "random" in dir(tf)
    assert "Generator" in dir(tf.random)
    assert tf.__version__.startswith("2.")
    assert not hasattr(tf, "Session")
    with pytest.raises(AttributeError, match=r"tf\.compat\.v1"):
        tf.placeholder  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'random\.no_such'"):
        tf.random.no_such  # noqa: B018


def test_signatures() -> None:
    assert tf.where(tf.constant([[1], [9]]) > 5, [1, 2], 0).numpy().tolist() == [[0, 0], [1, 2]]
    assert tf.strings.split([["a b", "c"], ["", "d e f"]]).to_list() == [
        [[b"a", b"b"], [b"c"]],
        [[], [b"d", b"e", b"f"]],
    ]
    assert tf.strings.split("a b").numpy().tolist() == [b"a", b"b"]
    assert tf.pad([1.0], [[1, 1]], constant_values=2.0).numpy().tolist() == [2, 1, 2]
    assert tf.while_loop(lambda i: i < 5, lambda i: [i + 1], [tf.constant(0)])[0].numpy() == 5
    assert tf.math.in_top_k([1, 0], [[0.1, 0.9], [0.2, 0.8]], 1).numpy().tolist() == [True, False]
    np.testing.assert_allclose(tf.nn.gelu([0.5, 1.5]).numpy(), [0.3457, 1.3998], atol=1e-4)
    assert float(tf.math.polyval([1.0, 2.0], 3.0)) == 5.0
    mean, variance = tf.nn.moments(tf.constant([[1.0, 3.0]]), axes=[1], keepdims=True)
    assert [mean.numpy().tolist(), variance.numpy().tolist()] == [[[2.0]], [[1.0]]]
    assert tf.map_fn(lambda x: x / 2, tf.range(2), fn_output_signature=tf.float64).dtype == tf.float64
    assert tf.reduce_all(tf.nn.dropout(tf.ones([4]), 0.0) == 1.0)


def test_resizing_takes_the_centers_of_pixels() -> None:
    image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    assert tf.image.resize(image, [2, 2])[0, :, :, 0].numpy().tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert tf.image.resize(image[0], [2, 2], method="nearest")[:, :, 0].numpy().tolist() == [[5, 7], [13, 15]]
    assert tf.image.resize(image, [2, 8], preserve_aspect_ratio=True).shape.as_list() == [1, 2, 2, 1]


def test_generators_draw_the_numbers_of_tensorflow() -> None:
    g = tf.random.Generator.from_seed(1)
    np.testing.assert_allclose(g.normal([2, 2]).numpy(), [[0.43842274, -0.53439844], [-0.07710262, 1.5658046]], 1e-6)
    np.testing.assert_allclose(g.uniform([3]).numpy(), [0.6805072, 0.82057965, 0.5278255], 1e-6)
    assert g.uniform([3], 0, 10, tf.int32).numpy().tolist() == [4, 7, 0]
    assert g.state.numpy().tolist() == [2561, 0, 0]
    assert g.split(2)[0].state.numpy().tolist() == [0, 0, 2470399196295502633]
    other = tf.random.Generator.from_state([1, 2, 3], alg="philox")
    np.testing.assert_allclose(other.normal([2]).numpy(), [-0.26016375, -1.220522], 1e-6)
    other.skip(3)
    assert other.state.numpy().tolist() == [1281, 2, 3]
    keyed = tf.random.Generator.from_key_counter(7, [1, 2], "philox")
    assert keyed.uniform_full_int([2], tf.uint32).numpy().tolist() == [3993829521, 955157873]
    assert tf.random.Generator.from_seed(-5).state.numpy().tolist() == [-5, -1, -1]
    assert tf.random.Generator.from_seed([1, 2]).state.numpy().tolist() == [0, 1, 2]


def test_a_generator_carries_into_the_upper_counter() -> None:
    g = tf.random.Generator.from_state([-256, 7, 0], alg="philox")
    g.uniform([3])
    assert g.state.numpy().tolist() == [512, 8, 0]


def test_generators_in_functions_go_on() -> None:
    g = tf.random.Generator.from_seed(4)
    drawn = tf.function(lambda: g.uniform([2]))
    first, second = drawn(), drawn()
    assert not np.array_equal(first.numpy(), second.numpy())


def test_seeds_are_split_and_folded() -> None:
    assert tf.random.experimental.stateless_split([1, 2], 2).numpy().tolist() == [
        [1105988140, 1738052849],
        [-335576002, 370444179],
    ]
    assert tf.random.fold_in([1, 2], 3).numpy().tolist() == [1105988140, 3]


def test_functions_can_run_as_python() -> None:
    calls = []

    @tf.function
    def noted(x: Any) -> Any:
        calls.append(1)
        return x + 1

    tf.config.run_functions_eagerly(True)
    try:
        assert [int(noted(tf.constant(1))) for _ in range(3)] == [2, 2, 2]
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(calls) == 3
    assert tf.config.list_physical_devices("GPU") == []
    assert tf.config.list_physical_devices("CPU")[0].device_type == "CPU"


def test_summaries_are_written_at_once_and_by_functions(tmp_path: Any) -> None:
    writer = tf.summary.create_file_writer(tmp_path)

    @tf.function
    def step(number: Any, loss: Any) -> None:
        tf.summary.scalar("loss", loss, step=number)

    with writer.as_default():
        tf.summary.scalar("a", 0.5, step=1)
        step(tf.constant(5, tf.int64), tf.constant(2.0))
        tf.summary.text("t", "hi", step=2)
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.scalar("a", 1.0)
    tf.summary.scalar("nowhere", 1.0, step=1)
    writer.set_as_default(step=7)
    tf.summary.scalar("later", 1.0)
    with tf.summary.record_if(False):
        tf.summary.scalar("not", 1.0)
    tf.summary.experimental.set_step(None)
    thalweg.contrib.summary.create_file_writer(None).set_as_default()
    writer.close()
    path = os.path.join(tmp_path, os.listdir(tmp_path)[0])
    events = [(e.step, v.tag) for e in thalweg.train.summary_iterator(path) for v in e.summary.value]
    assert events == [(1, "a"), (5, "loss"), (2, "t"), (7, "later")]


def test_capsules_share_memory() -> None:
    x = tf.zeros([10000]) + 3.0
    y = tf.experimental.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    assert y.numpy()[-1] == 3.0
    assert y.numpy().__array_interface__["data"][0] == x.numpy().__array_interface__["data"][0]


def test_datasets_have_the_later_methods() -> None:
    numbers = tf.data.Dataset.range(6)
    assert len(numbers) == 6
    assert list(numbers.batch(4).as_numpy_iterator())[1].tolist() == [4, 5]
    assert [int(x) for x in numbers.take_while(lambda x: x < 3)] == [0, 1, 2]
    assert [int(x) for x in numbers.scan(np.int64(0), lambda s, x: (s + x, s + x))] == [0, 1, 3, 6, 10, 15]
    groups = numbers.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3)
    assert [x.numpy().tolist() for x in groups] == [[0, 2, 4], [1, 3, 5]]
    made = tf.data.Dataset.from_generator(lambda: iter([1, 2]), output_signature=tf.TensorSpec((), tf.int32))
    assert [int(x) for x in made] == [1, 2]
    with pytest.raises(TypeError, match="infinite"):
        len(numbers.repeat())


def test_checks_of_values_fail_without_names() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="x == y did not hold"):
        tf.debugging.assert_equal([1, 2], [1, 3])
    with pytest.raises(ValueError, match=r"float32\(2,\) must have rank 2"):
        tf.debugging.assert_rank(tf.ones([2]), 2)


def test_checkpoint_managers_work_without_a_session(tmp_path: Any) -> None:
    step = tf.Variable(1)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), tmp_path, max_to_keep=2)
    for _ in range(3):
        step.assign_add(1)
        manager.save()
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
    step.assign(0)
    assert manager.restore_or_initialize() == manager.latest_checkpoint
    assert int(step) == 4


def test_programs_run_with_v2(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf\nfrom tensorflow.keras import layers\nimport tensorflow.compat.v1 as tf1\n"
        "assert tf.executing_eagerly() and not hasattr(tf, 'Session') and hasattr(tf1, 'Session')\n"
        "print((tf.constant([1, 2]) == 2).numpy(), layers.Dense(2)(tf.ones([1, 3])).shape[1] + 1)\n"
    )
    done = subprocess.run([sys.executable, "-m", "thalweg", "run", "--v2", program], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.stdout == "[False  True] 3\n", done.stderr


def test_keras_has_the_defaults_and_names_of_tensorflow_2() -> None:
    x = tf.constant([[[1.0, -2.0], [0.5, 3.0]]])
    start = tf.keras.initializers.Constant(0.3)
    lstm = tf.keras.layers.LSTM(1, kernel_initializer=start, recurrent_initializer=start)
    gru = tf.keras.layers.GRU(1, kernel_initializer=start, recurrent_initializer=start)
    np.testing.assert_allclose([float(lstm(x)[0, 0]), float(gru(x)[0, 0])], [0.3188306, 0.0840116], rtol=1e-5)
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, activation="softmax")])
    rate = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    model.compile(tf.keras.optimizers.SGD(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(np.ones([4, 3], np.float32), np.zeros(4, np.int32), epochs=2, verbose=0).history
    assert list(history) == ["loss", "accuracy"]
    assert history["loss"][1] < history["loss"][0]
    mean = tf.keras.metrics.Mean()
    mean(2.0)
    mean.reset_state()
    assert float(mean.result()) == 0.0


def test_schedules_of_rates() -> None:
    schedules = tf.keras.optimizers.schedules
    rates = [schedules.ExponentialDecay(0.1, 10, 0.5)(5), schedules.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1])(3),
             schedules.PolynomialDecay(1.0, 10, 0.1)(5), schedules.CosineDecay(1.0, 10)(5),
             schedules.InverseTimeDecay(1.0, 1, 0.5)(2)]  # fmt: skip
    np.testing.assert_allclose([float(rate) for rate in rates], [0.0707107, 0.5, 0.55, 0.5, 0.5], rtol=1e-5)
    assert schedules.CosineDecay.from_config(schedules.CosineDecay(1.0, 10).get_config()).decay_steps == 10
    with pytest.raises(ValueError, match="1 less"):
        schedules.PiecewiseConstantDecay([1], [1.0])
