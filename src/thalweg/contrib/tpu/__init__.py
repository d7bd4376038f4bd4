"""tf.contrib.tpu: estimators for TPUs, as far as their programs run without one."""
