"""tf.contrib.memory_stats: how much memory a device uses."""
