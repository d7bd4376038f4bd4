"""What modules of TensorFlow's internal paths hold beside public names: one file each, found by `as_tensorflow`."""
