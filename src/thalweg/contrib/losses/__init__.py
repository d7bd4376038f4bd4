"""tf.contrib.losses: losses with predictions before labels."""
