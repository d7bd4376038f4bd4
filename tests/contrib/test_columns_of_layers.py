"""Columns of tf.contrib.layers: crosses take columns, and hash the values of their features."""

from __future__ import annotations

import numpy as np

import thalweg as tf


def test_crosses_hash_values_of_features() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        hashed = layers.sparse_column_with_hash_bucket("a", 10)
        keyed = layers.sparse_column_with_keys("g", keys=["m", "f"])
        buckets = layers.bucketized_column(layers.real_valued_column("r"), [1.0])
        features = {
            "a": tf.SparseTensor([[0, 0], [1, 0]], ["x", "y"], [2, 1]),
            "g": tf.SparseTensor([[0, 0], [1, 0]], ["m", "f"], [2, 1]),
            "r": tf.constant([[0.5], [1.5]]),
        }
        crosses = [
            layers.crossed_column([hashed, keyed], hash_bucket_size=50),
            layers.crossed_column([buckets, hashed], hash_bucket_size=50),
        ]
        names = tf.feature_column.crossed_column(["a", "g"], hash_bucket_size=50)
        by_columns, by_names = (
            tf.feature_column.input_layer(features, tf.feature_column.indicator_column(each))
            for each in (crosses[0], names)
        )
        sums, _, _ = layers.weighted_sum_from_feature_columns(features, [hashed, keyed, *crosses], num_outputs=1)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        np.testing.assert_array_equal(*session.run([by_columns, by_names]))
        assert session.run(sums).shape == (2, 1)
