"""tf.contrib.factorization: clustering by k-means."""
