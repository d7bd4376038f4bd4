"""tf.contrib.testing: summaries in tests."""
