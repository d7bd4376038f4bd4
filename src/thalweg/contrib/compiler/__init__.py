"""tf.contrib.compiler: scopes and calls that ask for compilation."""
