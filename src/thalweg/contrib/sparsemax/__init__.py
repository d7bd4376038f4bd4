"""tf.contrib.sparsemax: a softmax with zeros."""
