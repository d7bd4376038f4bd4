"""`tf.estimator`: models as objects that train, evaluate, predict and export themselves. Loaded when first used."""
