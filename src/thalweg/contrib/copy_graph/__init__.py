"""tf.contrib.copy_graph: copies of operations and variables in another graph."""
