"""Checkpoints of objects: `tf.train.Checkpoint`, which finds variables by the path of attributes to them."""
