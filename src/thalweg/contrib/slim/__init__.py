"""tf.contrib.slim: arg_scope, layers, losses, training loops and nets."""
