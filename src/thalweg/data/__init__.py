"""Input pipelines: `tf.data`, the datasets and iterators of the graph-mode API."""
