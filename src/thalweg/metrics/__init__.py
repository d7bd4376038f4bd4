"""`tf.metrics`: measures that accumulate over the steps of an evaluation, in local variables."""
