"""tf.contrib.rnn: cells, and loops over them."""
