"""tf.contrib.cudnn_rnn: the recurrent layers of cuDNN, on the CPU."""
