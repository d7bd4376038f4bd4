"""Names and op types that graphs of reference variables, and of the first versions, have."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def test_name_of_a_read_gives_the_value_of_a_variable() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        variable = tf.Variable([1.0, 2.0], name="v")
        double = variable * 2
        session.run(variable.initializer)
        read = graph.get_tensor_by_name("v/read:0")
        assert session.run([read, read + 1, "v/read:0"])[1].tolist() == [2.0, 3.0]
        assert session.run(double, {"v/read:0": [5.0, 6.0]}).tolist() == [10.0, 12.0]
        assert graph.get_operation_by_name("v/read").type == "ReadVariableOp"


@pytest.mark.parametrize("name", ["w/read:0", "c/read:0", "read:0"])
def test_other_names_that_end_so_are_not_there(name: str) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="c")
        with pytest.raises(KeyError, match="does not exist"):
            graph.get_tensor_by_name(name)


def test_ops_of_many_matrices_are_read_as_those_of_one() -> None:
    matrices = np.array([[[4.0, 1.0], [1.0, 3.0]], [[2.0, 0.5], [0.5, 1.0]]])
    graph_def = tf.GraphDef()
    graph_def.versions.producer = 8
    constant = graph_def.node.add(name="c", op="Const")
    constant.attr["dtype"].type = tf.float64.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(matrices))
    node = graph_def.node.add(name="o", op="BatchCholesky", input=["c"])
    node.attr["T"].type = tf.float64.as_datatype_enum
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        np.testing.assert_allclose(session.run("o:0"), np.linalg.cholesky(matrices))


def test_reads_of_partitioned_variables_wait_for_nothing() -> None:
    with tf.Graph().as_default() as graph:
        parts = tf.get_variable("p", [4], partitioner=tf.fixed_size_partitioner(2))
        before = set(graph.get_operations())
        with tf.control_dependencies([tf.no_op()]):
            reads = [parts.as_tensor(), tf.convert_to_tensor(parts)]
        fresh = [op for op in graph.get_operations() if op not in before and op.type != "NoOp"]
        assert len(reads) == 2
        assert all(not op.control_inputs for op in fresh)


def test_types_of_devices_keep_their_case_unless_they_are_known() -> None:
    assert tf.DeviceSpec.from_string("/job:a/device:MyDev:1").to_string() == "/job:a/device:MyDev:1"
    assert tf.DeviceSpec(device_type="gpu", device_index=0).to_string() == "/device:GPU:0"


def test_new_shape_of_sparse_values_may_be_unknown() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        shape = tf.placeholder(tf.int64)
        wide = tf.sparse_reset_shape(tf.SparseTensor([[0, 1]], [1.0], [2, 2]), shape)
        assert session.run(wide, {shape: [3, 4]}).dense_shape.tolist() == [3, 4]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(wide, {shape: [1, 4]})
