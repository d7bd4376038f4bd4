"""tf.contrib.crf: conditional random fields."""
