"""tf.contrib.seq2seq: beam search and further helpers; the rest of it is in `thalweg.seq2seq`."""
