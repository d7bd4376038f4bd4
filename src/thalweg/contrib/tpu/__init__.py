"""tf.contrib.tpu: TPUEstimator and its kin, for programs that also run without TPUs (`use_tpu=False`)."""
