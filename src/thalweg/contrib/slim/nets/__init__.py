"""tf.contrib.slim.nets: published networks for images."""
