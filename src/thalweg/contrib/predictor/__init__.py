"""tf.contrib.predictor: a function of arrays from a SavedModel."""
