"""tf.contrib.metrics: streaming metrics, with predictions before labels."""
