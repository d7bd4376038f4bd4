"""Writes the SavedModel of tests/saved_model/test_save_functions.py: run it with a Python that has TensorFlow 2.

python tests/data/make_saved_models.py
"""

import os
import shutil
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saved_models")


class Model(tf.Module):
    """Two variables, a function with a loop and a branch, and one that changes a variable."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([2.0, -1.0], name="w")
        self.count = tf.Variable(0, name="count")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def serve(self, x: Any) -> Any:
        y = x * self.w
        for _ in tf.range(3):
            y = tf.tanh(y) + x
        if tf.reduce_sum(y) > 0.0:
            y = y * 2.0
        return {"y": y}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="by")])
    def counted(self, by: Any) -> Any:
        return {"count": self.count.assign_add(by)}


if __name__ == "__main__":
    model = Model()
    folder = os.path.join(FOLDER, "traced")
    shutil.rmtree(folder, ignore_errors=True)
    tf.saved_model.save(model, folder, {"serving_default": model.serve, "counted": model.counted})
    os.remove(os.path.join(folder, "fingerprint.pb"))
    print(model.serve(tf.constant([[1.0, 2.0]])), model.serve(tf.constant([[-1.0, -2.0]])))
