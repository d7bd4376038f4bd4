"""Recurrent cells: the protocol, shapes, names, sharing, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

cells = tf.nn.rnn_cell


def names() -> list[str]:
    return [v.name for v in tf.global_variables()]


def test_names_of_variables_are_those_of_tensorflow() -> None:
    outputs, _ = tf.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.zeros([3, 6, 4]), dtype=tf.float32)
    assert names() == ["rnn/basic_lstm_cell/kernel:0", "rnn/basic_lstm_cell/bias:0"]
    assert outputs.shape.as_list() == [3, 6, 5]


def test_two_networks_get_scopes_of_their_own_and_share_on_request() -> None:
    x = tf.zeros([3, 6, 4])
    cell = cells.GRUCell(5)
    tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    assert len(names()) == 4
    with pytest.raises(ValueError, match="already exists"):
        tf.nn.dynamic_rnn(cells.GRUCell(5), x, dtype=tf.float32)
    with tf.variable_scope("", reuse=True):
        tf.nn.dynamic_rnn(cells.GRUCell(5), x, dtype=tf.float32)
    assert len(names()) == 4


class Counter(cells.RNNCell):
    """A cell of a user: all in __call__, variables through get_variable."""

    @property
    def state_size(self) -> Any:
        return 2

    @property
    def output_size(self) -> Any:
        return 2

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        with tf.variable_scope(scope or "counter"):
            step = tf.get_variable("step", [2], initializer=tf.ones_initializer())
        return state + step, state + step


class Scaled(cells.RNNCell):
    """A cell of a user that only has `call`."""

    @property
    def state_size(self) -> Any:
        return (2, tf.TensorShape([2]))

    @property
    def output_size(self) -> Any:
        return 2

    def call(self, inputs: Any, state: Any) -> Any:
        factor = tf.get_variable("factor", [], initializer=tf.constant_initializer(3.0))
        return inputs * factor, (state[0] + inputs, state[1])


def test_a_cell_may_override_all_of_the_call() -> None:
    outputs, state = tf.nn.dynamic_rnn(Counter(), tf.zeros([1, 3, 2]), dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(outputs)[0, :, 0], [1, 2, 3])
        np.testing.assert_array_equal(session.run(state), [[3, 3]])
    assert names() == ["rnn/counter/step:0"]


def test_a_cell_may_make_variables_while_it_is_called() -> None:
    cell = Scaled()
    outputs, state = tf.nn.static_rnn(cell, [tf.ones([1, 2])] * 2, dtype=tf.float32)
    assert names() == ["rnn/scaled/factor:0"]
    assert [v.name for v in cell.trainable_weights] == names()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(outputs[1]), [[3, 3]])
        np.testing.assert_array_equal(session.run(state[0]), [[2, 2]])


def test_zero_state_knows_its_shape_and_takes_a_dynamic_batch() -> None:
    cell = cells.MultiRNNCell([cells.LSTMCell(3, num_proj=2), cells.GRUCell(4)])
    state = cell.zero_state(5, tf.float64)
    assert state[0].c.shape.as_list() == [5, 3]
    assert state[0].h.shape.as_list() == [5, 2]
    assert state[1].dtype == tf.float64
    size = tf.placeholder(tf.int32, [])
    state = cell.zero_state(size, tf.float32)
    assert state[1].shape.as_list() == [None, 4]
    with tf.Session() as session:
        assert session.run(state[1], {size: 3}).shape == (3, 4)


def test_unknown_batch_and_time() -> None:
    x = tf.placeholder(tf.float32, [None, None, 4])
    lengths = tf.placeholder(tf.int32, [None])
    outputs, state = tf.nn.dynamic_rnn(cells.GRUCell(5), x, lengths, dtype=tf.float32)
    assert outputs.shape.as_list() == [None, None, 5]
    assert state.shape.as_list() == [None, 5]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values, last = session.run([outputs, state], {x: np.ones([2, 7, 4]), lengths: [3, 5]})
    assert values.shape == (2, 7, 5)
    assert not values[0, 3:].any()
    assert not values[1, 5:].any()
    np.testing.assert_array_equal(values[0, 2], last[0])
    np.testing.assert_array_equal(values[1, 4], last[1])


def test_structured_inputs() -> None:
    class Sum(cells.RNNCell):
        state_size = 3
        output_size = (3, 3)

        def call(self, inputs: Any, state: Any) -> Any:
            return (inputs["a"], inputs["b"]), state + inputs["a"] * inputs["b"]

    inputs = {"a": tf.fill([1, 2, 3], 2.0), "b": tf.fill([1, 2, 3], 3.0)}
    outputs, state = tf.nn.dynamic_rnn(Sum(), inputs, dtype=tf.float32)
    with tf.Session() as session:
        (a, b), last = session.run([outputs, state])
    assert a.shape == b.shape == (1, 2, 3)
    np.testing.assert_array_equal(last, [[12, 12, 12]])


def test_the_simple_loop_masks_nothing() -> None:
    tf.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.zeros([3, 6, 4]), dtype=tf.float32)
    types = [op.type for op in tf.get_default_graph().get_operations()]
    assert not {"Select", "Shape", "StridedSlice", "Fill", "LogicalAnd"} & set(types)


def test_loop_and_its_gradient_are_lowered() -> None:
    from thalweg.passes.drop_identities import drop_identities
    from thalweg.passes.lower_loops import lower_loops
    from thalweg.passes.prune import prune

    outputs, _ = tf.nn.dynamic_rnn(cells.BasicLSTMCell(5), tf.zeros([3, 6, 4]), dtype=tf.float32)
    gradients = tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())
    graph = lower_loops(drop_identities(prune([], gradients, [])), lambda node: True)
    types = [node.op for node in graph.nodes.values()]
    assert types.count("_Loop") == 2
    assert "Enter" not in types


@pytest.mark.parametrize("unrolled", [False, True])
def test_inputs_are_multiplied_outside_of_the_steps(unrolled: bool) -> None:
    class Doubled(cells.BasicLSTMCell):
        """A cell of a user: its inputs must reach it as they are."""

        def call(self, inputs: Any, state: Any) -> Any:
            return super().call(2.0 * inputs, state)

    x = tf.constant(np.random.RandomState(0).randn(3, 4, 5).astype(np.float32))

    def run(cell: Any, x: Any) -> Any:
        if unrolled:
            return tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)[1].h
        return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[1].h

    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        own = run(cells.BasicLSTMCell(6, name="cell"), 2.0 * x)
        products = [op for op in tf.get_default_graph().get_operations() if op.type == "MatMul"]
        users = run(Doubled(6, name="cell"), x)
    assert sorted({op.inputs[1].shape.as_list()[0] for op in products}) == [5, 6]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        a, b = session.run([own, users])
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_state_saving() -> None:
    class Saver:
        def __init__(self) -> None:
            self.saved: dict[str, Any] = {}

        def state(self, name: str) -> Any:
            return tf.zeros([1, 3])

        def save_state(self, name: str, value: Any) -> Any:
            self.saved[name] = value
            return tf.identity(value)

    saver = Saver()
    outputs, state = tf.nn.static_state_saving_rnn(
        cells.LSTMCell(3), [tf.ones([1, 2])] * 2, saver, state_name=("c", "h")
    )
    assert sorted(saver.saved) == ["c", "h"]
    assert isinstance(state, cells.LSTMStateTuple)
    assert len(outputs) == 2
    with pytest.raises(ValueError, match="state_name"):
        tf.nn.static_state_saving_rnn(cells.LSTMCell(3), [tf.ones([1, 2])], saver, state_name="c")


def test_state_dropout_spares_the_memory_cells() -> None:
    cell = cells.DropoutWrapper(cells.LSTMCell(50), state_keep_prob=0.5, seed=1)
    _, state = cell(tf.ones([1, 3]), cell.zero_state(1, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        c, h = session.run(state)
    assert np.count_nonzero(c) == 50
    assert 5 < np.count_nonzero(h) < 45


def test_a_filter_chooses_the_states_that_get_dropout() -> None:
    inner = cells.MultiRNNCell([cells.GRUCell(50), cells.LSTMCell(50)])
    cell = cells.DropoutWrapper(
        inner, state_keep_prob=0.5, dropout_state_filter_visitor=lambda s: not isinstance(s, cells.LSTMStateTuple)
    )
    _, (first, second) = cell(tf.ones([1, 3]), cell.zero_state(1, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first_value, second_value = session.run([first, second])
    assert np.count_nonzero(first_value) < 45
    assert np.count_nonzero(second_value.c) == np.count_nonzero(second_value.h) == 50


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_cells_of_float64_and_float16(dtype: Any) -> None:
    outputs, _ = tf.nn.dynamic_rnn(cells.LSTMCell(3), tf.ones([1, 2, 3], dtype), dtype=dtype)
    assert outputs.dtype == dtype
    assert tf.trainable_variables()[0].dtype == dtype
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(outputs).shape == (1, 2, 3)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="depth of inputs"):
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.placeholder(tf.float32, [None, 4, None]), dtype=tf.float32)
    x = tf.zeros([3, 6, 4])
    with pytest.raises(TypeError, match="not an RNNCell"):
        tf.nn.dynamic_rnn("cell", x, dtype=tf.float32)
    with pytest.raises(ValueError, match="dtype"):
        tf.nn.dynamic_rnn(cells.GRUCell(5), x)
    with pytest.raises(ValueError, match="vector"):
        tf.nn.dynamic_rnn(cells.GRUCell(5), x, sequence_length=[[1]], dtype=tf.float32)
    with pytest.raises(ValueError, match="2 elements"):
        tf.nn.dynamic_rnn(cells.GRUCell(5), x, sequence_length=[1, 2], dtype=tf.float32)
    with pytest.raises(ValueError, match="rank"):
        tf.nn.dynamic_rnn(cells.GRUCell(5), tf.zeros([3]), dtype=tf.float32)
    with pytest.raises(ValueError, match="inputs"):
        tf.nn.static_rnn(cells.GRUCell(5), [], dtype=tf.float32)
    with pytest.raises(TypeError, match="sequence"):
        tf.nn.static_rnn(cells.GRUCell(5), x, dtype=tf.float32)
    with pytest.raises(ValueError, match="at least one"):
        cells.MultiRNNCell([])
    with pytest.raises(ValueError, match="tuples of states"):
        cells.MultiRNNCell([cells.LSTMCell(3)], state_is_tuple=False)
    with pytest.raises(ValueError, match="between 0 and 1"):
        cells.DropoutWrapper(cells.GRUCell(3), input_keep_prob=1.5)
    with pytest.raises(ValueError, match="input_size"):
        cells.DropoutWrapper(cells.GRUCell(3), 0.5, variational_recurrent=True, dtype=tf.float32)
    with pytest.raises(ValueError, match="shape"):
        cells.GRUCell(5)(tf.placeholder(tf.float32, [3, None]), tf.zeros([3, 5]))
