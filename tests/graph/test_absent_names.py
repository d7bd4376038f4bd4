"""What is said about public names that are not there."""

from __future__ import annotations

import pytest

import thalweg as tf
from thalweg import lazy_spaces
from thalweg.graph.definitions import op_registry
from thalweg.platform import absent_names

PUBLIC = [
    "matmul",
    "zeros",
    "NoGradient",
    "cond",
    "nn.conv2d",
    "layers.conv2d",
    "disable_v2_behaviour",
    "nn.relu",
    "nn.softmax",
    "train.AdamOptimizer",
]


@pytest.mark.parametrize(("name", "said"), [
    ("matmull", ". Did you mean 'tf.matmul'?"),
    ("zeroz", ". Did you mean 'tf.zeros'?"),
    ("keraz", ""),
    ("GradientTapes", ""),
    ("nn.reluu", ". Did you mean 'tf.nn.relu'?"),
    ("conv2d", ". Did you mean 'tf.nn.conv2d'?"),
    ("enable_v2_behaviour", ""),
    ("relu", ". Did you mean 'tf.nn.relu'?"),
    ("train.AdamOptimiser", ". Did you mean 'tf.train.AdamOptimizer'?"),
    ("__path__", ""),
    ("nn._private", ""),
])  # fmt: skip
def test_only_close_names_are_suggested(name: str, said: str) -> None:
    assert absent_names.advice(name, PUBLIC) == said


def test_absent_names_say_what_to_use() -> None:
    assert "model freeze" in absent_names.advice("lite", PUBLIC)
    with pytest.raises(AttributeError, match=r"Did you mean .tf\.nn\.relu."):
        tf.nn.reluu  # noqa: B018


def test_names_of_libraries_that_load_late_are_suggested() -> None:
    with pytest.raises(AttributeError, match=r"Did you mean .tf\.keras\.layers\.Dense."):
        tf.keras.layers.Densee  # noqa: B018
    with pytest.raises(AttributeError, match=r"Did you mean .tf\.RaggedTensor."):
        tf.RaggedTensr  # noqa: B018


def test_every_name_that_is_recommended_is_there() -> None:
    public = {*op_registry.exports(), *lazy_spaces.single_names()}
    for text in absent_names._INSTEAD.values():
        for word in text.replace("(", " ").replace(",", " ").replace(":", " ").split():
            name = word.rstrip(".,;").removeprefix("tf.")
            if word.startswith("tf.") and name != "train":
                assert name in public or any(each.startswith(name + ".") for each in public), word
