"""tf.contrib.resampler: sampling images at given points."""
