"""tf.contrib.tensorboard: files for TensorBoard's plug-ins."""
