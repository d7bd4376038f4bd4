"""Modules below `tensorflow.python` that programs import for names that are not public."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.python import pywrap_tensorflow, tf2
from thalweg.python.client import session
from thalweg.python.framework import ops, test_util
from thalweg.python.ops import (
    confusion_matrix,
    control_flow_util,
    custom_gradient,
    metrics_impl,
    resources,
    variable_scope,
    variables,
)
from thalweg.python.platform import build_info
from thalweg.python.util import all_util, dispatch, function_utils, lazy_loader, object_identity, tf_contextlib
from thalweg.python.util.protobuf import compare


def test_modules_of_gradients_can_be_imported_for_their_effect() -> None:
    import thalweg.python.ops.array_grad
    import thalweg.python.ops.nn_grad

    assert thalweg.python.ops.nn_grad is not thalweg.python.ops.array_grad


def test_files_of_contrib_libraries_know_their_own_names_and_the_librarys() -> None:
    from thalweg.contrib.framework.python.ops import variables
    from thalweg.contrib.learn.python.learn.preprocessing.text import VocabularyProcessor
    from thalweg.contrib.slim.python.slim.data import data_decoder, tfexample_decoder

    assert tfexample_decoder.Tensor is tf.contrib.slim.tfexample_decoder.Tensor
    assert data_decoder.DataDecoder is tf.contrib.slim.data_decoder.DataDecoder
    assert variables.get_or_create_global_step is tf.train.get_or_create_global_step
    assert tf.contrib.slim.initializers.xavier_initializer is tf.contrib.layers.xavier_initializer
    assert VocabularyProcessor is tf.contrib.learn.preprocessing.VocabularyProcessor


def test_layers_have_their_older_names() -> None:
    from thalweg.python.framework import device_spec
    from thalweg.python.layers import convolutional, normalization

    assert convolutional.Convolution2DTranspose is convolutional.Deconvolution2D is tf.layers.Conv2DTranspose
    assert convolutional.Convolution1D is tf.layers.Conv1D and normalization.BatchNorm is tf.layers.BatchNormalization
    assert convolutional.conv2d is tf.layers.conv2d and device_spec.DeviceSpecV1 is tf.DeviceSpec


def test_modules_of_estimators_have_their_names() -> None:
    from thalweg.python.estimator import model_fn
    from thalweg.python.estimator.inputs import numpy_io

    assert model_fn.EstimatorSpec is tf.estimator.EstimatorSpec
    assert numpy_io.numpy_input_fn is tf.estimator.inputs.numpy_input_fn


class Pair:
    """A class of a program: two tensors that are fetched as one value."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


def test_sessions_fetch_and_feed_registered_classes() -> None:
    session.register_session_run_conversion_functions(
        Pair,
        lambda pair: ([pair.a, pair.b], lambda values: values[0] + values[1]),
        lambda pair, value: [(pair.a, value), (pair.b, value)],
    )
    with pytest.raises(ValueError, match="already been registered"):
        session.register_session_run_conversion_functions(Pair, lambda pair: ([], None))
    with tf.Graph().as_default(), tf.Session() as sess:
        pair = Pair(tf.constant(1.0), tf.constant(2.0))
        assert sess.run({"sum": pair, "again": [pair]}) == {"sum": 3.0, "again": [3.0]}
        assert sess.run([pair, pair.a * 2], {pair: 5.0}) == [10.0, 10.0]


def test_events_are_written_one_by_one(tmp_path: Any) -> None:
    writer = pywrap_tensorflow.EventsWriter(str(tmp_path / "events").encode())
    event = tf.Event(step=3, wall_time=1.0)
    event.summary.value.add(tag="loss", simple_value=0.5)
    writer.WriteEvent(event)
    assert writer.Flush() and writer.Close()
    (file,) = tmp_path.iterdir()
    assert writer.FileName() == str(file).encode() and ".out.tfevents." in file.name
    first, second, *_ = tf.train.summary_iterator(str(file))
    assert first.file_version == "brain.Event:2"
    assert (second.step, second.summary.value[0].simple_value) == (3, 0.5)


def test_metrics_take_apart_labels_and_predictions() -> None:
    with tf.Graph().as_default():
        predictions, labels, weights = metrics_impl._remove_squeezable_dimensions(tf.zeros([3, 1]), tf.zeros([3]), None)
        assert predictions.shape == labels.shape == (3,) and weights is None
        labels, predictions = confusion_matrix.remove_squeezable_dimensions(tf.zeros([3, 1]), tf.zeros([3]))
        assert labels.shape == predictions.shape == (3,)
        total = metrics_impl.metric_variable([2], tf.float32, name="total")
        assert tf.local_variables() == [total] and total.op.name == "total" and not tf.trainable_variables()
        with tf.Session() as sess:
            assert sess.run(metrics_impl._safe_div(3.0, 0.0)) == 0.0
        grown = metrics_impl.metric_variable([0], tf.int64, validate_shape=False)
        assert grown.shape.ndims is None
        values, updates = metrics_impl._confusion_matrix_at_thresholds([0, 1, 1], [0.2, 0.9, 0.4], [0.5], None, ["tp"])
        with tf.Session() as sess:
            sess.run(tf.local_variables_initializer())
            assert sess.run(updates)["tp"].tolist() == [1.0] and sess.run(values)["tp"].tolist() == [1.0]
        with pytest.raises(ValueError, match="Invalid key: none"):
            metrics_impl._confusion_matrix_at_thresholds([0], [0.2], [0.5], None, ["none"])
    assert confusion_matrix.confusion_matrix is tf.confusion_matrix


def test_variables_are_made_by_functions_of_their_module() -> None:
    with tf.Graph().as_default():
        with variable_scope._pure_variable_scope("scope") as scope:
            made = tf.get_variable("v", [])
            node = tf.constant(1.0, name="c")
        assert (scope.name, made.op.name, node.op.name) == ("scope", "scope/v", "c")
        local = variable_scope.variable(1.0, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        assert tf.local_variables() == [local] and isinstance(local, variables.VariableV1)
    assert custom_gradient.custom_gradient is tf.custom_gradient


def test_resources_are_created_together_and_reported_until_then() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        made = tf.Variable(1.0, name="made")
        resources.register_resource(made, made.initializer, tf.is_variable_initialized(made))
        missing = resources.report_uninitialized_resources()
        assert sess.run(missing).tolist() == [b"made:0"]
        sess.run(resources.initialize_resources(resources.shared_resources()))
        assert sess.run(missing).tolist() == [] and resources.local_resources() == []


def test_operations_know_whether_they_are_in_a_loop_or_a_branch() -> None:
    inside: dict[str, Any] = {}

    def body(i: Any) -> Any:
        inside["loop"] = tf.add(i, 1)
        inside["both"] = tf.cond(i > 1, lambda: inside.setdefault("branch", tf.add(i, 2)), lambda: i)
        return inside["loop"]

    with tf.Graph().as_default():
        outside = tf.constant(0)
        tf.while_loop(lambda i: i < 3, body, [outside])
    assert control_flow_util.IsInWhileLoop(inside["loop"].op) and not control_flow_util.IsInCond(inside["loop"].op)
    assert control_flow_util.IsInWhileLoop(inside["branch"].op) and control_flow_util.IsInCond(inside["branch"].op)
    assert not control_flow_util.IsInWhileLoop(outside.op) and not control_flow_util.IsInCond(outside.op)
    assert not control_flow_util.IsInXLAContext(outside.op)


def test_values_that_are_used_like_tensors() -> None:
    with tf.Graph().as_default():
        assert ops.is_dense_tensor_like(tf.constant(1)) and ops.is_dense_tensor_like(tf.Variable(1.0))
        assert not ops.is_dense_tensor_like(3.0) and not ops.is_dense_tensor_like(np.ones(2))
        assert ops._as_graph_element(tf.Variable(1.0)).dtype.base_dtype == tf.float32
        assert ops._as_graph_element(3) is None
    with pytest.raises(TypeError, match="does not define a `name` property"):
        ops.register_dense_tensor_like_type(Pair)


def test_objects_are_told_apart_by_identity() -> None:
    a, b = [1], [1]
    some = object_identity.ObjectIdentitySet([a])
    assert a in some and b not in some
    some.update([b, a])
    assert len(some) == 2 and list(some) == [a, b]
    some.discard(a)
    assert next(iter(some)) is b
    table = object_identity.ObjectIdentityDictionary()
    table[a], table[b] = 1, 2
    assert (table[a], table[b], len(table), list(table)) == (1, 2, 2, [a, b])


def test_functions_tell_their_arguments() -> None:
    def function(a: Any, b: Any, *rest: Any, c: Any = 1) -> None: ...

    assert function_utils.fn_args(function) == ("a", "b", "c")
    assert function_utils.fn_args(functools.partial(function, 1, c=2)) == ("b",)
    assert function_utils.fn_args(Model().call) == ("x",) == function_utils.fn_args(Model())
    assert function_utils.has_kwargs(lambda **k: 0) and not function_utils.has_kwargs(function)
    assert function_utils.get_func_name(function) == "function" and function_utils.get_func_name(Model()) == "Model"


class Model:
    """Something that can be called."""

    def call(self, x: Any) -> Any:
        return x

    __call__ = call


def test_lazy_modules_are_imported_at_first_use() -> None:
    names: dict[str, Any] = {}
    names["late"] = late = lazy_loader.LazyLoader("late", names, "colorsys")
    assert late.rgb_to_hsv(0, 0, 0) == (0, 0, 0) and names["late"] is not late


def test_small_modules() -> None:
    @tf_contextlib.contextmanager
    def context() -> Any:
        yield 3

    with context() as value:
        assert value == 3
    assert not tf2.enabled() and not build_info.is_cuda_build
    assert dispatch.add_dispatch_support(context) is context
    assert "test_small_modules" in all_util.make_all(__name__)


def test_messages_are_compared_and_differences_shown() -> None:
    a, b = tf.ConfigProto(inter_op_parallelism_threads=2), tf.ConfigProto(inter_op_parallelism_threads=3)
    compare.assertProtoEqual(unittest.TestCase(), a, "inter_op_parallelism_threads: 2")
    with pytest.raises(AssertionError, match="-inter_op_parallelism_threads: 2"):
        compare.assertProtoEqual(unittest.TestCase(), a, b)


def test_tools_of_unit_tests() -> None:
    ran = []

    class Some(test_util.TensorFlowTestCase):
        @test_util.run_in_graph_and_eager_modes(config=None)
        @test_util.run_deprecated_v1
        def test_one(self) -> None:
            ran.append("one")
            with test_util.use_gpu():
                self.assertEqual(self.evaluate(tf.constant(3)), 3)

        @test_util.skip_if(lambda: True)
        def test_skipped(self) -> None:
            self.fail("not skipped")

        @test_util.run_gpu_only
        def test_gpu(self) -> None:
            self.fail("not skipped")

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Some).run(result)
    assert result.wasSuccessful() and ran and len(result.skipped) == 2
    assert test_util.NHWCToNCHW([1, 2, 3, 4]) == [1, 4, 2, 3]
    with tf.Graph().as_default() as graph:
        assert test_util.NCHWToNHWC(tf.zeros([1, 4, 2, 3])).shape == (1, 2, 3, 4)
        tf.constant(1.0, name="one")
        assert test_util.assert_ops_in_graph({"one": "Const"}, graph)["one"].op == "Const"
        with pytest.raises(ValueError, match="different"):
            test_util.assert_ops_in_graph({"one": "Add"}, graph)
        with pytest.raises(ValueError, match="not found"):
            test_util.assert_ops_in_graph({"two": "Add"}, graph)
        test_util.set_producer_version(graph, 21)
        assert graph.graph_def_versions.producer == 21


def test_a_star_import_binds_the_names_of_a_file_and_hides_none_of_pythons() -> None:
    bound: dict[str, Any] = {}
    exec("from thalweg.python.ops.rnn_cell import *", bound)
    assert bound["RNNCell"] is tf.nn.rnn_cell.RNNCell and "range" not in bound
    exec("from thalweg.python.ops.math_ops import *", bound)
    assert bound["reduce_mean"] is tf.math.reduce_mean and "placeholder" not in bound


def test_the_debugger_can_be_imported_and_says_what_there_is_instead() -> None:
    from thalweg.python import debug as tf_debug
    from thalweg.python.debug import DumpingDebugWrapperSession

    assert tf_debug.has_inf_or_nan(None, np.array([1.0, np.nan])) and not tf_debug.has_inf_or_nan(None, np.array([1]))
    with pytest.raises(NotImplementedError, match="LocalCLIDebugWrapperSession: Thalweg has no tfdbg"):
        tf_debug.LocalCLIDebugWrapperSession(None)
    with pytest.raises(NotImplementedError, match="DumpingDebugWrapperSession"):
        DumpingDebugWrapperSession(None)


def test_matrices_of_linear_operators_broadcast() -> None:
    from thalweg.python.ops.linalg import linear_operator_util

    lower = np.array([[2.0, 0.0], [1.0, 4.0]])
    right = np.arange(12.0).reshape(3, 2, 2)
    with tf.Graph().as_default(), tf.Session() as sess:
        product = sess.run(linear_operator_util.matmul_with_broadcast(lower, right))
        solved = sess.run(linear_operator_util.matrix_triangular_solve_with_broadcast(lower, product))
        general = sess.run(linear_operator_util.matrix_solve_with_broadcast(lower, product))
        with pytest.raises(ValueError, match="not a batch of matrices"):
            linear_operator_util.broadcast_matrix_batch_dims([[1.0], lower])
    np.testing.assert_allclose(product, lower @ right)
    np.testing.assert_allclose(solved, right)
    np.testing.assert_allclose(general, right)


def test_specs_of_arguments_are_those_of_tensorflow() -> None:
    from thalweg.python.util import tf_inspect

    def static(x: Any, dtype: Any, name: Any = None) -> None: ...

    static.__annotations__.clear()
    assert tf_inspect.getfullargspec(tf.cast) == tf_inspect.getfullargspec(static)
    assert tf_inspect.getfullargspec(tf.compat.v2.reduce_sum).defaults == (None, False, None)


def test_modules_leave_out_attributes_that_they_are_told_to() -> None:
    class Part(tf.Module):
        _TF_MODULE_IGNORED_PROPERTIES = tf.Module._TF_MODULE_IGNORED_PROPERTIES | {"cache"}

    with tf.Graph().as_default():
        part: Any = Part()
        part.kept, part.cache = tf.Variable(1.0), tf.Variable(2.0)
        assert part.variables == (part.kept,)
