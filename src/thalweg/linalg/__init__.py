"""`tf.linalg.LinearOperator*`: matrices by what they do to vectors. Loaded when first used."""
