"""Sequence to sequence models: attention, decoders and the helpers that feed them (`tf.contrib.seq2seq`)."""
