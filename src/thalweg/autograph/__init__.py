"""AutoGraph: Python's control flow on tensors becomes control flow of the graph (`tf.autograph`)."""
