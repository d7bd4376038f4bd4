"""Thalweg under TensorFlow's module names: `import tensorflow`, `tensorflow.python.*`, `tensorflow.core.*`."""
