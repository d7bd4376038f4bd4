"""State: tf.Variable, variable scopes, partitioned variables, and the functions over collections of variables."""
