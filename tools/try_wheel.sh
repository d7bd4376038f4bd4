#!/bin/sh
# try_wheel.sh PYTHON WHEEL: installs a wheel in a new virtual environment, apart from this tree, and uses it.
set -eu
python=$1
wheel=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check "$wheel"
cd "$folder"
unset PYTHONPATH
"$folder/venv/bin/python" - <<'PROGRAM'
"""A training step, a convolution (oneDNN) and a file: what needs every library in the wheel."""
import numpy as np
import thalweg as tf

assert "site-packages" in tf.__file__, tf.__file__
images = tf.constant(np.random.default_rng(1).normal(size=[4, 16, 16, 3]).astype(np.float32))
scores = tf.layers.dense(tf.layers.flatten(tf.layers.conv2d(images, 8, 3)), 1)
loss = tf.reduce_mean(tf.square(scores - 1.0))
train = tf.train.AdamOptimizer(0.003).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    losses = [session.run([loss, train])[0] for _ in range(30)]
    path = tf.train.Saver().save(session, "./model")
assert np.mean(losses[-5:]) < np.mean(losses[:5]), losses
loaded = [line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "libdnnl" in line]
assert loaded and all("site-packages" in each for each in loaded), loaded
print(f"thalweg {tf.version.VERSION}: loss {losses[0]:.3f} to {losses[-1]:.3f}, saved {path}; libraries from the wheel")
PROGRAM
"$folder/venv/bin/thalweg" --version
