"""tf.contrib.opt: further optimizers."""
