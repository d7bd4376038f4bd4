"""tf.contrib.learn: what is left of tf.contrib.learn: datasets, vocabularies, aliases."""
