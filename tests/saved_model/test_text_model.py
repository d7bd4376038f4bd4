"""A SavedModel that TensorFlow 2 wrote: strings, a table, ragged tensors, a list of tensors, keyed random numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import thalweg as tf

WORDS = str(Path(__file__).parents[1] / "data" / "saved_models" / "words")


def test_a_model_of_ragged_words_gives_tensorflows_values() -> None:
    with tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], WORDS).signature_def["serving_default"]
        names = {key: info.name for key, info in signature.outputs.items()}
        found = session.run(names, {signature.inputs["text"].name: ["The dog, the fox!", "", "a dog"]})
    assert found["ids"].tolist() == [[0, 1, 0, 2], [-1] * 4, [4, 1, -1, -1]]
    assert found["counts"].tolist() == [[2, 1, 1, 0, 0], [0] * 5, [0, 1, 0, 0, 1]]
    assert found["pairs"].tolist() == [[b"the dog", b"dog the", b"the fox"], [b""] * 3, [b"a dog", b"", b""]]
    assert found["lengths"].tolist() == [4, 0, 2]
    np.testing.assert_allclose(found["noise"], [0.8695505, 1.2628788], rtol=1e-5)
