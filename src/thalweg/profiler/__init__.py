"""Where the time and the memory of steps go: what `thalweg profile` and `tf.profiler` say of traced steps."""
