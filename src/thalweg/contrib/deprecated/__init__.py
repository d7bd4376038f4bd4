"""tf.contrib.deprecated: summaries of the first TensorFlow."""
