"""tf.contrib.util: what a GraphDef uses."""
