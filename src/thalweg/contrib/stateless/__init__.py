"""tf.contrib.stateless: random numbers of given seeds."""
