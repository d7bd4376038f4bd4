"""tf.contrib.image: projective transforms of images."""
