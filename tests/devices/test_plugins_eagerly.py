"""The example device where ops run at once: values are sent there and back, what it cannot run stays on the host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg as tf
from tests.devices.test_plugins import COMPILER, ROOT, build

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")

PROGRAM = """
import sys
import numpy as np
import thalweg as tf

tf.load_device_library(sys.argv[1])
tf.enable_eager_execution()
assert [name[-5:] for name in tf.contrib.eager.list_devices()] == ["CPU:0", "TOY:0", "TOY:1"]
x = tf.constant([1.0, 2.0])
with tf.device("/device:TOY:1"):
    y = x + x
    assert y.device.endswith("CPU:0") and np.from_dlpack(y).tolist() == [2.0, 4.0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = x * x * x
    assert tape.gradient(z, x).numpy().tolist() == [3.0, 12.0]
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    optimizer.minimize(lambda: tf.reduce_sum(v * v * v))
    np.testing.assert_allclose(v.numpy(), [-0.5, -4.0])
    assert tf.strings.length("four").numpy() == 4
    assert [int(n) for n in tf.data.Dataset.range(3).map(lambda n: n * 2)] == [0, 2, 4]
    assert tf.function(lambda a: a * 2.0 + 1.0)(x).numpy().tolist() == [3.0, 5.0]

@tf.function
def there(a):
    with tf.device("/device:TOY:0"):
        b = a * 3.0
    return b - 1.0

assert there(x).numpy().tolist() == [2.0, 5.0]
try:
    with tf.device("/device:TOY:7"):
        x + x
except tf.errors.InvalidArgumentError as error:
    print(error)
"""


def test_programs_that_run_ops_at_once_use_a_plugin(tmp_path: Path) -> None:
    library = build(ROOT / "examples" / "devices" / "toy_device.cc", tmp_path / "libtoy.so")
    environment = {**os.environ, "PYTHONPATH": str(Path(tf.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "There is no device '/device:TOY:7'" in done.stdout
