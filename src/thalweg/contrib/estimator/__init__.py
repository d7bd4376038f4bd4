"""tf.contrib.estimator: heads for model functions, and changes of estimators and optimizers."""
