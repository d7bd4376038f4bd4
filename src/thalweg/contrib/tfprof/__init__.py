"""tf.contrib.tfprof: the profiler of models under its names of TensorFlow 1.0."""
