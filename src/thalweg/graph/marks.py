"""Private attributes by which the layers that build a graph tell the passes about a node."""

from typing import Final

COMPRESS: Final = "_compress_transfers"
"""Whether float32 results of the node travel to other devices in 16 bits."""

GATES: Final = "_gates_gradients"
"""Marks the nodes of a gate that gradients() builds. Gates of the program itself (`tf.tuple`) lack it."""

DISTINCT: Final = "_distinct_elements"
"""Whether no element of an output of the node is there twice: rows of a gradient with such indices need no sum."""

OWN_STATE: Final = "_own_state"
"""Whether the state that the node creates or uses is of use to one loop only: computed again, it is made again."""
