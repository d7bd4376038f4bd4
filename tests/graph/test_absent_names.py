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
    "contrib.nn",
    "train.AdamOptimizer",
]


@pytest.mark.parametrize(("name", "said"), [
    ("matmull", ". Did you mean 'tf.matmul'?"),
    ("zeroz", ". Did you mean 'tf.zeros'?"),
    ("keraz", ""),
    ("GradientTapes", ""),
    ("nogradient", ". Did you mean 'tf.NoGradient'?"),
    ("contrib.gan", ""),
    ("nn.relative", ""),
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


def test_a_misspelt_op_type_or_operation_is_answered_with_a_close_one() -> None:
    with pytest.raises(AttributeError, match=r"Did you mean 'tf\.raw_ops\.MatMul'"):
        tf.raw_ops.MatMull  # noqa: B018
    tf.constant(1.0, name="alpha")
    for name in ("alhpa", "alpah:0"):
        with pytest.raises(KeyError, match="Did you mean 'alpha'"):
            tf.get_default_graph().as_graph_element(name)
    with pytest.raises(KeyError) as info:
        tf.get_default_graph().as_graph_element("beta")
    assert "mean" not in str(info.value)
