"""tf.contrib.summary: summaries that a writer of the graph writes."""
