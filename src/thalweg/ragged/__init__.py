"""`tf.ragged` and `tf.RaggedTensor`: tensors whose rows have different lengths. Loaded when first used."""
