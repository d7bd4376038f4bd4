"""tf.contrib.data: datasets under their older names."""
