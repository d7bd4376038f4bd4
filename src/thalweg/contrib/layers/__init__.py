"""tf.contrib.layers: layers as functions, with arg_scope and TensorFlow's variable names."""
