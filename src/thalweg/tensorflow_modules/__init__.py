"""What modules of TensorFlow's internal paths hold beside public names: one file per module, found by `as_tensorflow`."""
