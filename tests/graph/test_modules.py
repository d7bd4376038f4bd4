"""tf.Module, tf.TensorSpec, tf.function and tf.load_op_library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf


class Layer(tf.Module):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        with self.name_scope:
            self.w = tf.Variable(1.0, name="w")
            self.frozen = tf.Variable(1.0, name="frozen", trainable=False)


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope:
            self.layers = [Layer("first"), {"second": Layer()}]
            self.again = self.layers[0]


def test_a_module_finds_variables_and_modules_in_its_attributes() -> None:
    model = Model()
    names = {v.name for v in model.variables}
    assert names == {"model/first/w:0", "model/first/frozen:0", "model/layer/w:0", "model/layer/frozen:0"}
    assert len(model.trainable_variables) == 2
    assert len(model.submodules) == 2


def test_a_module_name_must_be_an_identifier() -> None:
    with pytest.raises(ValueError, match="identifier"):
        tf.Module("no name")


def test_a_spec_describes_a_tensor() -> None:
    x = tf.placeholder(tf.float32, [None, 3], "x")
    spec = tf.TensorSpec.from_tensor(x)
    assert spec == tf.TensorSpec([None, 3], tf.float32, "x")
    assert spec.is_compatible_with(tf.TensorSpec([2, 3]))
    assert not spec.is_compatible_with(tf.TensorSpec([2, 3], tf.int32))


def test_a_function_adds_its_ops_to_the_current_graph() -> None:
    @tf.function
    def twice(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    with tf.Session() as session:
        assert session.run(twice(tf.constant(2.0))) == 4.0


def test_ops_load_from_a_file(tmp_path: Path) -> None:
    source = tmp_path / "triple.py"
    source.write_text(
        "from thalweg.graph.op_registry import define, python_kernel\n"
        "from thalweg.graph.apply import apply\n"
        "from thalweg.graph import shape_functions as shapes\n"
        "define('_TripleForTest', 'x: T -> y: T', 'T: {float, double}', shape=shapes.unchanged)\n"
        "@python_kernel('_TripleForTest')\n"
        "def _kernel(inputs, attrs):\n"
        "    return inputs[0] * 3\n"
        "def triple(x):\n"
        "    return apply('_TripleForTest', x, name='triple')\n"
    )
    from thalweg.graph.definitions import op_registry

    try:
        library = tf.load_op_library(str(source))
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(library.triple([1.0, 2.0])), [3.0, 6.0])
    finally:
        op_registry._OPS.pop("_TripleForTest", None)


def test_op_libraries_that_cannot_be_loaded_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError):
        tf.load_op_library(str(tmp_path / "absent.py"))
    library = tmp_path / "ops.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(tf.errors.UnimplementedError):
        tf.load_op_library(str(library))
