"""TensorFlow 2's names and signatures: `thalweg.compat.v2`, loaded when it is first used."""
