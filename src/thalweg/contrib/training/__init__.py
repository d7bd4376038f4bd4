"""tf.contrib.training: hyperparameters, training loops, evaluation, batches by length."""
