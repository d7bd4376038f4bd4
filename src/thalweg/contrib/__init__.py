"""tf.contrib: libraries of TensorFlow 1's programs. Each folder is loaded when first used: `lazy_spaces`."""
