"""tf.contrib: libraries of TensorFlow 1 that its programs stand on. Each folder is loaded when first used: `lazy_spaces`."""
