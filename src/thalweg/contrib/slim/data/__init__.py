"""tf.contrib.slim data: datasets of files, decoders of records, providers of tensors."""
