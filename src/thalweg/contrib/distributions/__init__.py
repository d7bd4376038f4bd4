"""tf.contrib.distributions: distributions, with vectors."""
