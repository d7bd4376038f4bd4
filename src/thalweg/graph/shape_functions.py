"""The shape functions under the path that user-written op libraries import (`tf.load_op_library`)."""

from thalweg.graph.definitions.shape_functions import *  # noqa: F403
