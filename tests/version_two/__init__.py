"""Tests of TensorFlow 2 names and signatures."""
