"""tf.contrib.graph_editor: selecting, copying and rerouting parts of a graph."""
