"""Thalweg under TensorFlow's module names: what `import tensorflow`, `tensorflow.python.*` and `tensorflow.core.*` give."""
