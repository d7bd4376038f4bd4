"""Where the time and the memory of steps go: the reports of `thalweg profile` and `tf.profiler` on traced steps."""
