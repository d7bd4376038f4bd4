"""tf.contrib.solvers: iterative methods of linear algebra."""
