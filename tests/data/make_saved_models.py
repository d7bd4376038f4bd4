"""Writes the SavedModels of tests/saved_model: run it with a Python that has TensorFlow 2.

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


class Words(tf.Module):
    """Words as numbers of a vocabulary, padded; how often each occurs in a row; and pairs of neighbours."""

    def __init__(self) -> None:
        super().__init__()
        initializer = tf.lookup.KeyValueTensorInitializer(["the", "dog", "fox"], tf.constant([0, 1, 2], tf.int64))
        self.table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text: Any) -> Any:
        words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(text), "[^a-z ]", ""))
        ids = tf.ragged.map_flat_values(self.table.lookup, words)
        lengths = tf.TensorArray(tf.int64, 0, dynamic_size=True)
        for i in tf.range(tf.shape(text)[0]):
            lengths = lengths.write(i, tf.cast(tf.size(ids[i]), tf.int64))
        return {
            "ids": ids.to_tensor(-1),
            "counts": tf.math.bincount(ids, minlength=5, maxlength=5, axis=-1),
            "pairs": tf.strings.ngrams(words, 2).to_tensor(),
            "lengths": lengths.stack(),
            "noise": tf.random.stateless_normal([2], tf.stack([tf.cast(tf.size(text), tf.int64), 5])),
        }


if __name__ == "__main__":
    words = Words()
    folder = os.path.join(FOLDER, "words")
    shutil.rmtree(folder, ignore_errors=True)
    tf.saved_model.save(words, folder, {"serving_default": words.serve})
    os.remove(os.path.join(folder, "fingerprint.pb"))
    print(words.serve(tf.constant(["The dog, the fox!", "", "a dog"])))
    model = Model()
    folder = os.path.join(FOLDER, "traced")
    shutil.rmtree(folder, ignore_errors=True)
    tf.saved_model.save(model, folder, {"serving_default": model.serve, "counted": model.counted})
    os.remove(os.path.join(folder, "fingerprint.pb"))
    print(model.serve(tf.constant([[1.0, 2.0]])), model.serve(tf.constant([[-1.0, -2.0]])))
