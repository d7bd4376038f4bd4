"""SavedModels of functions: written here, and written by TensorFlow 2 (tests/data/make_saved_models.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

TRACED = str(Path(__file__).parents[1] / "data" / "saved_models" / "traced")


class Scale(tf.Module):
    def __init__(self) -> None:
        super().__init__("scale")
        with self.name_scope:
            self.factor = tf.Variable([2.0, 3.0], name="factor")
        self.offset = tf.constant(10.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def scaled(self, x: Any) -> Any:
        return {"y": x * self.factor + self.offset, "total": tf.reduce_sum(x)}

    @tf.function
    def twice(self, x: Any, k: int = 2) -> Any:
        return self.scaled(x)["y"] * float(k), x


def saved(folder: Path, model: Any, signatures: Any = None) -> str:
    path = str(folder / "model")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(model.factor.assign([4.0, 5.0]))
        tf.saved_model.save(model, path, signatures)
    return path


def run_signature(path: str, name: str, **inputs: Any) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], path).signature_def[name]
        feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
        result: dict[str, Any] = session.run({key: info.name for key, info in signature.outputs.items()}, feeds)
        return result


def test_the_only_function_with_a_signature_is_served(tmp_path: Path) -> None:
    values = run_signature(saved(tmp_path, Scale()), "serving_default", x=[[1.0, 2.0]])
    np.testing.assert_array_equal(values["y"], [[14.0, 20.0]])
    assert values["total"] == 3.0


def test_functions_are_saved_under_the_names_asked_for(tmp_path: Path) -> None:
    model = Scale()
    concrete = model.twice.get_concrete_function(tf.TensorSpec([None, 2], tf.float32), k=3)
    path = saved(tmp_path, model, {"one": model.scaled, "other": concrete})
    assert run_signature(path, "one", x=[[1.0, 2.0]])["total"] == 3.0
    values = run_signature(path, "other", x=[[1.0, 2.0]])
    np.testing.assert_array_equal(values["output_0"], [[42.0, 60.0]])
    np.testing.assert_array_equal(values["output_1"], [[1.0, 2.0]])


def test_a_defun_is_saved(tmp_path: Path) -> None:
    model = Scale()

    @tf.experimental.Defun(tf.float32, func_name="Product", out_names=["product"])
    def product(x: Any) -> Any:
        return x * model.factor

    values = run_signature(saved(tmp_path, model, product), "serving_default", x=[1.0, 1.0])
    np.testing.assert_array_equal(values["product"], [4.0, 5.0])


def test_the_program_s_graph_is_left_alone(tmp_path: Path) -> None:
    model = Scale()
    before = {op.name for op in tf.get_default_graph().get_operations()}
    saved(tmp_path, model)
    after = {op.name for op in tf.get_default_graph().get_operations()} - before
    assert not [name for name in after if "serving" in name or "Call" in name]


def test_objects_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    model = Scale()
    with pytest.raises(ValueError, match="no default session"):
        tf.saved_model.save(model, str(tmp_path / "a"))
    with pytest.raises(ValueError, match="without an input_signature"):
        saved(tmp_path, model, model.twice)
    with pytest.raises(ValueError, match="expected a function"):
        saved(tmp_path, model, {"f": lambda x: x})


@pytest.mark.parametrize(
    ("x", "expected"), [([[1, 2]], [[3.9223924, 5.98455]]), ([[-1, -2]], [[-1.9611962, -2.992275]])]
)
def test_a_model_of_tensorflow_2_is_served(x: Any, expected: Any) -> None:
    np.testing.assert_allclose(run_signature(TRACED, "serving_default", x=x)["y"], expected, rtol=1e-6)


def test_a_model_of_tensorflow_2_keeps_state_and_saves_it(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        meta_graph = tf.saved_model.loader.load(session, ["serve"], TRACED)
        signature = meta_graph.signature_def["counted"]
        count, by = signature.outputs["count"].name, signature.inputs["by"].name
        assert [session.run(count, {by: 2}), session.run(count, {by: 3})] == [2, 5]
        saver = meta_graph.saver_def
        session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(tmp_path / "checkpoint")})
    reader = tf.train.NewCheckpointReader(str(tmp_path / "checkpoint"))
    assert reader.get_tensor("count/.ATTRIBUTES/VARIABLE_VALUE") == 5
