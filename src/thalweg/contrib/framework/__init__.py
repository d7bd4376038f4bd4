"""tf.contrib.framework: arg_scope, variables of models, checkpoints."""
