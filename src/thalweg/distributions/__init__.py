"""`tf.distributions`: probability distributions as small classes on ops. Loaded when first used."""
