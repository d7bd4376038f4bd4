"""tf.contrib.learn: names that are found elsewhere today."""

from __future__ import annotations

from thalweg.datasets import input_data
from thalweg.graph.definitions.op_registry import export_value

_SPACES = ("contrib.learn.datasets.mnist", "contrib.learn.python.learn.datasets.mnist")
for _space in _SPACES:
    for _name in ("DataSet", "Datasets", "read_data_sets", "dense_to_one_hot", "extract_images", "extract_labels"):
        export_value(getattr(input_data, _name), f"{_space}.{_name}")


class ModeKeys:
    """The phases of a model function."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


export_value(ModeKeys, "contrib.learn.ModeKeys")
