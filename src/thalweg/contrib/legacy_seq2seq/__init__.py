"""tf.contrib.legacy_seq2seq: sequence-to-sequence models of unrolled steps."""
