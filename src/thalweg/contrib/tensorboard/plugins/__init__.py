"""tf.contrib.tensorboard.plugins: files for plug-ins."""
