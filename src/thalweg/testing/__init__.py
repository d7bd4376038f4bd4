"""tf.test: test cases, gradient checks and benchmarks. Loaded when first used: see `namespace`."""
